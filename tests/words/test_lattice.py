"""The lattice against the enumeration of all segmentations."""

import math
from collections import Counter

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbos import InputError, Segmenter
from pbos.settings import Spelling
from pbos.words.lattice import Lattice
from pbos.words.subwords import Subwords

UNSEEN = 0.01
letters = st.text("abcé", min_size=1, max_size=9)
probs = st.floats(1e-12, 1.0).map(lambda p: float(np.float32(p)))
tables = st.dictionaries(st.text("abé", min_size=1, max_size=4), probs, max_size=30)


@st.composite
def cases(draw):
    """A word, a table of probabilities, and a set of subwords that have a vector."""
    table = draw(tables)
    word = draw(letters)
    spans = sorted({word[i:j] for i in range(len(word)) for j in range(i + 1, len(word) + 1)})
    with_vector = draw(st.sets(st.sampled_from([*spans, *table]), max_size=20))
    return word, table, with_vector


def lattice_of(word, table, with_vector=frozenset(), uniform=False, unseen=UNSEEN):
    weighting = "uniform" if uniform else "posterior"
    spelling = Spelling(normalization="none", weighting=weighting, unseen_char_prob=unseen)
    return Lattice(Subwords(oracle.index_of_table(table, with_vector), spelling), word)


@given(cases())
def test_every_segmentation_has_the_probability_of_the_enumeration(case):
    word, table, _ = case
    expected = oracle.enumerate_all(word, table, UNSEEN)
    found = lattice_of(word, table).best(2 ** len(word))
    assert {s.pieces: pytest.approx(s.probability, rel=1e-9) for s in found} == expected


@given(cases(), st.integers(1, 6))
def test_n_best_are_the_n_largest_in_order(case, n):
    word, table, _ = case
    expected = sorted(oracle.enumerate_all(word, table, UNSEEN).values(), reverse=True)[:n]
    found = lattice_of(word, table).best(n)
    assert [s.probability for s in found] == pytest.approx(expected, rel=1e-9)
    assert len({s.pieces for s in found}) == len(found)


@given(cases())
def test_weights_are_those_of_the_enumeration(case):
    word, table, with_vector = case
    found = lattice_of(word, table, with_vector).weights()
    expected = oracle.weights(word, table, with_vector, UNSEEN)
    assert dict(found) == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert [w for _, w in found] == sorted((w for _, w in found), reverse=True)
    assert not found or sum(w for _, w in found) == pytest.approx(1)


@given(cases())
def test_uniform_weights_count_every_occurrence(case):
    word, table, with_vector = case
    found = lattice_of(word, table, with_vector, uniform=True).weights()
    assert dict(found) == pytest.approx(oracle.uniform_weights(word, with_vector))


@given(cases())
def test_entropy_is_that_of_the_enumeration(case):
    word, table, _ = case
    assert lattice_of(word, table).entropy() == pytest.approx(oracle.entropy(word, table, UNSEEN), abs=1e-9)


@settings(max_examples=25)
@given(cases(), st.integers(0, 2**32))
def test_samples_come_as_often_as_they_are_probable(case, seed):
    word, table, _ = case
    n = 4000
    expected = oracle.enumerate_all(word, table, UNSEEN)
    found = Counter(s.pieces for s in lattice_of(word, table).sample(n, seed))
    assert set(found) <= set(expected)
    for g, p in expected.items():  # five standard deviations, and a little for p near 0
        assert abs(found[g] / n - p) <= 5 * math.sqrt(max(p * (1 - p), 0) / n) + 2 / n


@given(cases())
def test_samples_carry_their_probability(case):
    word, table, _ = case
    expected = oracle.enumerate_all(word, table, UNSEEN)
    for sample in lattice_of(word, table).sample(5, seed=1):
        assert sample.probability == pytest.approx(expected[sample.pieces], rel=1e-9)


@given(cases())
def test_each_character_is_covered_with_total_posterior_one(case):
    word, table, _ = case
    covered = np.zeros(len(word))
    for span in lattice_of(word, table).spans:
        covered[span.start : span.end] += span.posterior
    assert covered == pytest.approx(1)


