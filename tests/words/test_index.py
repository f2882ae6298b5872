"""Counting subwords, the index and EM, against dictionaries."""

import os
import pickle
import subprocess
import sys

import numpy as np
import oracle
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pbos import InputError, Segmenter
from pbos.jobs.pools import Threads
from pbos.kernels import trie
from pbos.kernels.lattice import expected_counts
from pbos.settings import Spelling
from pbos.training.counting import count_subwords, fit_probabilities
from pbos.words.index import PROB_RANGE
from pbos.words.subwords import Subwords
from pbos.words.text import encode

vocabularies = st.dictionaries(st.text("abcß東", min_size=1, max_size=7), st.floats(0, 1e9), min_size=1, max_size=12)

few_words = st.dictionaries(
    st.text("abé", min_size=1, max_size=6), st.integers(0, 1000), min_size=1, max_size=10
).filter(lambda words: any(words.values()))
UNSEEN = 0.01
PLAIN = Spelling(normalization="none", unseen_char_prob=UNSEEN)


def index_of(words, targets=(), *, boundaries=False, **options):
    codes = encode(list(words), Spelling(normalization="none", boundaries=boundaries))
    is_target = np.array([w in targets for w in words])
    return count_subwords(codes, np.array(list(words.values()), float), is_target, boundaries=boundaries, **options)


def n_words_with(index, words):
    """How many of the words contain each subword."""
    return Subwords(index, PLAIN).count_words(encode(list(words), PLAIN))


def is_found(index, string):
    """Whether walking down the index finds a string."""
    spans = Subwords(index, PLAIN).spans(string)
    return bool(np.count_nonzero(spans.begins == 0) == len(string) and spans.probs[len(string) - 1] not in (0, UNSEEN))


@given(vocabularies.filter(lambda words: sum(words.values()) > 1e-3))
def test_probabilities_are_those_of_a_dictionary(words):
    index = index_of(words)
    expected = oracle.count(words)
    assert set(index.strings()) == set(expected)
    assert oracle.probs_of(index) == pytest.approx(expected, rel=1e-6, abs=1e-37)


def assert_counted(index, words, max_len=None):
    """The index has the substrings of the words, by length, then in order, with the probabilities of a dictionary."""
    expected = oracle.count(words, max_len)
    assert list(index.strings()) == sorted(expected, key=lambda subword: (len(subword), subword))
    assert oracle.probs_of(index) == pytest.approx(expected, rel=1e-6)
    assert index.arrays.children.sum() == len(expected) - len(index.alphabet)


@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=14), st.integers(0, 9), min_size=1, max_size=8),
    st.one_of(st.none(), st.integers(1, 16)),
)
def test_subwords_that_occur_many_times_in_a_word(words, max_len):
    assume(any(words.values()))
    assert_counted(index_of(words, words, max_len=max_len), words, max_len)


def test_repeats_by_hand():
    index = index_of({"aaaa": 1, "abab": 2}, ["abab"])
    sums = {"a": 8, "b": 4, "aa": 3, "ab": 4, "ba": 2, "aaa": 2, "aba": 2, "bab": 2, "aaaa": 1, "abab": 2}
    assert oracle.probs_of(index) == pytest.approx({subword: n / 30 for subword, n in sums.items()})
    assert set(oracle.rows_of(index)) == {"a", "b", "ab", "ba", "aba", "bab", "abab"}
    assert n_words_with(index, ["aaaa", "abab"]).tolist() == [0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1]


def test_several_scripts_and_thousands_of_letters():
    random = np.random.default_rng(1)
    letters = [*"aébcß", *"абвг", *(chr(0x4E00 + i) for i in range(5000)), "\U0001f600", "\U0010ffff"]
    words = {"".join(random.choice(letters, random.integers(1, 5))): float(random.random()) for _ in range(9000)}
    index = index_of(words, words)
    assert_counted(index, words)
    assert len(index.alphabet) > 4000


