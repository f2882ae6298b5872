"""Counting and the index, against dictionaries."""

import pickle

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbos.subwords import count_subwords
from pbos.text import encode

vocabularies = st.dictionaries(st.text("abcß東", min_size=1, max_size=7), st.floats(0, 1e9), min_size=1, max_size=12)


def index_of(words, targets=(), **options):
    return count_subwords(
        list(words), np.array(list(words.values()), float), np.array([w in targets for w in words]), **options
    )


@given(vocabularies.filter(lambda words: sum(words.values()) > 1e-3))
def test_probabilities_are_those_of_a_dictionary(words):
    index = index_of(words)
    expected = oracle.count(words)
    assert set(index.strings()) == set(expected)
    for node, subword in enumerate(index.strings(), 1):
        assert index.probs[node] == pytest.approx(expected[subword], rel=1e-6, abs=1e-37)
        assert index.find(subword) == node
        assert index.subword(node) == subword


@given(vocabularies, st.data(), st.integers(1, 3), st.integers(3, 5), st.booleans())
def test_owners_are_the_substrings_of_the_targets(words, data, min_len, max_len, boundaries):
    targets = data.draw(st.sets(st.sampled_from(list(words))))
    index = index_of(words, targets, min_len=min_len, max_len=max_len, boundaries=boundaries)
    marked = [f"<{w}>" if boundaries else w for w in targets]
    expected = {w[i:j] for w in marked for i in range(len(w)) for j in range(i + min_len, min(len(w), i + max_len) + 1)}
    strings = ["", *index.strings()]
    assert {strings[node] for node in index.owners()} == (expected - {"<", ">"} if boundaries else expected)
    assert index.rows[index.owners()].tolist() == list(range(len(index.owners())))


@given(vocabularies, st.integers(1, 4))
def test_pruning_keeps_what_enough_words_hold(words, least):
    index = index_of(words, words)
    held = {s: sum(s in w for w in words) for s in index.strings()}
    holders = index.holders(encode(list(words)))
    assert dict(zip(index.strings(), holders[1:].tolist(), strict=True)) == held
    pruned = index.pruned(holders >= least)
    assert set(pruned.strings()) == {s for s, n in held.items() if n >= least}
    for node, subword in enumerate(pruned.strings(), 1):
        assert pruned.find(subword) == node
        assert pruned.probs[node] == index.probs[index.find(subword)]
        assert pruned.rows[node] == node - 1


def test_unknown_strings_are_not_found():
    index = index_of({"abc": 1})
    for absent in ("d", "ac", "abcd", "東"):
        assert index.find(absent) == -1


def test_what_is_hardly_seen_keeps_a_probability():
    index = index_of({"a": 1e300, "b": 1e-300})
    assert index.probs[index.find("b")] > 0


def test_index_is_picklable_and_read_only():
    index = pickle.loads(pickle.dumps(index_of({"abc": 1})))
    assert list(index.strings()) == ["a", "b", "c", "ab", "bc", "abc"]
    assert not any(array.flags.writeable for array in index.arrays)