@given(cases(), st.floats(0.5, 1.0))
def test_a_factor_for_each_character_changes_nothing(case, c):
    """p_s * c^len(s) has the same posteriors: every segmentation has the same characters."""
    word, table, with_vector = case
    table = {**{ch: UNSEEN for ch in word}, **table}  # the floor is not part of the table
    scaled = {s: p * c ** len(s) for s, p in table.items()}
    first, second = lattice_of(word, table, with_vector).weights(), lattice_of(word, scaled, with_vector).weights()
    assert dict(first) == pytest.approx(dict(second), rel=1e-4, abs=1e-6)  # the scaled table is rounded to float32


@given(cases())
def test_reversing_word_and_table_reverses_the_segmentations(case):
    word, table, _ = case
    mirrored = lattice_of(word[::-1], {s[::-1]: p for s, p in table.items()}).best(2 ** len(word))
    back = {tuple(piece[::-1] for piece in reversed(s.pieces)): s.probability for s in mirrored}
    assert back == pytest.approx({s.pieces: s.probability for s in lattice_of(word, table).best(2 ** len(word))})


def test_aba_by_hand():
    """The smallest interesting word: p(a) = 1/3, p(b) = p(ab) = p(ba) = p(aba) = 1/6.

    a/b/a 1/54, a/ba 1/18, ab/a 1/18, aba 1/6: together 16/54.
    """
    lattice = Segmenter.from_counts({"aba": 1}).lattice("aba")
    assert {s.pieces: round(s.probability * 16, 4) for s in lattice.best(9)} == {
        ("aba",): 9,
        ("ab", "a"): 3,
        ("a", "ba"): 3,
        ("a", "b", "a"): 1,
    }
    # a: 2 in a/b/a and 1 in each of the two halves; all are counted by position
    expected = {"aba": 9 / 24, "a": 8 / 24, "ab": 3 / 24, "ba": 3 / 24, "b": 1 / 24}
    assert dict(lattice.weights()) == pytest.approx(expected, abs=1e-6)


def test_among_equals_the_longer_first_piece_comes_first():
    lattice = lattice_of("abab", {"ab": 0.25, "a": 0.5, "b": 0.5})
    assert [s.pieces for s in lattice.best(4)] == [
        ("ab", "ab"),
        ("ab", "a", "b"),
        ("a", "b", "ab"),
        ("a", "b", "a", "b"),
    ]


@pytest.mark.parametrize("length", [155, 1000, 20_000])
@pytest.mark.parametrize("unseen", [1.01e-37, 0.01, 1.0])
def test_no_underflow_at_any_length(length, unseen):
    """The known half of the word keeps its weights beside any number of unseen letters."""
    index = oracle.index_of_table({"a": 0.4, "b": 0.2, "ab": 0.1}, {"a", "b", "ab"})
    lattice = Lattice(Subwords(index, Spelling(unseen_char_prob=unseen)), "ab" + "ż" * length)
    assert dict(lattice.weights()) == pytest.approx({"ab": 0.1 / 0.26, "a": 0.08 / 0.26, "b": 0.08 / 0.26}, rel=1e-6)
    assert lattice.coverage() == pytest.approx(2 / (length + 2))
    for n in (1, 2):
        assert lattice.best(n)[0].probability == pytest.approx(0.1 / 0.18, rel=1e-6)
        assert lattice.best(n)[0].pieces[:2] == ("ab", "ż")
    assert lattice.entropy() == pytest.approx(-(5 / 9 * math.log(5 / 9) + 4 / 9 * math.log(4 / 9)), rel=1e-3)


@given(st.integers(100, 400), st.dictionaries(st.text("ab", min_size=1, max_size=3), probs, min_size=1))
def test_long_words_agree_with_a_version_in_logarithms(length, table):
    word = ("abba" * length)[:length]

    def forward(w, t):
        log = [0.0]
        for j in range(1, len(w) + 1):
            terms = [
                log[i] + math.log(p) for i in range(max(0, j - 3), j) if (p := oracle.probability(w[i:j], t, UNSEEN))
            ]
            log.append(np.logaddexp.reduce(terms))
        return log

    before, after = forward(word, table), forward(word[::-1], {s[::-1]: p for s, p in table.items()})
    for span in lattice_of(word, table).spans:
        expected = before[span.start] + math.log(span.prob) + after[length - span.end] - before[length]
        assert span.posterior == pytest.approx(math.exp(expected), rel=1e-6)


