"""Copies of a model, in threads and processes; smaller models."""

import copy
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos import InputError
from pbos.kernels.vectors import compose
from pbos.words import subwords

# Copies, threads, processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clone", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy])
def test_copies_are_by_content(model, clone, vectors):
    other = clone(model)
    words = [*vectors.words, "abcabcabc"]
    assert np.array_equal(other.embed(words, exact=True), model.embed(words, exact=True))
    assert other.words == model.words
    assert other.config() == model.config()
    assert repr(other) == repr(model)


def test_pickle_does_not_need_the_file(small, tmp_path):
    small.save(tmp_path / "m")
    content = pickle.dumps(pbos.load(tmp_path / "m"))
    for file in (tmp_path / "m").iterdir():
        file.unlink()
    assert np.array_equal(pickle.loads(content)["abcabc"], small["abcabc"])


def test_the_pickle_does_not_grow_with_use(vectors):
    model = pbos.train(vectors, lam=0.1, keep_targets=True)
    before = pickle.dumps(model)
    model.embed(vectors.words)
    model.neighbors("abcab")
    model.explain("abcab").to_dict()
    model.embed("abcab", exact=True)
    assert "abcab" not in model
    assert pickle.dumps(model) == before


def test_many_threads_at_once(small, vectors):
    fresh = copy.copy(small)  # with empty caches
    expected = small.embed(vectors.words)

    def use(i):
        assert np.array_equal(fresh.embed(vectors.words, threads=1 + i % 3), expected)
        return fresh.neighbors("abcab", 3), fresh.segment("abcab"), vectors.words[i] in fresh

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(use, range(40)))
    assert all(result == results[0] for result in results)


def embed_in_child(model):
    return model.embed(["abcab"] * 10_000, threads=2)[-1]


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_other_processes(small, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system cannot {method}")
    small.embed(["abcab"] * 10_000, threads=2)  # threads have run before
    with multiprocessing.get_context(method).Pool(2) as pool:
        for vector in pool.map(embed_in_child, [small] * 3):
            assert np.array_equal(vector, small["abcab"])


def test_embedding_releases_the_gil(small, vectors, monkeypatch):
    """This thread runs while a kernel runs in another one, though Python does not make them take turns."""
    words = [one + other for one in vectors.words[:100] for other in vectors.words]
    small.embed(words[:10])
    embed_words, running, seen = subwords.embed_words, False, False

    def watched(*arguments):
        nonlocal running
        running = True
        embed_words(*arguments)
        running = False

    def embed():
        for _ in range(100):  # on a busy machine this thread may miss some
            if not seen:
                small.embed(words, threads=1)

    monkeypatch.setattr(subwords, "embed_words", watched)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(embed)
            while not call.done():
                time.sleep(0)  # lets the other thread run
                seen = seen or running
            call.result()
    finally:
        sys.setswitchinterval(interval)
    assert seen


@pytest.mark.parametrize("model", ["default", "pbos"], indirect=True)
def test_kernels_run_as_plain_python_too(model, tmp_path):
    """To the byte, but for the last bits of probabilities: logarithms are not the same to the bit."""
    model.save(tmp_path / "m")
    code = (
        "import pbos, sys; m = pbos.load(sys.argv[1]); "
        "found = m.segment('abcab', 3) + m.sample('abcab', 2, seed=1); "
        "print(m['abcab'].tolist(), [(pieces, round(p, 12)) for pieces, p in found], round(m.entropy('abcab'), 12), "
        "m.compress(min_vector_words=2, dtype='int8')['abcab'].tolist(), m.compress(dtype='float16')['abcab'].tolist())"
    )

    def output(**environment):
        command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "m")]
        return subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True).stdout

    assert output(NUMBA_DISABLE_JIT="1") == output()


# -- smaller models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["pbos", "default"])
def test_min_vector_words_drops_rare_subwords(preset, vectors):
    model = pbos.train(vectors, preset=preset, epochs=5, lam=0.1)
    pruned = model.compress(min_vector_words=5)
    marked = [f"<{word}>" if model.spelling.boundaries else word for word in vectors.words]
    rows, kept_rows = oracle.rows_of(model.index), oracle.rows_of(pruned.index)
    assert set(kept_rows) == {s for s in rows if sum(s in word for word in marked) >= 5}
    before, after = model.subword_vectors.to_float32(), pruned.subword_vectors.to_float32()
    for subword, row in kept_rows.items():
        assert np.array_equal(after[row], before[rows[subword]])
    assert len(after) == len({rows[subword] for subword in kept_rows})  # subwords still share their vectors
    assert pruned["abcab"] == pytest.approx(oracle.vector(pruned, "abcab"), abs=1e-6)