@pytest.mark.parametrize("n_letters", [255, 256, 257])
def test_as_many_letters_as_a_byte_counts(n_letters):
    text = "".join(chr(0x3000 + i) for i in range(n_letters))
    words = dict.fromkeys([*text, *(a + b for a, b in zip(text, reversed(text), strict=True))], 1)
    index = index_of(words, words)
    assert_counted(index, words)
    assert index.arrays.labels.dtype == (np.uint8 if n_letters <= 256 else np.uint16)


@pytest.mark.parametrize("max_len", [1, 2, 12, 40])
def test_long_words(max_len):
    random = np.random.default_rng(2)
    words = {"".join(random.choice(["a", "b"], 5000)): 3, "ab" * 2500: 1, "a" * 5000: 2, "b": 1}
    assert_counted(index_of(words, words, max_len=max_len), words, max_len)


def test_a_long_word_in_full():
    n = 256  # the longest word that is counted
    index = index_of({"a" * n: 1, "b": 1}, ["b"])
    assert list(index.strings())[-1] == "a" * n
    assert oracle.probs_of(index) == pytest.approx(oracle.count({"a" * n: 1, "b": 1}), rel=1e-6)
    assert oracle.rows_of(index) == {"b": 0}


def test_words_with_a_count_of_zero_are_known():
    index = index_of({"ab": 0, "b": 4}, ["ab"])
    assert oracle.probs_of(index) == {"a": 0, "b": 1, "ab": 0}
    assert set(oracle.rows_of(index)) == {"a", "b", "ab"}


def test_words_given_twice_count_twice():
    codes = encode(["ab", "ab", "b"], PLAIN)
    index = count_subwords(codes, np.array([1.0, 2, 4]), np.array([False, True, False]))
    assert oracle.probs_of(index) == pytest.approx({"a": 3 / 13, "b": 7 / 13, "ab": 3 / 13})
    assert len(oracle.rows_of(index)) == 3
    least = count_subwords(codes, np.ones(3), np.ones(3, np.bool_), min_prob_words=2)
    assert oracle.probs_of(least) == pytest.approx({"a": 2 / 7, "b": 3 / 7, "ab": 2 / 7})


def test_no_words_at_all():
    index = count_subwords(encode([], PLAIN), np.zeros(0), np.zeros(0, np.bool_), boundaries=True)
    assert (len(index), list(index.strings()), is_found(index, "a")) == (0, [], False)


@pytest.mark.parametrize("limit", ["MAX_WORDS", "MAX_PLACES"])
def test_too_many_words(limit, monkeypatch):
    monkeypatch.setattr(trie, limit, 1)
    with pytest.raises(InputError, match=r"2 words with 3 characters are too many; the limit is "):
        index_of({"ab": 1, "c": 1})


@given(vocabularies, st.data(), st.integers(1, 3), st.integers(3, 5), st.booleans())
def test_the_substrings_of_the_targets_have_vectors(words, data, min_len, max_len, boundaries):
    targets = data.draw(st.sets(st.sampled_from(list(words))))
    index = index_of(words, targets, min_len=min_len, max_len=max_len, boundaries=boundaries)
    marked = [f"<{w}>" if boundaries else w for w in targets]
    expected = {w[i:j] for w in marked for i in range(len(w)) for j in range(i + min_len, min(len(w), i + max_len) + 1)}
    marks = {"<", ">", "<>", "><", "<<", ">>"} if boundaries else set()
    assert set(oracle.rows_of(index)) == expected - marks
    assert list(oracle.rows_of(index).values()) == list(range(len(expected - marks)))


