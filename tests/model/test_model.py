"""The model: vectors, missing words, capitals, neighbors, threads, copies, smaller models."""

import copy
import functools
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
import tracemalloc
import unicodedata
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
from pbos.model import Model
from pbos.words import subwords
from pbos.words.nearest import FEW, STEPS, at_least, nearest, products, rounded
from pbos.words.vectors import SubwordVectors

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
    return pbos.train(vectors, preset="pbos", epochs=10, keep_targets=False)


@pytest.mark.parametrize("word", ["abcabc", "hgfedcba", "a", "hhhhhhhhhh", "abXcd", "bada", "ab-cd", "-"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_vector_is_the_weighted_sum_of_subword_vectors(model, word, dtype, monkeypatch):
    stored = model.compress(dtype=dtype)
    exact = oracle.vector(stored, word)
    assert np.linalg.norm(stored[word] - exact) <= 1e-3 * np.linalg.norm(exact)  # negligible vectors are left out
    assert stored[word].dtype == np.float32
    monkeypatch.setattr("pbos.words.vectors.NEGLIGIBLE", 0.0)
    assert pickle.loads(pickle.dumps(stored))[word] == pytest.approx(exact, abs=1e-5)


def test_only_negligible_vectors_are_left_out_of_a_sum(small):
    """Vectors 1e-6 times as long as the others are negligible, those 1e-3 times as long are not."""
    for factor, matters in ((1e-6, False), (1e-3, True)):
        values = small.subword_vectors.values.copy()
        values[::2] *= factor
        model = Model(small.index, small.spelling, SubwordVectors.of(values), small._packed_words)
        values = values.copy()
        values[::2] = 0
        without = Model(small.index, small.spelling, SubwordVectors.of(values), small._packed_words)
        assert np.array_equal(model["abcabc"], without["abcabc"]) is not matters


def test_repeated_words_get_the_same_vectors(small, vectors):
    words = [vectors.words[i % 7] for i in range(5000)]
    assert np.array_equal(small.embed(words), np.array([small[word] for word in words[:7]])[np.arange(5000) % 7])
    with pytest.raises(InputError, match="word 4999 is an empty string"):
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


def test_nothing_in_nothing_out(small):
    assert small.embed([]).shape == (0, 24)
    assert small.embed([], missing="zeros").shape == (0, 24)


@pytest.mark.parametrize("word", [None, float("nan"), ""])
def test_one_missing_word(small, word):
    with pytest.raises(InputError, match=r"^word 0 is (missing|an empty string)"):
        small.embed(word)
    vector = small.embed(word, missing="zeros")
    assert vector.shape == (24,)
    assert not vector.any()


def test_out(small):
    out = np.full((2, 24), np.nan, np.float32)
    assert small.embed(["abc", UNKNOWN], out=out) is out
    assert np.array_equal(out, small.embed(["abc", UNKNOWN]))
    wrong = [np.zeros((3, 24), np.float32), np.zeros((2, 24)), np.zeros((24, 2), np.float32).T, [0.0]]
    for bad in wrong:
        with pytest.raises(InputError, match=r"out must be a C-contiguous float32 array of shape \(2, 24\), got"):
            small.embed(["abc", "cab"], out=bad)
    out.flags.writeable = False
    with pytest.raises(InputError, match="out is read-only"):
        small.embed(["abc", "cab"], out=out)


def test_words_without_a_known_subword(model):
    """Zeros and nothing, never an error."""
    assert not model[UNKNOWN].any()
    assert model.coverage(UNKNOWN) == 0
    assert model.weights(UNKNOWN) == []
    assert model.similarity("abc", UNKNOWN) == 0
    assert model.similarity(UNKNOWN, ["abc", UNKNOWN]).tolist() == [0, 0]
    assert model.neighbors(UNKNOWN) == []
    assert [len(near) for near in model.neighbors([UNKNOWN, "abc"], 2)] == [0, 2]
    assert UNKNOWN not in dict(model.neighbors("abc", 3, among=["bca", "cab", UNKNOWN])[:2])
    assert model.explain(UNKNOWN).neighbors == []


def test_exact_gives_training_words_their_vectors(model, small, vectors):
    words = [vectors.words[3], "abcabcabc"]
    exact, composed = model.embed(words, exact=True), model.embed(words)
    assert np.array_equal(exact[0], vectors.vectors[3])
    assert not np.array_equal(composed[0], vectors.vectors[3])
    assert np.array_equal(exact[1], composed[1])
    with pytest.raises(InputError, match="keep_targets=True"):
        small.embed(words, exact=True)


def test_given_vectors_are_kept_unless_the_model_is_made_small(vectors):
    def has_them(model):
        return pickle.loads(pickle.dumps(model))._target_vectors is not None

    model = pbos.train(vectors, lam=0.1)
    assert has_them(model)
    assert not has_them(pbos.train(vectors, lam=0.1, keep_targets=False))
    assert not has_them(pbos.train(vectors, lam=0.1, max_vectors=50))
    assert has_them(pbos.train(vectors, lam=0.1, max_vectors=50, keep_targets=True))
    assert not has_them(model.compress(dtype="int8"))
    assert has_them(model.compress(dtype="int8", keep_targets=True))


def test_given_vectors_can_be_given_again(model, small, vectors):
    words = [*vectors.words, "abcabcabc", UNKNOWN]
    again = pbos.train(vectors, preset="pbos", epochs=10, keep_targets=True)
    other = small.with_targets(vectors)
    assert np.array_equal(other.embed(words, exact=True), again.embed(words, exact=True))
    assert np.array_equal(other.embed(words), small.embed(words))
    assert other.neighbors("abcab", 5, exact=True) == again.neighbors("abcab", 5, exact=True)
    with pytest.raises(InputError, match="with_targets"):
        small.embed("abc", exact=True)  # which stays as it was


def test_a_table_with_other_words_takes_the_place_of_the_training_words(small):
    table = {UNKNOWN: np.arange(24), "cafe\u0301": np.ones(24), "caf\xe9": np.zeros(24)}
    other = small.with_targets(table)
    assert other.words == [UNKNOWN, "caf\xe9"]  # normalized; the first counts
    assert UNKNOWN in other
    assert other.embed([UNKNOWN, "caf\xe9"], exact=True).tolist() == [list(range(24)), [1] * 24]
    assert [word for word, _ in other.neighbors(UNKNOWN, exact=True)] == ["caf\xe9"]
    with pytest.raises(InputError, match="the vectors have 3 dimensions, but the model has 24"):
        small.with_targets({"abc": [1, 2, 3]})


def test_training_words(model, vectors):
    assert model.words == list(model) == vectors.words
    assert len(model) == len(vectors)
    assert model.dims == model.vector_size == 24
    assert vectors.words[0] in model
    assert "abcabcabcabc" not in model
    assert 3 not in model


# One word and many ----------------------------------------------------------------------------------------------------

MANY = ["abcab", "hgfedcba", UNKNOWN, "ab-cd", "a"]
METHODS = {
    "embed": lambda m, w: m.embed(w).tolist(),
    "embed exact": lambda m, w: m.embed(w, exact=True).tolist(),
    "[]": lambda m, w: m[w].tolist(),
    "segment": lambda m, w: m.segment(w, 3),
    "sample": lambda m, w: m.sample(w, 2, seed=1),
    "weights": lambda m, w: m.weights(w),
    "entropy": lambda m, w: m.entropy(w),
    "coverage": lambda m, w: m.coverage(w),
    "lattice": lambda m, w: m.lattice(w).spans if isinstance(w, str) else [one.spans for one in m.lattice(w)],
    "explain": lambda m, w: m.explain(w).to_dict() if isinstance(w, str) else [one.to_dict() for one in m.explain(w)],
    "neighbors": lambda m, w: m.neighbors(w, 4),
    "similarity": lambda m, w: m.similarity(w, "abc"),
}


@pytest.mark.parametrize("method", METHODS)
def test_one_word_answers_like_a_list_of_one(model, method):
    ask = METHODS[method]
    for word in MANY:
        assert ask(model, word) == ask(model, [word])[0]
    if method not in ("sample", "similarity", "neighbors"):  # by position; BLAS may round many rows differently
        assert ask(model, MANY) == [ask(model, word) for word in MANY]
    assert len(ask(model, [])) == 0


# Missing words --------------------------------------------------------------------------------------------------------


def pandas_column(**options):
    return lambda words: pytest.importorskip("pandas").Series(words, **options)


@pytest.mark.parametrize(
    "column",
    [list, tuple, iter, lambda words: np.array(words, object), pandas_column(), pandas_column(dtype="string")],
    ids=["list", "tuple", "iterator", "NumPy", "pandas", "pandas string"],
)
@pytest.mark.parametrize("missing", [None, float("nan"), "pandas.NA", ""], ids=str)
def test_missing_words(small, column, missing):
    if missing == "pandas.NA":
        missing = pytest.importorskip("pandas").NA
    words = ["abc", missing, "cab", missing]
    with pytest.raises(InputError, match=r"^word 1 is (missing \(.+\)|an empty string); drop such words, or "):
        small.embed(column(words))
    found = small.embed(column(words), missing="zeros")
    assert not found[[1, 3]].any()
    assert np.array_equal(found[[0, 2]], small.embed(["abc", "cab"]))
    out = np.full((4, 24), np.nan, np.float32)
    assert small.embed(column(words), missing="zeros", out=out) is out
    assert np.array_equal(out, found)


def test_masked_words_are_missing(small):
    words = np.ma.array(["abc", "cab"], mask=[0, 1])
    for column in (words, list(words), words.astype(object)):
        with pytest.raises(InputError, match="word 1 is missing"):
            small.embed(column)
        assert small.embed(column, missing="zeros").any(axis=1).tolist() == [True, False]
    assert not small.embed(words[1], missing="zeros").any()


def test_masked_numbers_are_not_taken_for_vectors(small):
    vector = np.ma.array(small["abc"], mask=[1, *[0] * 23])
    for arguments in ({"words": vector}, {"words": vector[None]}, {"words": [vector]}, {"positive": ["abc", vector]}):
        with pytest.raises(InputError, match="a vector contains masked numbers, so it has no neighbors; fill them in"):
            small.neighbors(**arguments)
    assert small.neighbors(np.ma.array(small["abc"]), 3) == small.neighbors(small["abc"], 3)
    with pytest.raises(InputError, match="cosines needs numbers, but some are masked"):
        pbos.cosines(vector[None], small.embed(["abc"]))
    with pytest.raises(InputError, match=r"out must be .*, got MaskedArray"):
        small.embed(["abc"], out=np.ma.array(small.embed(["abc"]), mask=True))


def test_missing_words_far_into_a_long_list(small, vectors):
    words = [vectors.words[i % 200] for i in range(9000)]
    for missing, message in ((None, "word 8765 is missing"), ("", "word 8765 is an empty string")):
        words[8765] = missing
        with pytest.raises(InputError, match=message):
            small.embed(words)
        assert not small.embed(words, missing="zeros")[8765].any()


def test_missing_words_where_none_are_missing(model, vectors):
    words = [*vectors.words[:5], UNKNOWN]
    assert np.array_equal(model.embed(words, missing="zeros"), model.embed(words))
    assert np.array_equal(model.embed(words, missing="zeros", exact=True), model.embed(words, exact=True))
    assert not model.embed("", missing="zeros").any()
    assert model.embed("", missing="zeros").shape == (24,)


def test_an_error_after_missing_words_names_the_right_position(small):
    with pytest.raises(InputError, match=r"^word 2 .*lone surrogate"):
        small.embed(["abc", "", "a\ud800"], missing="zeros")


def test_given_vectors_beside_missing_words(model, vectors):
    found = model.embed([vectors.words[3], None], missing="zeros", exact=True)
    assert np.array_equal(found[0], vectors.vectors[3])
    assert not found[1].any()


@pytest.mark.parametrize("words", ["abc", ["abc"], ["abc", None], []])
@pytest.mark.parametrize("missing", ["null", "drop", None, ""])
def test_bad_values_of_missing(small, words, missing):
    with pytest.raises(InputError, match=f"^unknown missing {missing!r}; choose one of: error, zeros$"):
        small.embed(words, missing=missing)


@pytest.mark.parametrize(
    "method", ["embed", "segment", "sample", "weights", "entropy", "coverage", "lattice", "explain", "neighbors"]
)
def test_errors_name_the_position_of_a_bad_word(small, method):
    for bad, message in {
        None: "is missing",
        float("nan"): "is missing",
        "": "is an empty string",
        "a\ud800": "has a lone surrogate",
        3: "is not a str but int",
    }.items():
        with pytest.raises(InputError, match=f"^word 2 .*{message}"):
            getattr(small, method)(["abc", "cab", bad, "a"])


# Capitals -------------------------------------------------------------------------------------------------------------


def test_capitals_matter_unless_folded():
    words = ["House", "house", "STRASSE", "Straße"]
    cased = pbos.train((words, np.eye(4)), preset="pbos", epochs=300)
    for row, word in enumerate(words):
        assert cased[word] == pytest.approx(np.eye(4)[row], abs=0.1)
        assert word in cased
    assert "HOUSE" not in cased
    assert cased.segment("House")[0].pieces == ("House",)
    with pytest.warns(pbos.PbosWarning, match="2 words equal an earlier one after casefold normalization"):
        folded = pbos.train((words, np.eye(4)), preset="pbos", epochs=300, normalization="casefold")
    assert folded.words == ["house", "strasse"]
    for word in ("house", "House", "HOUSE", "hOuSe"):
        assert np.array_equal(folded[word], folded["house"])
        assert word in folded
        assert folded.segment(word) == folded.segment("house")
        assert folded.neighbors(word) == [("strasse", pytest.approx(folded.similarity("house", "STRAẞE")))]
    assert folded["HOUSE"] == pytest.approx(np.eye(4)[0], abs=0.1)
    assert folded["straße"] == pytest.approx(np.eye(4)[2], abs=0.1)


@given(st.text("aAeEéÉßẞǅİıſ\u0301", min_size=1, max_size=6))
def test_words_that_are_equal_after_folding_are_equal(word):
    model = folding_model()
    expected = unicodedata.normalize("NFC", word.casefold())
    assert np.array_equal(model[word], model[expected])
    assert model.lattice(word).word == expected
    assert "".join(model.segment(word)[0].pieces) == expected


@functools.cache
def folding_model():
    return pbos.train({"aé": [1.0], "éa": [2.0], "ass": [3.0]}, normalization="casefold", fallback="none", lam=0.1)


# Neighbors ------------------------------------------------------------------------------------------------------------


def unit(matrix):
    norms = np.linalg.norm(matrix, axis=-1, keepdims=True)
    return matrix / np.where(norms > 0, norms, 1)


def full_search(query, words, rows, left_out=()):
    """All words by cosine, nearest first; of equal ones the first."""
    cosines = unit(rows.astype(np.float64)) @ unit(np.asarray(query, np.float64))
    order = np.argsort(-cosines.astype(np.float32), kind="stable")
    return [(words[i], cosines[i]) for i in order if words[i] not in left_out]


def assert_near(found, expected):
    """The same cosines in the same order; the same words, but for those that are equally near."""
    assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in expected], abs=1e-5)
    assert all(isinstance(cosine, float) for _, cosine in found)
    for (word, _), (other, cosine) in zip(found, expected, strict=True):
        if word != other:
            assert dict(expected).get(word, expected[-1][1]) == pytest.approx(cosine, abs=1e-5)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("n", [0, 1, 7, 10_000])
