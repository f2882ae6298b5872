"""The model: vectors, neighbors, threads, copies, smaller models."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pandas as pd
import pyarrow as pa
import pytest

import pbos
from pbos import InputError
from pbos.kernels.compose import compose
from pbos.model import Model
from pbos.subword_vectors import SubwordVectors

UNKNOWN = "ЖЖЖ"  # no subword of the models here


@pytest.fixture(scope="module")
def vectors():
    random = np.random.default_rng(5)
    letters = list("abcdefgh")
    words = sorted({"".join(random.choice(letters, random.integers(2, 9))) for _ in range(300)})
    return pbos.WordVectors(words, random.normal(size=(len(words), 24)).astype(np.float32))


@pytest.fixture(scope="module", params=["default", "pbos", "bos", "pbos-n"])
def model(request, vectors):
    return pbos.train(vectors, preset=request.param, epochs=10, keep_targets=True)


@pytest.fixture(scope="module")
def small(vectors):
    return pbos.train(vectors, preset="pbos", epochs=10)


def by_hand(model, word):
    """The vector of a word, from what all its segmentations say its subwords weigh, and their vectors."""
    spelling, strings = model.spelling, list(model.index.strings())
    probs = dict(zip(strings, model.index.probs[1:].tolist(), strict=True))
    rows = {subword: row for subword, row in zip(strings, model.index.rows[1:].tolist(), strict=True) if row >= 0}
    text, _ = oracle.written(word, spelling.boundaries, spelling.inner_boundaries)
    how = spelling.weighting, spelling.start_weight, spelling.end_weight
    weights = oracle.span_weights(text, probs, rows, spelling.unseen_char_prob, *how)
    table = model.vectors.to_float32().astype(np.float64)
    return sum((weight * table[rows[subword]] for subword, weight in weights.items()), np.zeros(model.dims))


@pytest.mark.parametrize("word", ["abcabc", "hgfedcba", "a", "hhhhhhhhhh", "abXcd", "bada", "ab-cd", "-"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_vector_is_the_weighted_sum_of_subword_vectors(model, word, dtype, monkeypatch):
    held = model.compress(dtype=dtype)
    exact = by_hand(held, word)
    assert np.linalg.norm(held[word] - exact) <= 1e-3 * np.linalg.norm(exact)  # dust is left out
    assert held[word].dtype == np.float32
    monkeypatch.setattr("pbos.subword_vectors.DUST", 0.0)
    assert held[word] == pytest.approx(exact, abs=1e-5)


def test_only_what_is_dust_is_left_out_of_a_sum(small):
    """Vectors 1e-6 times as long as the others are dust, those 1e-3 times as long are not."""
    for factor, matters in ((1e-6, False), (1e-3, True)):
        values = small.vectors.values.copy()
        values[::2] *= factor
        model = Model(small.index, small.spelling, SubwordVectors.of(values), small._packed_words)
        values = values.copy()
        values[::2] = 0
        without = Model(small.index, small.spelling, SubwordVectors.of(values), small._packed_words)
        assert np.array_equal(model["abcabc"], without["abcabc"]) is not matters


def test_words_that_come_again_get_the_same_vectors(small, vectors):
    words = [vectors.words[i % 7] for i in range(5000)]
    assert np.array_equal(small.embed(words), np.array([small[word] for word in words[:7]])[np.arange(5000) % 7])
    with pytest.raises(InputError, match="word 4999 is empty"):
        small.embed([*words[:-1], ""])


def test_batch_and_single_agree(model, vectors):
    words = [*vectors.words, "abcabcabc", UNKNOWN, "a"]
    batch = model.embed(words)
    assert batch.shape == (len(words), 24)
    for word, row in zip(words, batch, strict=True):
        assert np.array_equal(model[word], row)


def test_batches_longer_than_a_chunk_do_not_depend_on_threads(small, vectors):
    words = vectors.words * 50
    first = small.embed(words, threads=1)
    for threads in (2, 3, None):
        assert np.array_equal(small.embed(words, threads=threads), first)
    assert np.array_equal(first[: len(vectors)], first[-len(vectors) :])


@pytest.mark.parametrize("kind", [list, tuple, iter, np.array, pd.Series, pa.array])
def test_embed_takes_what_people_have(small, kind):
    assert np.array_equal(small.embed(kind(["abc", "cab"])), small.embed(["abc", "cab"]))


def test_nothing_in_nothing_out(small):
    assert small.embed([]).shape == (0, 24)


def test_out(small):
    out = np.full((2, 24), np.nan, np.float32)
    assert small.embed(["abc", UNKNOWN], out=out) is out
    assert np.array_equal(out, small.embed(["abc", UNKNOWN]))
    wrong = [np.zeros((3, 24), np.float32), np.zeros((2, 24)), np.zeros((24, 2), np.float32).T]
    for bad in wrong:
        with pytest.raises(InputError, match=r"out must be a C-contiguous float32 array of shape \(2, 24\), got"):
            small.embed(["abc", "cab"], out=bad)


def test_unknown_words_get_zeros_and_say_so(model):
    assert not model[UNKNOWN].any()
    assert model.coverage(UNKNOWN) == 0
    assert model.weights(UNKNOWN) == []
    assert model.similarity("abc", UNKNOWN) == 0
    with pytest.raises(InputError, match="has no subword with a vector"):
        model.neighbors(UNKNOWN)


def test_exact_gives_training_words_their_vectors(model, small, vectors):
    words = [vectors.words[3], "abcabcabc"]
    exact, composed = model.embed(words, exact=True), model.embed(words)
    assert np.array_equal(exact[0], vectors.vectors[3])
    assert not np.array_equal(composed[0], vectors.vectors[3])
    assert np.array_equal(exact[1], composed[1])
    with pytest.raises(InputError, match="keep_targets=True"):
        small.embed(words, exact=True)


def test_words(model, vectors):
    assert model.words == vectors.words
    assert len(model.words) == len(vectors)
    assert vectors.words[0] in model
    assert "abcabcabcabc" not in model
    assert 3 not in model


def test_neighbors_are_those_of_a_full_search(model, vectors):
    query = "abcab"
    rows = model.embed(vectors.words)
    cosines = rows @ model[query] / (np.linalg.norm(rows, axis=1) * np.linalg.norm(model[query]) + 1e-30)
    order = [i for i in np.argsort(-cosines, kind="stable") if vectors.words[i] != query][:7]
    found = model.neighbors(query, n=7)
    assert [word for word, _ in found] == [vectors.words[i] for i in order]
    assert [cosine for _, cosine in found] == pytest.approx(cosines[order], abs=1e-5)
    known = vectors.words[0]
    assert known not in dict(model.neighbors(known, n=len(vectors)))
    assert len(model.neighbors(known, n=10_000)) == len(vectors) - 1


def test_similarity(model):
    a, b = model["abc"], model["cabba"]
    assert model.similarity("abc", "cabba") == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)
    assert model.similarity(["abc", "abc"], ["cabba", "abc"]) == pytest.approx([model.similarity("abc", "cabba"), 1])
    with pytest.raises(InputError, match="as many first words as second ones, got 1 and 2"):
        model.similarity(["a"], ["a", "b"])


@pytest.mark.parametrize("clone", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy, pbos.Model.copy])
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


def test_many_threads_at_once(small, vectors):
    fresh = small.copy()  # whose caches are empty
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


def test_embedding_releases_the_gil(small, vectors):
    """While a long call runs in another thread, this one goes on counting."""
    words = vectors.words * 200
    small.embed(words[:10])
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(small.embed, words, threads=1)
        counted = 0
        while not call.done():
            counted += 1
    assert counted > 1000


@pytest.mark.parametrize("model", ["default", "pbos"], indirect=True)
def test_kernels_run_as_plain_python_too(model, tmp_path):
    model.save(tmp_path / "m")
    code = (
        "import pbos, sys; m = pbos.load(sys.argv[1]); "
        "print(m['abcab'].tolist(), m.segment('abcab', 3), m.sample('abcab', 2, seed=1), m.entropy('abcab'), "
        "m.compress(min_count=2, dtype='int8')['abcab'].tolist(), m.compress(dtype='float16')['abcab'].tolist())"
    )

    def output(**environment):
        command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "m")]
        return subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True).stdout

    assert output(NUMBA_DISABLE_JIT="1") == output()


# -- smaller models ----------------------------------------------------------------------------------------------------


def test_min_count_drops_what_few_words_hold(small, vectors):
    pruned = small.compress(min_count=5)
    assert set(pruned.index.strings()) == {
        s for s in small.index.strings() if sum(s in word for word in vectors.words) >= 5
    }
    strings = ["", *pruned.index.strings()]
    before, after = small.vectors.to_float32(), pruned.vectors.to_float32()
    for row, node in enumerate(pruned.index.owners()):
        assert np.array_equal(after[row], before[small.index.rows[small.index.find(strings[node])]])
    assert pruned["abcab"] == pytest.approx(by_hand(pruned, "abcab"), abs=1e-6)


def test_min_count_keeps_the_vectors_that_subwords_share(vectors):
    model = pbos.train(vectors)
    pruned = model.compress(min_count=5)
    strings = ["", *pruned.index.strings()]
    marked = [f"<{word}>" for word in vectors.words]
    expected = {s for s in model.index.strings() if sum(s in word for word in marked) >= 5} - {"<", ">"}
    assert {strings[node] for node in pruned.index.owners()} == expected
    before, after = model.vectors.to_float32(), pruned.vectors.to_float32()
    for node in pruned.index.owners():
        row = model.index.rows[model.index.find(strings[node])]
        assert np.array_equal(after[pruned.index.rows[node]], before[row])
    assert len(after) == len({model.index.rows[model.index.find(s)] for s in expected})
    assert pruned["abcab"] == pytest.approx(by_hand(pruned, "abcab"), abs=1e-6)


def test_dtypes_are_near_and_small(small, vectors):
    full = small.embed(vectors.words)
    for dtype, bytes_a_row, tolerance in (("float16", 48, 2e-3), ("int8", 28, 2e-2)):
        held = small.compress(dtype=dtype)
        assert held.vectors.nbytes == bytes_a_row * len(held.vectors)
        assert np.abs(held.embed(vectors.words) - full).max() < tolerance * np.abs(full).max()
        again = held.compress(dtype=dtype)
        assert np.array_equal(again.vectors.values, held.vectors.values)


def test_dims_keep_the_largest_part(model, vectors):
    full = model.embed(vectors.words).astype(np.float64)
    projected = model.compress(dims=8)
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
        ({"dims": 0}, "dims must be between 1 and the model's 24, got 0"),
        ({"dims": 25}, "got 25"),
        ({"dtype": "int4"}, "unknown dtype 'int4'"),
        ({"min_count": 0}, "min_count must be at least 1"),
        ({"min_count": 1000}, "min_count 1000 would leave no subword"),
    ],
)
def test_what_cannot_be_compressed(small, options, message):
    with pytest.raises(InputError, match=message):
        small.compress(**options)


def test_float16_refuses_what_it_cannot_hold():
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