@given(vocabularies, st.integers(1, 4))
def test_pruning_keeps_subwords_that_enough_words_contain(words, least):
    index = index_of(words, words)
    expected = {s: sum(s in w for w in words) for s in index.strings()}
    found = n_words_with(index, words)
    assert dict(zip(index.strings(), found[1:].tolist(), strict=True)) == expected
    pruned = index.pruned(found >= least)
    kept = {s for s, n in expected.items() if n >= least}
    assert oracle.probs_of(pruned) == {s: p for s, p in oracle.probs_of(index).items() if s in kept}
    assert list(oracle.rows_of(pruned).values()) == list(range(len(kept)))


@given(vocabularies, st.data())
def test_pruning_keeps_prefixes_and_characters(words, data):
    """Any strings may be kept; their prefixes and characters stay without probability and row. Rows may be shared."""
    index = index_of(words, words)
    strings = list(index.strings())
    rows = np.array([-1, *data.draw(st.lists(st.integers(-1, 5), min_size=len(strings), max_size=len(strings)))])
    index = index.with_rows(rows.astype(np.int32))
    kept = data.draw(st.sets(st.sampled_from(strings)))
    pruned = index.pruned(np.array([False, *(s in kept for s in strings)]))
    prefixes = {s[:end] for s in kept for end in range(1, len(s) + 1)}
    assert set(pruned.strings()) == prefixes | {character for s in kept for character in s}
    probs, old = oracle.probs_of(index), oracle.rows_of(index)
    left = sorted({old[s] for s in kept if s in old})
    assert oracle.probs_of(pruned) == {s: probs[s] if s in kept else 0 for s in pruned.strings()}
    assert oracle.rows_of(pruned) == {s: left.index(old[s]) for s in pruned.strings() if s in kept and s in old}


def test_more_letters_and_children_than_a_byte_counts():
    random = np.random.default_rng(0)
    words = {"".join(chr(0x4E00 + c) for c in [7, *random.integers(700, size=3)]): 1 for _ in range(1000)}
    index, expected = index_of(words, words), oracle.count(words)
    assert (index.arrays.labels.dtype, index.arrays.children.dtype) == (np.uint16, np.uint16)
    assert oracle.probs_of(index) == pytest.approx(expected, rel=1e-6)
    subwords = Subwords(index, PLAIN)
    for start in expected:
        for end in ("", chr(0x4E00), chr(0x4E00 + 699)):
            spans = subwords.spans(start + end)
            found = np.count_nonzero(spans.begins == 0) == len(start + end)
            assert found == (start + end in expected or len(start + end) == 1)