def test_a_hundred_thousand_characters():
    """This would take hours if the cost grew with the square of the length."""
    segmenter = Segmenter.from_counts({"abra": 5, "cadabra": 3, "x": 1})
    word = "abracadabra" * 9091
    lattice = segmenter.lattice(word)
    (best,) = lattice.best(1)
    assert "".join(best.pieces) == word
    assert "".join(segmenter.sample(word, 1, seed=0)[0].pieces) == word
    assert sum(w for _, w in lattice.weights()) == pytest.approx(1)
    assert lattice.coverage() == 1
    assert segmenter.weights("x" * 100_000) == [("x", pytest.approx(1))]


@pytest.mark.parametrize("word", ["👩‍👩‍👧", "नमस्ते", "東京都", "שלום", "a\u0301", "\U0010ffff", "\x00"])
def test_any_unicode(word):
    segmenter = Segmenter.from_counts({word: 1}, normalization="none")
    assert segmenter.segment(word)[0].pieces == (word,)
    assert segmenter.coverage(word) == 1
    assert segmenter.lattice(word).spans[0].end == 1  # a position is a code point


# Boundary marks -------------------------------------------------------------------------------------------------------


@st.composite
def marked_cases(draw):
    """A word, maybe with punctuation, whether it has inner marks, probabilities, and subwords with a vector."""
    word = draw(st.text("ab-<é", min_size=1, max_size=5).filter(lambda word: sum(map(word.count, "-<")) <= 2))
    inner = draw(st.booleans())
    text, _ = oracle.written(word, True, inner)
    spans = st.sampled_from(sorted({text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)}))
    table = draw(st.dictionaries(spans | st.text("ab<>-", min_size=1, max_size=4), probs, max_size=40))
    with_vector = draw(st.sets(spans, max_size=20))
    return word, inner, table, with_vector


def marked_lattice(word, inner, table, with_vector=frozenset(), **settings):
    spelling = Spelling(normalization="none", boundaries=True, inner_boundaries=inner, **settings)
    return Lattice(Subwords(oracle.index_of_table(table, with_vector), spelling), word)


@given(marked_cases())
def test_segmentations_are_without_marks_and_as_probable_as_all_ways_to_write_them(case):
    word, inner, table, _ = case
    expected = oracle.enumerate_letters(word, table, UNSEEN, True, inner)
    found = marked_lattice(word, inner, table).best(2 ** len(word))
    assert {s.pieces: pytest.approx(s.probability, rel=1e-9) for s in found} == expected
    assert [s.probability for s in found] == sorted((s.probability for s in found), reverse=True)
    assert all("".join(s.pieces) == word for s in found)


@given(marked_cases(), st.integers(1, 6))
def test_n_segmentations_or_all_if_there_are_fewer(case, n):
    word, inner, table, _ = case
    expected = oracle.enumerate_letters(word, table, UNSEEN, True, inner)
    found = marked_lattice(word, inner, table).best(n)
    assert len({s.pieces for s in found}) == len(found) == min(n, len(expected))
    assert {s.pieces: pytest.approx(s.probability, rel=1e-9) for s in found}.items() <= expected.items()


@settings(max_examples=25)
@given(marked_cases(), st.integers(0, 2**32))
def test_samples_without_marks_come_as_often_as_they_are_probable(case, seed):
    word, inner, table, _ = case
    n = 2000
    expected = oracle.enumerate_letters(word, table, UNSEEN, True, inner)
    samples = marked_lattice(word, inner, table).sample(n, seed)
    found = Counter(s.pieces for s in samples)
    for g, p in expected.items():
        assert abs(found[g] / n - p) <= 5 * math.sqrt(max(p * (1 - p), 0) / n) + 2 / n
    for sample in samples[:5]:
        assert sample.probability == pytest.approx(expected[sample.pieces], rel=1e-9)
        assert "".join(sample.pieces) == word


@given(marked_cases())
def test_coverage_is_of_letters_only(case):
    word, inner, table, with_vector = case
    text, is_mark = oracle.written(word, True, inner)
    covered = [False] * len(text)
    for i in range(len(text)):
        for j in range(i + 1, len(text) + 1):
            if text[i:j] in with_vector:
                covered[i:j] = [True] * (j - i)
    letters = [c for c, mark in zip(covered, is_mark, strict=True) if not mark]
    found = marked_lattice(word, inner, table, with_vector, weighting="uniform").coverage()
    assert found == pytest.approx(sum(letters) / len(word))