def test_neighbors_are_those_of_a_full_search(model, vectors, n, exact):
    rows = model.embed(vectors.words, exact=exact)
    for query in ("abcab", vectors.words[0]):
        expected = full_search(model.embed(query, exact=exact), vectors.words, rows, {query})[:n]
        assert_near(model.neighbors(query, n, exact=exact), expected)
    vector = np.random.default_rng(1).normal(size=24)
    for kind in (np.float64, np.float32):
        found = model.neighbors(vector.astype(kind), n, exact=exact)
        assert_near(found, full_search(vector, vectors.words, rows)[:n])


def test_neighbors_of_many_words_and_of_a_matrix(model, vectors):
    """More than are compared at a time."""
    rows = model.embed(vectors.words)
    queries = [*vectors.words[:130], "abcabc"]
    found = model.neighbors(queries, 5)
    assert len(found) == len(queries)
    for query, near in zip(queries, found, strict=True):
        assert_near(near, full_search(model[query], vectors.words, rows, {query})[:5])
    matrix = np.random.default_rng(2).normal(size=(131, 24)).astype(np.float32)
    for vector, near in zip(matrix, model.neighbors(matrix, 5), strict=True):
        assert_near(near, full_search(vector, vectors.words, rows)[:5])
    assert model.neighbors(matrix[:0]) == []


