"""The neural models of characters: what they see, that they learn, and that their script runs alone."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments import neural

torch.set_num_threads(1)  # other tests run on the other cores
WORDS = ["cat", "cats", "dogs", "at"]


@pytest.fixture(params=neural.MODELS)
def model(request):
    torch.manual_seed(0)
    return neural.MODELS[request.param][0](20, 5, 32).eval()


def test_codes_are_characters_with_marks():
    codes = neural.alphabet(WORDS)
    assert sorted(codes) == sorted({*"catsdog"}) and min(codes.values()) == 4
    long = "cat" * 10
    found = neural.encode(["cat", "cot?", long], codes)
    c, a, t, o = (codes[letter] for letter in "cato")
    assert found[0].tolist() == [1, c, a, t, 2] + [0] * 21
    assert found[1].tolist()[:6] == [1, c, o, t, 3, 2]
    assert found[2].tolist() == [1, *[c, a, t] * 8, 2]


def test_padding_does_not_count(model):
    """A word alone has the same vector as among others, and without padding. (The CNN's filters reach into it.)"""
    codes = neural.encode(WORDS, neural.alphabet(WORDS))
    with torch.no_grad():
        for row, expected in zip(codes, model(codes), strict=True):
            width = len(row) if isinstance(model, neural.CNN) else (row > 0).sum()
            assert torch.allclose(model(row[None, :width])[0], expected, atol=1e-5)


def test_order_of_characters_counts(model):
    codes = neural.alphabet(WORDS)
    with torch.no_grad():
        one, other = model(neural.encode(["cats", "cast"], codes))
    assert not torch.allclose(one, other, atol=1e-4)


def test_the_bilstm_is_pytorchs_own():
    """Its two LSTMs together are PyTorch's bidirectional one, whose last states come from both ends of a word."""
    ours = neural.BiLSTM(20, 5, 32).eval()
    theirs = torch.nn.LSTM(8, 64, batch_first=True, bidirectional=True)
    for suffix, one in (("", ours.forwards), ("_reverse", ours.backwards)):
        for name, values in one.named_parameters():
            getattr(theirs, name + suffix).data.copy_(values.data)
    row = neural.encode(["cats"], neural.alphabet(WORDS))[:, :6]
    with torch.no_grad():
        states = theirs(ours.embedding(row))[1][0]
        assert torch.allclose(ours(row), ours.top(torch.cat([states[0], states[1]], dim=1)), atol=1e-5)


@pytest.mark.parametrize("kind", neural.MODELS)
def test_they_learn_what_the_spelling_tells(kind):
    """Vectors that depend on the first letter only are predicted for words never seen."""
    random = np.random.default_rng(0)
    letters = np.array(list("abcdef"))
    words = list(dict.fromkeys("".join(random.choice(letters, 5)) for _ in range(900)))
    of_letter = dict(zip(letters, random.normal(size=(6, 4)), strict=True))
    vectors = np.array([of_letter[word[0]] for word in words])
    found, report = neural.train(
        kind, words[:-100], vectors[:-100], np.arange(len(words) - 100), words[-100:], epochs=10, batch=32, size=32
    )
    near = (found * vectors[-100:]).sum(axis=1)
    near /= np.linalg.norm(found, axis=1) * np.linalg.norm(vectors[-100:], axis=1)
    assert near.mean() > 0.8
    assert report["losses"][-1] < report["losses"][0] and report["words"] == len(words) - 100 - (len(words) - 100) // 10


def test_the_script_runs_with_numpy_and_pytorch_only(tmp_path):
    random = np.random.default_rng(0)
    words = [f"wörd{at}" for at in range(60)]
    neural.write_job(tmp_path / "job.npz", words, random.normal(size=(60, 4)), np.arange(60), ["asked", "für"])
    code = "import runpy, sys; sys.modules['pbos'] = sys.modules['numba'] = None; sys.argv = sys.argv[1:]; "
    code += "runpy.run_path(sys.argv[0], {}, '__main__')"
    given = [Path(neural.__file__).resolve(), tmp_path / "job.npz", tmp_path, "--epochs", "1", "--size", "16"]
    options = ["--models", "cnn", "bilstm", "--device", "cpu"]
    subprocess.run([sys.executable, "-I", "-c", code, *given, *options], check=True)
    asked, vectors = neural.read_vectors(tmp_path / "bilstm.npz")
    assert asked == ["asked", "für"] and vectors.shape == (2, 4) and np.isfinite(vectors).all()
    assert list(json.loads((tmp_path / "results.json").read_text())) == ["cnn", "bilstm"]
