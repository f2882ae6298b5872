"""Neighbors, similarity and cosines, compared with a full search in NumPy."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos import InputError
from pbos.words.search import FEW, STEPS, at_least, nearest, products, rounded

UNKNOWN = "ЖЖЖ"  # no subword of the models here


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
        ({"positive": ["a", None]}, r"word 1 is missing \(None\); drop such words"),
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