def test_zero_vectors_have_no_neighbors(model):
    assert model.neighbors(np.zeros(24)) == []
    assert model.neighbors(positive=["abc"], negative=["abc"]) == []


def test_searching_does_not_need_the_vectors_of_all_words_at_once():
    model = pbos.load()
    model.neighbors(model.words[0], among=model.words[:300])  # the words, the index and the kernels are there
    tracemalloc.start()
    try:
        model.neighbors(model.words[0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(model) * model.dims  # bytes; all of them as float32 and rounded would be 6


def test_an_empty_word_to_search_has_its_position(small):
    with pytest.raises(InputError, match="word 20000 is an empty string"):
        small.neighbors("abc", among=[*["abc"] * 20_000, ""])


@pytest.mark.parametrize("scale", [1e-45, 1e-40, 1e-30, 1e30, 3e38])
def test_vectors_of_any_scale_have_the_same_neighbors(model, scale):
    """Lengths and sums of the largest ones do not fit a float32, nor do those of the smallest have many digits."""
    signs = np.sign(model["abcab"])
    expected, vector = model.neighbors(signs), (np.float32(scale) * signs).astype(np.float32)
    assert_near(model.neighbors(vector), expected)
    assert_near(model.neighbors(positive=[vector, vector]), expected)
    assert model.neighbors(positive=[vector], negative=[vector]) == []


def test_neighbors_among_words_of_ones_own(model, vectors):
    words = ["abab", "cdcd", vectors.words[0], "hhh", UNKNOWN]
    rows = model.embed(words)
    assert_near(model.neighbors("abc", 9, among=words), full_search(model["abc"], words, rows))
    assert_near(model.neighbors("abab", 9, among=iter(words)), full_search(model["abab"], words, rows, {"abab"}))
    given_rows = model.embed(words, exact=True)
    found = model.neighbors("abc", 2, among=np.array(words), exact=True)
    assert_near(found, full_search(model["abc"], words, given_rows)[:2])
    assert model.neighbors("abc", among=[]) == []
    assert model.neighbors(["abc", "cab"], among=["abc"])[0] == []


def test_the_word_asked_about_is_left_out_however_often_it_is_among_the_others(small):
    words = ["abc", "abc", "abc", "cab", "dede"]
    for n in (1, 2, 5):
        expected = full_search(small["abc"], words, small.embed(words), {"abc"})[:n]
        assert_near(small.neighbors("abc", n, among=words), expected)


@given(st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0]), max_size=20), st.integers(-2, 25))
def test_of_equal_cosines_the_first_are_nearest(values, n):
    units, query = np.array(values, np.float32)[:, None], np.ones(1, np.float32)
    expected = sorted(range(len(values)), key=lambda at: -values[at])[: max(n, 0)]
    (rough,) = products(rounded(query[None]), rounded(units))
    found = nearest(rough, query, units.__getitem__, n)
    assert found == [(at, values[at]) for at in expected]


