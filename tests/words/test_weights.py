"""The sparse weights of many words, against dictionaries made from all segmentations."""

import itertools

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbos.jobs.workspace import Workspace
from pbos.settings import Spelling
from pbos.words.lattice import Lattice
from pbos.words.subwords import Subwords
from pbos.words.text import encode
from pbos.words.weights import Weights, columns_of_same_words, joined

UNSEEN = 0.01
probs = st.floats(1e-9, 1.0).map(lambda p: float(np.float32(p)))
factors = st.sampled_from([1.0, 0.5, 2.0, 4.0])
spelled = st.text("ab-<", min_size=1, max_size=5).filter(lambda word: sum(map(word.count, "-<")) <= 2)


@st.composite
def cases(draw):
    """Words, their spelling settings, probabilities, and the subwords that have a vector."""
    words = draw(st.lists(spelled, min_size=1, max_size=3))
    boundaries = draw(st.booleans())
    inner = boundaries and draw(st.booleans())
    spelling = Spelling(
        normalization="none",
        boundaries=boundaries,
        inner_boundaries=inner,
        weighting=draw(st.sampled_from(["both", "posterior", "uniform"])),
        unseen_char_prob=UNSEEN,
        start_weight=draw(factors) if boundaries else 1.0,
        end_weight=draw(factors) if boundaries else 1.0,
    )
    texts = [oracle.written(word, boundaries, inner)[0] for word in words]
    spans = sorted({text[i:j] for text in texts for i in range(len(text)) for j in range(i + 1, len(text) + 1)})
    table = draw(st.dictionaries(st.sampled_from(spans) | st.text("ab<>-", min_size=1, max_size=4), probs, max_size=40))
    with_vector = draw(st.sets(st.sampled_from(spans), max_size=30))
    return words, texts, spelling, table, with_vector


def expected_weights(text, spelling, table, with_vector):
    """Weigh by hand; for "both", pieces are characters or have a vector."""
    how = spelling.weighting, spelling.start_weight, spelling.end_weight
    if spelling.weighting == "both":
        table = {subword: p for subword, p in table.items() if len(subword) == 1 or subword in with_vector}
    return oracle.span_weights(text, table, with_vector, spelling.unseen_char_prob, *how)


def dense(weights):
    matrix = np.zeros((len(weights), weights.n_columns))
    for word in range(len(weights)):
        entries = slice(weights.indptr[word], weights.indptr[word + 1])
        np.add.at(matrix[word], weights.indices[entries], weights.data[entries])
    return matrix


@given(cases())
def test_weights_are_those_of_a_dictionary(case):
    words, texts, spelling, table, with_vector = case
    subwords = Subwords(oracle.index_of_table(table, with_vector), spelling)
    names = {row: owner for owner, row in oracle.rows_of(subwords.index).items()}
    weights = subwords.weights(words)
    for word, text, row in zip(words, texts, dense(weights), strict=True):
        expected = expected_weights(text, spelling, table, with_vector)
        found = {names[column]: row[column] for column in np.flatnonzero(row)}
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-30)
        assert dict(Lattice(subwords, word).weights()) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_a_word_that_repeats_itself_by_hand():
    """In <aa>, `a` occurs twice, and `<a` occurs once and counts four times."""
    table = {"<": 0.5, ">": 0.5, "a": 0.5, "<a": 0.25}
    spelling = Spelling(boundaries=True, weighting="both", start_weight=4.0)
    subwords = Subwords(oracle.index_of_table(table, {"a", "<a"}), spelling)
    # Ways: </a/a/> 1/16, <a/a/> 1/16, half the probability each. The posteriors: first a 1/2, second a 1, <a 1/2.
    total = 1.5 + 2 + 4 * 1.5
    assert dict(Lattice(subwords, "aa").weights()) == pytest.approx({"<a": 6 / total, "a": 3.5 / total})
    weights = subwords.weights(["aa"])
    assert weights.data.tolist() == pytest.approx([6 / total, 1.5 / total, 2 / total])
    assert weights.merged().data.tolist() == pytest.approx([6 / total, 3.5 / total])