@pytest.mark.parametrize("largest", [0, 254, 255, 2**16 - 2, 2**16 - 1, 2**24 - 2, 2**24 - 1, 2**31 - 2])
def test_rows_are_stored_exactly(largest):
    index = index_of({"abc": 1})
    rows = np.array([-1, 0, largest, largest // 2, -1, largest // 3, 0], np.int32)
    assert index.with_rows(rows).rows.tolist() == rows.tolist()
    assert index.with_rows(rows).arrays.rows.shape == (7, -(-(largest + 1).bit_length() // 8))


# Levels of probability ------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(2.0**-126, 1, width=32), min_size=1, max_size=30), st.booleans())
def test_probabilities_become_the_nearest_level(probs, with_zero):
    strings = "".join(chr(0x4E00 + i) for i in range(len(probs) + with_zero))
    table = dict(zip(strings, probs, strict=False))
    index = oracle.index_of_table(table, set(strings))
    rounded = index.with_prob_levels()
    assert rounded.arrays.probs.dtype == np.uint8
    assert rounded.arrays.prob_levels.shape == (256,)
    least = max(min(probs), PROB_RANGE * max(probs))
    step = np.log(max(probs) / least) / 254
    for subword, p in oracle.probs_of(rounded).items():
        if subword not in table:
            assert p == 0
        else:
            assert abs(np.log(p / max(table[subword], least))) <= step / 2 + 1e-6
    assert np.array_equal(rounded.rows, index.rows)
    again = pickle.loads(pickle.dumps(rounded))
    assert np.array_equal(again.probs, rounded.probs)
    keep = np.arange(len(index) + 1) % 2 == 1
    pruned = rounded.pruned(keep)
    assert pruned.arrays.probs.dtype == np.uint8
    assert np.array_equal(pruned.probs[1:], rounded.probs[keep])


@pytest.mark.parametrize("rounded", [False, True])
def test_subwords_without_a_vector_stay_unless_their_probability_is_negligible(rounded):
    table = {"a": 1.0, "b": 1e-20, "ab": 2e-12, "ba": 5e-13, "aa": 1e-30, "bb": 1e-30, "aba": 0.1}
    index = oracle.index_of_table(table, {"ba", "bb", "ab"})
    index = index.with_prob_levels() if rounded else index
    fewer = index.with_vectors(np.array([False, *(subword == "bb" for subword in index.strings())]))
    assert oracle.rows_of(fewer) == {"bb": 0}
    before = oracle.probs_of(index)
    assert oracle.probs_of(fewer) == {subword: before[subword] for subword in ("a", "b", "ab", "bb", "aba")}


def test_an_index_without_probabilities_has_levels_too():
    assert not index_of({"abc": 0}).with_prob_levels().probs.any()


def test_levels_change_the_posteriors_little():
    words = {"high": 3, "higher": 2, "er": 1, "highest": 1, "low": 5, "lower": 2}
    segmenter = Segmenter.from_counts(words)
    rounded = Segmenter(segmenter.index.with_prob_levels(), segmenter.spelling)
    for word in ("lowest", "higher", "zigher"):
        exact = {(span.start, span.end): span.posterior for span in segmenter.lattice(word).spans}
        found = {(span.start, span.end): span.posterior for span in rounded.lattice(word).spans}
        assert found == pytest.approx(exact, rel=0.1)


def test_unknown_strings_are_not_found():
    index = index_of({"abc": 1})
    for absent in ("d", "ac", "abcd", "東"):
        assert not is_found(index, absent)
    for present in ("a", "bc", "abc"):
        assert is_found(index, present)


def test_rare_subwords_keep_a_probability():
    assert oracle.probs_of(index_of({"a": 1e300, "b": 1e-300}))["b"] > 0


def test_index_is_picklable_and_read_only():
    index = pickle.loads(pickle.dumps(index_of({"abc": 1})))
    assert list(index.strings()) == ["a", "b", "c", "ab", "bc", "abc"]
    assert not any(array.flags.writeable for array in index.arrays)


# Subwords of enough words ---------------------------------------------------------------------------------------------


@given(few_words, st.integers(2, 4))
def test_common_subwords_and_all_characters_share_the_probability(words, least):
    index, table = index_of(words, words), oracle.count(words)
    kept = {s: p for s, p in table.items() if len(s) == 1 or sum(s in word for word in words) >= least}
    found = index_of(words, words, min_prob_words=least)
    expected = {subword: kept.get(subword, 0) / sum(kept.values()) for subword in table}
    assert oracle.probs_of(found) == pytest.approx(expected, rel=1e-6)
    assert np.array_equal(found.rows, index.rows)


# EM -------------------------------------------------------------------------------------------------------------------


def em(index, words, rounds, threads=None):
    counts = np.array(list(words.values()), float)
    return fit_probabilities(Subwords(index, PLAIN), encode(list(words), PLAIN), counts, rounds, Threads(threads))


@given(st.lists(st.text("ab<>-", min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
def test_subwords_without_the_marks_at_their_ends(words):
    spelling = Spelling(boundaries=True, inner_boundaries=True)
    ones = np.ones(len(words))
    index = count_subwords(encode(words, spelling), ones, ones > 0, boundaries=True)
    strings = ["", *index.strings()]
    for subword, inner in zip(strings, index.inner().tolist(), strict=True):
        plain = subword.removeprefix("<").removesuffix(">")
        assert strings[inner] == (plain if plain != subword else "")


@given(st.lists(st.text("ab<>-", min_size=1, max_size=5), min_size=1, max_size=5, unique=True), st.booleans())
def test_letters_of_subwords_and_those_that_go_on_after_a_part(words, boundaries):
    index = index_of(dict.fromkeys(words, 1))
    for subword, letters, goes_on in zip(
        ["", *index.strings()], index.count_letters(boundaries).tolist(), index.goes_on().tolist(), strict=True
    ):
        assert letters == sum(not boundaries or character not in "<>" for character in subword)
        assert goes_on == (">" in subword[:-1])


def test_em_on_aba_by_hand():
    """Before: p(a) = 1/3, all others 1/6. Of 16 parts, aba has 9, ab/a and a/ba 3 each, a/b/a 1 (see test_lattice).

    So a is expected 3 + 3 + 2 = 8 times, aba 9, ab and ba 3, b 1: together 24 sixteenths.
    """
    found = oracle.probs_of(em(index_of({"aba": 1}), {"aba": 7}, 1))
    assert found == pytest.approx({"a": 8 / 24, "b": 1 / 24, "ab": 3 / 24, "ba": 3 / 24, "aba": 9 / 24}, rel=1e-6)


@given(few_words, st.sampled_from([0, 1, 2, 3, 6, 8]))
def test_em_is_that_of_the_enumeration(words, rounds):
    index = index_of(words)
    expected = oracle.em(words, oracle.probs_of(index), rounds, UNSEEN)
    assert oracle.probs_of(em(index, words, rounds)) == pytest.approx(expected, rel=1e-6, abs=1e-37)


@pytest.mark.parametrize("rounds", [5, 6, 9])
@pytest.mark.parametrize("counts", [(1, 1, 1, 1), (3, 0, 2, 7)])
def test_long_pieces_and_single_letters_after_five_rounds(rounds, counts):
    words = dict(zip(("unbelabl", "unbelably", "belably", "abbey"), map(float, counts), strict=True))
    index = index_of(words)
    expected = oracle.em(words, oracle.probs_of(index), rounds, UNSEEN)
    assert oracle.probs_of(em(index, words, rounds)) == pytest.approx(expected, rel=1e-6, abs=1e-37)


def test_a_long_piece_must_be_in_several_words():
    """Five rounds keep `unbelabl`, which only two words have in common; the next ones drop it."""
    words = dict.fromkeys(("unbelably", "unbelablo", "undo", "unto", "untie", "belo", "ably", "abode", "belt"), 1.0)
    index = index_of(words)
    index = index.pruned((n_words_with(index, words) >= 2) | (np.arange(len(index) + 1) <= index.alphabet.size))
    before, after = (oracle.probs_of(em(index, words, rounds))["unbelabl"] for rounds in (5, 10))
    assert before > 0.05
    assert after < 0.01


@given(few_words, st.dictionaries(st.text("abé", min_size=1, max_size=4), st.floats(1e-6, 1), max_size=20))
def test_em_from_any_probabilities(words, table):
    """Also where letters of the words, or inside a known subword, have no probability: they stay without one."""
    assume(any(n and subword in word for word, n in words.items() for subword in table))
    index = oracle.index_of_table(table, {"aéb"})
    found = oracle.probs_of(em(index, words, 1))
    assert found == pytest.approx(oracle.em(words, oracle.probs_of(index), 1, UNSEEN), rel=1e-6, abs=1e-37)
    assert {subword for subword, p in found.items() if p > 0} == set(table)


@given(few_words, st.dictionaries(st.text("abé", min_size=1, max_size=4), st.floats(1e-6, 1), max_size=20))
def test_expected_counts_spell_the_words(words, table):
    """Each letter of each word is in one piece: with every letter known, the expected counts cover all of them."""
    table = {**{letter: 0.5 for letter in "abé"}, **table}
    index, counts = oracle.index_of_table(table, set()), np.array(list(words.values()), float)
    sums = expected_counts(index.unpacked(np.ones(0, np.float32)), UNSEEN, *encode(list(words), PLAIN), counts)
    letters = sum(n * len(word) for word, n in words.items())
    assert sum(sums[1:] * [len(subword) for subword in index.strings()]) == pytest.approx(letters)
    assert sums[0] == 0


@given(few_words, st.booleans())
def test_no_round_of_em_makes_the_words_less_probable(words, common_only):
    index = index_of(words)
    if common_only:
        keep = n_words_with(index, words) >= 2
        keep[: index.alphabet.size + 1] = True
        index = index.pruned(keep)
    letters = sum(n * len(word) for word, n in words.items())
    before = -np.inf
    for rounds in range(4):
        after = oracle.log_likelihood(words, oracle.probs_of(em(index, words, rounds)), UNSEEN)
        assert after >= before - 1e-7 * letters  # float32 rounds each of these factors by up to 6e-8
        before = after


@pytest.mark.parametrize("n_words", [1, 5, 500])
def test_em_is_the_same_to_the_byte_for_any_number_of_threads(n_words):
    random = np.random.default_rng(0)
    texts = {"".join(random.choice(list("abcd"), random.integers(1, 12))) for _ in range(n_words)}
    words = {text: float(random.random()) for text in sorted(texts)}
    index = index_of(words)
    first = em(index, words, 3, threads=1).probs.tobytes()
    assert first != index.probs.tobytes()
    for threads in (2, 3, 20):
        assert em(index, words, 3, threads=threads).probs.tobytes() == first


def test_no_part_of_em_is_without_words():
    class Watched(Threads):
        def map(self, stage, function, items, *others):
            assert items
            return super().map(stage, function, items, *others)

    words = {"aba": 1.0, "ab": 2.0, "b": 3.0}
    codes, counts = encode(list(words), PLAIN), np.array(list(words.values()))
    found = fit_probabilities(Subwords(index_of(words), PLAIN), codes, counts, 2, Watched(2))
    assert found.probs.tobytes() == em(index_of(words), words, 2).probs.tobytes()


def test_a_character_no_segmentation_uses_keeps_a_probability():
    """Its expected count is below any float; the probability of an unseen character would be far too large."""
    words = {"a" * 40: 1.0}
    index = em(oracle.index_of_table({"a" * 40: 1.0, "a": 1e-37}, set()), words, 1)
    assert oracle.probs_of(index)["a"] == np.finfo(np.float32).tiny
    assert oracle.probs_of(index)["a" * 40] == 1


def test_em_runs_as_plain_python_too():
    code = (
        "from pbos import Segmenter; words = {'high': 3, 'higher': 2, 'er': 1, 'highest': 1}; "
        "print(Segmenter.from_counts(words, boundaries=True, min_prob_words=2, em_rounds=2).index.probs.tolist())"
    )

    def output(**environment):
        command = [sys.executable, "-W", "error", "-c", code]
        return subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True).stdout

    assert output(NUMBA_DISABLE_JIT="1") == output()


# Parts of the words ---------------------------------------------------------------------------------------------------


@given(
    st.lists(st.text("abcé<>", min_size=1, max_size=7), min_size=1, max_size=12, unique=True),
    st.integers(1, 4),
    st.sampled_from([None, 2, 4]),
)
def test_words_can_be_counted_in_parts(words, size, max_len):
    """The counts are whole numbers, so that sums are exact in any order."""
    counts, is_target = np.arange(1.0, len(words) + 1), np.arange(len(words)) % 3 > 0
    options = {"min_len": 2, "max_len": max_len, "min_prob_words": 2, "boundaries": True}
    whole = count_subwords(encode(words, PLAIN), counts, is_target, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pbos.training.counting.PART", size)
        parts = count_subwords(encode(words, PLAIN), counts, is_target, **options)
    for one, other in zip(whole.arrays, parts.arrays, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