@pytest.mark.parametrize("order", [1, -1, 0])
@pytest.mark.parametrize("n", [1, 10, 3000])
def test_the_largest_of_many_values(order, n):
    values = np.random.default_rng(n).normal(size=20_000).astype(np.float32)
    values = np.sort(values)[::order].copy() if order else values
    assert at_least(values, n).tolist() == np.flatnonzero(values >= np.sort(values)[-n]).tolist()
    assert at_least(values, n, 0.5).tolist() == np.flatnonzero(values >= np.sort(values)[-n] - np.float32(0.5)).tolist()


@pytest.mark.parametrize("dims", [1, 7, 160, 3000])
def test_products_of_rounded_vectors_are_near_the_exact_ones(dims):
    rng = np.random.default_rng(dims)
    flat = np.ones((2, dims)) * [[1], [-1]]  # the largest products there are
    units = np.concatenate([flat, rng.normal(size=(5000, dims)), np.eye(1, dims)])
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    rows = rounded(units.astype(np.float32))
    for n_queries in (1, FEW - 1, FEW):
        found = products(rows[:n_queries], rows) / STEPS**2
        np.testing.assert_allclose(found, units[:n_queries] @ units.T, atol=np.sqrt(dims) / STEPS + 1e-5)


def test_neighbors_do_not_depend_on_what_is_asked_with_them():
    """The last digits of a product of matrices do: cosines must not be taken from it."""
    model = pbos.load()
    words = [*model.words[1000:1060], "unfriendliest", "covfefe"]
    together = model.neighbors(words, 5)
    assert together == [model.neighbors(word, 5) for word in words]
    assert together[7:20] == model.neighbors(words[7:20], 5)