@given(word=st.text("abc-", min_size=1, max_size=7).filter(lambda word: word.count("-") < 2))
@pytest.mark.parametrize("preset", ["pbos", "default"])
def test_fewer_vectors_leave_the_segmentations(preset, word, pruned_models):
    """They are those of the enumeration over the full model's probabilities, without negligible ones.

    Pieces without a vector weigh 0. The default's weights are over pieces with a vector and single characters.
    """
    model, *fewer = pruned_models[preset]
    full = oracle.probs_of(model.index)
    negligible = 1.05e-12 * max(full.values())
    spelled, _ = oracle.written(word, model.spelling.boundaries, model.spelling.inner_boundaries)
    for pruned in fewer:
        rows = oracle.rows_of(pruned.index)
        can_weigh = {s: p for s, p in full.items() if s in rows or len(s) == 1}
        table = {s: p for s, p in full.items() if s in can_weigh or p > negligible}
        posteriors = Counter()
        for pieces, p in oracle.enumerate_all(spelled, table, 0.01).items():
            ends = list(itertools.accumulate(map(len, pieces), initial=0))
            posteriors.update(dict.fromkeys(itertools.pairwise(ends), p))
        spans = {(span.start, span.end): span for span in pruned.lattice(word).spans}
        found = {at: span.posterior for at, span in spans.items() if span.posterior > 0}
        assert found == pytest.approx({at: posteriors[at] for at in found}, abs=1e-6)
        assert sum(found.values()) == pytest.approx(sum(posteriors.values()), abs=1e-6)
        if preset == "default":
            expected = oracle.span_weights(spelled, can_weigh, rows, 0.01, "both", 4, 2)
        else:
            expected = oracle.weights(spelled, table, set(rows), 0.01)
            assert pruned.segment(word, 3) == model.segment(word, 3)
        assert dict(pruned.weights(word)) == pytest.approx(expected, abs=1e-6)


@pytest.fixture(scope="module")
def pruned_models(vectors):
    """By preset: a model with all vectors, and the same with fewer."""
    models = {}
    for preset in ("pbos", "default"):
        settings = {"preset": preset, "epochs": 2, "lam": 0.1}
        full = pbos.train(vectors, **settings)
        few = (pbos.train(vectors, **settings, **few) for few in ({"min_vector_words": 5}, {"max_vectors": 9}))
        models[preset] = [full, full.compress(min_vector_words=5), *few]
        assert all(len(model.subword_vectors) < len(full.subword_vectors) for model in models[preset][1:])
    return models


def test_dtypes_are_near_and_small(small, vectors):
    full = small.embed(vectors.words)
    for dtype, row_bytes, tolerance in (("float16", 48, 2e-3), ("int8", 28, 2e-2)):
        stored = small.compress(dtype=dtype)
        assert stored.subword_vectors.nbytes == row_bytes * len(stored.subword_vectors)
        assert np.abs(stored.embed(vectors.words) - full).max() < tolerance * np.abs(full).max()
        again = stored.compress(dtype=dtype)
        assert np.array_equal(again.subword_vectors.values, stored.subword_vectors.values)


def test_dims_keep_the_largest_part(model, vectors):
    full = model.embed(vectors.words).astype(np.float64)
    projected = model.compress(dims=8, keep_targets=True)
    assert projected.embed(vectors.words).shape == (len(vectors), 8)
    # Eckart-Young: no other 8 directions keep more of the sum of squares than the singular values' share
    values = np.linalg.svd(full, compute_uv=False) ** 2
    assert (projected.embed(vectors.words) ** 2).sum() == pytest.approx(values[:8].sum(), rel=1e-4)
    same = model.compress(dims=24)
    assert same.similarity("abc", "cab") == pytest.approx(model.similarity("abc", "cab"), abs=1e-4)
    assert projected.embed(vectors.words, exact=True).shape == (len(vectors), 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": 0}, "dims must be at least 1, got 0"),
        ({"dims": 2.5}, "dims must be a whole number, got 2.5"),
        ({"dims": 25}, "dims must be between 1 and the model's 24, got 25"),
        ({"dtype": "int4"}, "unknown dtype 'int4'"),
        ({"min_vector_words": 0}, "min_vector_words must be at least 1, got 0"),
        ({"min_vector_words": 1000}, "min_vector_words 1000 leaves no subword; use a smaller number"),
    ],
)
def test_what_cannot_be_compressed(small, options, message):
    with pytest.raises(InputError, match=message):
        small.compress(**options)


def test_numbers_too_large_for_float16():
    model = pbos.train((["ab"], np.array([[1e6]])), lam=1e-3)
    with pytest.raises(InputError, match="does not fit float16"):
        model.compress(dtype="float16")


def test_all_halves_are_read_right():
    """The kernel's float16 against NumPy's, for every finite number there is."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    out = np.empty((1, halves.size), np.float32)
    one = np.array([0, 1]), np.array([0], np.int32), np.array([1], np.float32)
    compose(*one, halves[None].view(np.uint16), out)
    assert np.array_equal(out[0], halves.astype(np.float32))