@pytest.mark.parametrize(
    ("word", "pieces"),
    [
        ("x-ray", ("x", "-", "ray")),
        ("ray-ray", ("ray", "-", "ray")),
        ("x", ("x",)),
        ("-", ("-",)),
        ("well-known-ray", ("well", "-", "known", "-", "ray")),
    ],
)
def test_parts_of_words_are_found_inside_words(word, pieces):
    table = {"<x>": 0.1, "<ray>": 0.1, "<well>": 0.1, "<known>": 0.1, "-": 0.1}
    assert marked_lattice(word, True, table).best(1)[0].pieces == pieces


def test_many_marks_do_not_hide_other_segmentations():
    """Each mark can go left, right or alone: the first 20 ways to write a word may all be the same segmentation."""
    table = dict.fromkeys(["<", ">", "-", "a", "b", "a>", "<b", ">-", "-<", "ab"], 0.1)
    found = marked_lattice("ab-ab-ab", True, table).best(8)
    assert len({s.pieces for s in found}) == 8
    assert sum(s.probability for s in found) == pytest.approx(1)  # each "ab" is one piece or two


def test_marks_are_not_part_of_the_pieces_nor_of_the_coverage():
    segmenter = Segmenter.from_counts({"ab": 1}, boundaries=True)
    assert segmenter.segment("ab")[0].pieces == ("ab",)
    assert segmenter.coverage("ab") == 1
    assert segmenter.coverage("zz") == 0
    assert segmenter.weights("zz") == []
    assert {"<ab>", "<a", "b>"} < set(dict(segmenter.weights("ab")))


# Many words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boundaries", [False, True])
def test_bad_input(boundaries):
    segmenter = Segmenter.from_counts({"ab": 1}, boundaries=boundaries)
    surrogate = r"word 0 \('a\\ud800'\) has a lone surrogate, U\+D800, at 1, which is not a character"
    for call, message in [
        (lambda: segmenter.segment(""), "word 0 is an empty string; drop such words"),
        (lambda: segmenter.lattice(""), "word 0 is an empty string"),
        (lambda: segmenter.segment("a\ud800"), surrogate),
        (lambda: segmenter.entropy("a\ud800"), surrogate),
        (lambda: segmenter.segment("ab", 0), "n must be at least 1, got 0"),
        (lambda: segmenter.segment("ab", "2"), "n must be a whole number, got '2'"),
        (lambda: segmenter.segment("ab", threads=0), "threads must be at least 1, got 0"),
        (lambda: segmenter.sample("ab", seed=-1), "seed must be at least 0, got -1"),
        (lambda: segmenter.sample("ab", -1), "k must be at least 0, got -1"),
        (lambda: segmenter.sample(["ab"], -1), "k must be at least 0, got -1"),
        (lambda: segmenter.sample(["ab", ""], 2), "word 1 is an empty string"),
        (lambda: segmenter.lattice(3), "expected words"),
    ]:
        with pytest.raises(InputError, match=message):
            call()


@pytest.mark.parametrize("boundaries", [False, True])
def test_samples_of_many_words_come_as_often_as_they_are_probable(boundaries):
    segmenter = Segmenter.from_counts({"ab": 5, "abc": 2, "ca": 3, "b": 1}, boundaries=boundaries)
    words, k = ["abc", "cab", "x", "abc"] * 100, 50  # more than are drawn together
    found = segmenter.sample(words, k, seed=7)
    assert [len(samples) for samples in found] == [k] * len(words)
    assert found == segmenter.sample(words, k, seed=7, threads=1) != segmenter.sample(words, k, seed=8)
    n = 100 * k
    for at, word in enumerate(words[:4]):
        drawn = Counter(sample for samples in found[at::4] for sample in samples)
        expected = {s.pieces: s.probability for s in segmenter.segment(word, 100)}  # compared with the oracle above
        assert sum(expected.values()) == pytest.approx(1)
        for sample, times in drawn.items():
            p = expected[sample.pieces]
            assert sample.probability == pytest.approx(p, rel=1e-9)
            assert abs(times / n - p) <= 5 * math.sqrt(max(p * (1 - p), 0) / n) + 2 / n
    assert found[0] != found[3]  # a repeated word is drawn again
    assert segmenter.sample(words[:2], 0) == [[], []]
    assert segmenter.sample([], 3) == []