def test_neighbors_by_sums_and_differences(model, vectors):
    rows, extra = model.embed(vectors.words), np.random.default_rng(3).normal(size=24).astype(np.float32)
    cases = [
        (["abc", "cab"], None, {"abc", "cab"}),
        (["abc", "cab"], ["dede"], {"abc", "cab", "dede"}),
        ("abc", "dede", {"abc", "dede"}),
        (["abc", extra], [], {"abc"}),
        (extra, ["dede"], {"dede"}),
        (None, ["abc"], {"abc"}),
        ([vectors.words[0], vectors.words[1]], [vectors.words[2]], set(vectors.words[:3])),
    ]
    for positive, negative, asked in cases:
        query = np.zeros(24)
        for sign, items in ((1, positive), (-1, negative)):
            items = [] if items is None else [items] if isinstance(items, (str, np.ndarray)) else items
            for item in items:
                query += sign * (unit(model[item].astype(float)) if isinstance(item, str) else item)
        found = model.neighbors(positive=positive, negative=negative, n=6)
        assert_near(found, full_search(query, vectors.words, rows, asked)[:6])


@pytest.mark.parametrize("exact", [False, True])
def test_neighbors_are_those_of_gensim(model, vectors, exact):
    gensim = pytest.importorskip("gensim.models")
    keyed = gensim.KeyedVectors(24)
    keyed.add_vectors(vectors.words, model.embed(vectors.words, exact=exact))
    a, b, c = vectors.words[:3]
    for positive, negative in (([a], []), ([a, b], []), ([a, b], [c]), ([a, keyed[b]], [c])):
        expected = keyed.most_similar(positive=positive, negative=negative, topn=8)
        assert_near(model.neighbors(positive=positive, negative=negative, n=8, exact=exact), expected)