def test_more_words_than_one_chunk():
    subwords = Subwords(oracle.index_of_table({"a": 0.5, "b": 0.25, "ab": 0.25}, {"a", "b", "ab"}), Spelling())
    words = ["ab", "ba", "z", "aab"] * 3000
    first = subwords.weights(words, threads=1)
    for threads in (2, 3):
        again = subwords.weights(words, threads=threads)
        assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in ("indptr", "indices", "data"))
    assert np.array_equal(dense(first), np.tile(dense(first)[:4], (3000, 1)))


# The matrix -----------------------------------------------------------------------------------------------------------


@st.composite
def matrices(draw):
    n_columns = draw(st.integers(1, 8))
    rows = draw(st.lists(st.lists(st.integers(0, n_columns - 1), max_size=6), max_size=8))
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([column for row in rows for column in row], np.int32)
    return Weights(indptr, indices, np.arange(1, indices.size + 1, dtype=np.float32), n_columns)


@given(matrices(), st.data())
def test_rows_can_be_taken_in_any_order(weights, data):
    rows = data.draw(st.lists(st.integers(0, len(weights) - 1), max_size=10)) if len(weights) else []
    taken = weights.take(np.array(rows, np.int64))
    assert np.array_equal(dense(taken), dense(weights)[rows])
    assert taken.indices.size == sum(weights.indptr[row + 1] - weights.indptr[row] for row in rows)


def numbers_of(weights, apart):
    """The numbers of the columns, from three parts of the rows, which have no column twice."""
    merged = weights.merged()
    bounds = np.linspace(0, len(weights), 4).astype(int)
    parts = [merged.take(np.arange(first, last)) for first, last in itertools.pairwise(bounds)]
    assert np.array_equal(dense(joined(parts, Workspace())), dense(weights))
    return columns_of_same_words(parts, np.array(apart, np.int64)).tolist()


@given(matrices())
def test_columns_of_the_same_words_get_the_same_number(weights):
    numbers = numbers_of(weights, [])
    words = [frozenset(np.flatnonzero(column)) for column in dense(weights).T]
    for i in range(weights.n_columns):
        for j in range(i):
            assert (numbers[i] == numbers[j]) == (words[i] == words[j])
    assert list(dict.fromkeys(numbers)) == list(range(len(set(words))))  # in order of appearance


@given(matrices(), st.data())
def test_some_columns_stay_apart(weights, data):
    """No two of them with the same words, as for whole words."""
    words = [frozenset(np.flatnonzero(column)) for column in dense(weights).T]
    apart = data.draw(st.lists(st.integers(0, len(words) - 1), unique_by=lambda column: words[column]))
    numbers = numbers_of(weights, apart)
    for i in range(weights.n_columns):
        for j in range(i):
            same = words[i] == words[j] and i not in apart and j not in apart
            assert (numbers[i] == numbers[j]) == same
    assert list(dict.fromkeys(numbers)) == list(range(len(set(numbers))))


@given(cases())
def test_the_rows_of_whole_words(case):
    words, texts, spelling, table, with_vector = case
    subwords = Subwords(oracle.index_of_table(table, with_vector), spelling)
    rows = oracle.rows_of(subwords.index)
    for n in (1, 300):  # more than one run of the kernel
        found = subwords.rows_of_whole_words(encode(words * n, spelling))
        assert found.tolist() == [rows.get(text, -1) for text in texts] * n


@given(matrices(), st.data())
def test_merged_columns_are_added_up(weights, data):
    size = data.draw(st.integers(1, weights.n_columns))
    extra = data.draw(
        st.lists(st.integers(0, size - 1), min_size=weights.n_columns - size, max_size=weights.n_columns - size)
    )
    columns = np.array(data.draw(st.permutations([*range(size), *extra])))
    merged = weights.renumbered(columns)
    expected = np.zeros((len(weights), size))
    np.add.at(expected.T, columns, dense(weights).T)
    assert np.array_equal(dense(merged), expected)
    for word in range(len(merged)):
        row = merged.indices[merged.indptr[word] : merged.indptr[word + 1]].tolist()
        assert len(row) == len(set(row))
