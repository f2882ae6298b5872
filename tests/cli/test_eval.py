"""pbos eval: the tasks from the command line."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr

import pbos


@pytest.fixture
def pairs(tmp_path):
    rows = [("high", "tall", 9.0), ("high", "low", 4.0), ("king", "queen", 8.0), ("king", "cabbage", 1.0)]
    (tmp_path / "pairs.tsv").write_text("a\tb\tscore\n" + "".join(f"{a}\t{b}\t{s}\n" for a, b, s in rows))
    return rows


def test_own_pairs_and_own_model(run, pairs):
    code, out, _ = run("eval", "similarity", "pairs.tsv", "--json")
    assert code == 0
    model = pbos.load()
    expected = spearmanr([model.similarity(a, b) for a, b, _ in pairs], [s for *_, s in pairs]).statistic
    result = json.loads(out)
    assert result["dataset"] == "pairs.tsv"
    assert result["scores"]["spearman"]["value"] == pytest.approx(100 * expected)
    _, out, _ = run("eval", "similarity", "pairs.tsv")
    assert out.splitlines()[0] == f"pairs.tsv\tspearman\t{100 * expected:.3f}"


def test_own_vectors_alone(run, pairs, tmp_path):
    pbos.WordVectors(["high", "tall", "low"], np.array([[1, 0], [1, 0.1], [0, 1]])).write(tmp_path / "v.vec")
    code, out, _ = run("eval", "similarity", "--targets", "v.vec", "pairs.tsv", "--json")
    assert code == 0
    assert json.loads(out)["details"]["missing_pairs"] == 2


def test_published_benchmarks(run, shared_data):
    files = [shared_data / "similarity" / name for name in ("wordsim353.tab", "simlex999.txt")]
    code, out, _ = run("eval", "similarity", *files, "--json")
    assert code == 0
    found = {item["dataset"]: item["scores"]["spearman"]["value"] for item in map(json.loads, out.splitlines())}
    assert list(found) == ["wordsim353.tab", "simlex999.txt"]
    import similarity

    assert found["wordsim353.tab"] == pytest.approx(similarity.score(pbos.load(), files[0]))


def test_heldout(run, small_vectors, tmp_path):
    small_vectors.write(tmp_path / "vectors.bin")
    code, out, _ = run("eval", "heldout", tmp_path / "vectors.bin", "-n", 100, "--json")
    assert code == 0
    assert json.loads(out)["details"]["hidden"] == 100


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("eval similarity nowhere.tsv", "no such file or directory: nowhere.tsv"),
        ("eval similarity WS353", "no such file or directory: WS353"),
        ("eval similarity bad.tsv", "bad.tsv, line 2"),
    ],
)
def test_bad_input(run, tmp_path, arguments, sentence):
    (tmp_path / "bad.tsv").write_text("a\tb\t1\na\tb\n")
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("pbos: ") and sentence in err
    assert err.count("\n") == 1