def test_neighbors_of_vectors_in_any_form(small):
    arrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    vectors = small.embed(["abc", "cab"])
    expected = small.neighbors(vectors, 3)
    for form in (list(vectors), vectors.tolist(), tuple(vectors), pandas.DataFrame(vectors), vectors.astype(object)):
        assert small.neighbors(form, 3) == expected
    assert small.neighbors([vectors[0], "cab"], 3) == [expected[0], small.neighbors(["abc", "cab"], 3)[1]]
    for words in (arrow.array(["abc", "cab"]), pandas.Series(["abc", "cab"]), (word for word in ("abc", "cab"))):
        assert small.neighbors(positive=words, n=3) == small.neighbors(positive=["abc", "cab"], n=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "neighbors needs words or vectors, or positive and negative ones, not both"),
        ({"words": "a", "positive": ["b"]}, "not both"),
        ({"words": "a", "n": -1}, "n must be at least 0, got -1"),
        ({"words": "a", "n": 1.5}, "n must be a whole number, got 1.5"),
        ({"words": np.zeros(3)}, r"expected a word or a vector of 24 numbers, got shape \(3,\)"),
        ({"words": np.zeros((2, 3))}, r"expected a word or a vector of 24 numbers, got shape \(3,\)"),
        ({"positive": [np.zeros(3)]}, r"got shape \(3,\)"),
        ({"words": np.full(24, np.nan)}, "contains NaN or infinity"),
        ({"words": np.array([["a"]])}, "expected a word or a vector of 24 numbers, got ndarray"),
        ({"words": 3}, "expected words or vectors, got int"),
        ({"words": b"a"}, "expected words or vectors, got bytes"),
        ({"words": np.array("a")}, "expected words or vectors, got ndarray"),
        ({"positive": 3}, "expected words or vectors, got int"),
        ({"positive": ["a", None]}, "expected a word or a vector of 24 numbers, got None"),
        ({"positive": [("a", 2.0)]}, "expected a word or a vector of 24 numbers, got tuple"),
        ({"words": ["a", ""]}, "word 1 is an empty string"),
        ({"words": ["a", None]}, "word 1 is missing"),
        ({"words": "a", "among": ["a", ""]}, "word 1 is an empty string"),
    ],
)
def test_bad_arguments_of_neighbors(small, arguments, message):
    with pytest.raises(InputError, match=message):
        small.neighbors(**arguments)


def test_given_vectors_must_be_there_for_exact_neighbors(small):
    with pytest.raises(InputError, match="keep_targets=True"):
        small.neighbors("abc", exact=True)


def test_similarity(model):
    def by_hand(first, second):
        return float(unit(model[first].astype(float)) @ unit(model[second].astype(float)))

    assert model.similarity("abc", "cabba") == pytest.approx(by_hand("abc", "cabba"), abs=1e-5)
    assert isinstance(model.similarity("abc", "cabba"), float)
    assert model.similarity(["abc", "abc"], ["cabba", "abc"]) == pytest.approx([by_hand("abc", "cabba"), 1], abs=1e-5)
    others = ["cabba", "abc", "dede"]
    expected = [by_hand("abc", other) for other in others]
    for found in (model.similarity("abc", others), model.similarity(others, "abc")):
        assert found.shape == (3,)
        assert found == pytest.approx(expected, abs=1e-5)
    assert model.similarity("abc", []).shape == model.similarity([], []).shape == (0,)
    for first, second in ((["a"], ["a", "b"]), (["a", "b"], ["a"])):
        message = f"as many first words as second ones, got {len(first)} and {len(second)}"
        with pytest.raises(InputError, match=message):
            model.similarity(first, second)


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
    model.save(tmp_path / "m")
    code = (
        "import pbos, sys; m = pbos.load(sys.argv[1]); "
        "print(m['abcab'].tolist(), m.segment('abcab', 3), m.sample('abcab', 2, seed=1), m.entropy('abcab'), "
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


# Cosines --------------------------------------------------------------------------------------------------------------


def test_cosines_of_any_numbers():
    for left in ([[3, 4], [0, 0]], np.array([[3, 4], [0, 0]]), np.array([[3.0, 4.0], [0.0, 0.0]])):
        found = pbos.cosines(left, [[1, 0], [1, 0]])
        assert found.dtype == np.float32
        assert found.tolist() == pytest.approx([0.6, 0])


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[1.0, 2.0, 3.0]], [["a", "b"]], [[1.0, 2.0], [3.0, 4.0]]])
def test_matrices_without_cosines(bad):
    with pytest.raises(InputError, match="cosines needs two matrices of"):
        pbos.cosines(bad, np.zeros((1, 2)))


# -- confidence --------------------------------------------------------------------------------------------------------


def test_missing_words_have_a_confidence_of_0_if_asked(confident, small_vectors):
    word = small_vectors.words[1502]
    found = confident.confidence([None, word, float("nan"), "", small_vectors.words[0]], missing="zeros")
    assert found.tolist() == pytest.approx([0, confident.confidence(word), 0, 0, 1], abs=1e-5)
    assert confident.confidence(None, missing="zeros") == confident.confidence("", missing="zeros") == 0
    assert confident.confidence([]).shape == (0,)
    for missing in (None, ["a", None], ["a", ""]):
        with pytest.raises(InputError, match=r'missing="zeros"'):
            confident.confidence(missing)
    with pytest.raises(InputError, match="unknown missing 'null'"):
        confident.confidence("a", missing="null")


def test_a_model_says_whether_it_has_a_confidence(confident, tmp_path):
    few = pbos.train({"high": [1.0, 0.0], "higher": [1.0, 1.0]})  # too few words, though the setting is on
    assert few.info["confidence"]
    for model, has in ((confident, True), (few, False)):
        model.save(tmp_path / "model")
        loaded = pbos.load(tmp_path / "model")
        assert loaded.has_confidence is loaded.config()["confidence"] is has
        assert f"\n- confidence: {has}\n" in (tmp_path / "model" / "README.md").read_text("utf-8")
        assert loaded.compress(dtype="int8").has_confidence is has


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1, 1e14, 1e30])
def test_vectors_of_any_scale_have_neighbors(scale):
    words, vectors = ["high", "higher", "low", "lower"], np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]])
    model = pbos.train((words, vectors)).with_targets((words, (vectors * scale).astype(np.float32)))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = sorted(zip(words[1:], units[1:] @ units[0], strict=True), key=lambda pair: -pair[1])
    found = model.neighbors("high", 3, exact=True)
    assert dict(found) == pytest.approx(dict(expected), abs=1e-6)
    assert model.neighbors(vectors[0] * scale, 1, exact=True) == [("high", pytest.approx(1))]


def test_a_sum_that_cancels_out_has_no_neighbors():
    model = pbos.load()
    assert model.neighbors(positive=["king", "woman"], negative=["woman", "king"]) == []
    assert model.neighbors(positive=[model["king"] * 1e-9], negative=[model["queen"] * 1e-9]) != []
