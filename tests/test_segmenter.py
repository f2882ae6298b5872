"""What the settings of a segmenter do to its probabilities, against dictionaries; many words at once."""

import gc

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos import InputError, Segmenter

WORDS = {"high": 60, "higher": 20, "highest": 5, "er": 20, "lower": 7, "never": 0}
few_words = st.dictionaries(
    st.text("abé", min_size=1, max_size=5), st.integers(0, 1000), min_size=1, max_size=10
).filter(lambda words: any(words.values()))


def probs_of(segmenter):
    return dict(zip(segmenter.index.strings(), segmenter.index.probs[1:].tolist(), strict=True))


def test_the_defaults_change_nothing():
    segmenter = Segmenter.from_counts(WORDS)
    assert probs_of(segmenter) == pytest.approx(oracle.count(WORDS), rel=1e-6)
    same = Segmenter.from_counts(WORDS, types=False, min_count=1, em_rounds=0)
    assert probs_of(same) == probs_of(segmenter)


def test_types_count_every_word_that_occurs_once():
    found = Segmenter.from_counts(WORDS, types=True, em_rounds=1)
    once = {word: min(n, 1) for word, n in WORDS.items()}
    assert probs_of(found) == probs_of(Segmenter.from_counts(once, em_rounds=1))


def test_types_are_counted_after_normalisation():
    found = Segmenter.from_counts({"High": 5, "high": 3, "er": 1}, types=True, normalization="casefold")
    assert probs_of(found) == probs_of(Segmenter.from_counts({"high": 1, "er": 1}))


def test_min_count_drops_what_few_words_hold():
    found = probs_of(Segmenter.from_counts(WORDS, min_count=2))
    table = oracle.count(WORDS)
    held = {s: sum(s in word for word in WORDS) for s in table}
    assert set(found) == {s for s, n in held.items() if table[s] > 0 and (n >= 2 or len(s) == 1)}
    assert {"t", "s", "l", "o", "high", "highe"} <= set(found)
    assert sum(found.values()) == pytest.approx(1)


@given(few_words, st.booleans(), st.booleans(), st.integers(1, 3), st.integers(0, 2))
def test_all_settings_together(words, boundaries, types, min_count, em_rounds):
    """Count, leave out, fit, one after the other."""
    settings = {"boundaries": boundaries, "types": types, "min_count": min_count, "em_rounds": em_rounds}
    written = {f"<{word}>" if boundaries else word: float(n > 0) if types else n for word, n in words.items()}
    table = oracle.count(written)
    kept = {s: p for s, p in table.items() if len(s) == 1 or sum(s in word for word in written) >= min_count}
    if max(map(len, table)) > 1 and max(map(len, kept)) == 1:
        with pytest.raises(InputError, match="would leave single characters only"):
            Segmenter.from_counts(words, **settings)
        return
    kept = {s: p / sum(kept.values()) for s, p in kept.items() if p > 0 or min_count == 1}
    expected = oracle.em(written, kept, em_rounds, 0.01)
    assert probs_of(Segmenter.from_counts(words, **settings)) == pytest.approx(expected, rel=2e-6, abs=1e-37)


def test_em_finds_the_pieces_words_share():
    stems, ends = ("walk", "jump", "call", "help"), ("", "s", "ed", "ing")
    words = dict.fromkeys((stem + end for stem in stems for end in ends), 1)
    segmenter = Segmenter.from_counts(words, boundaries=True, types=True, min_count=2, em_rounds=2)
    assert segmenter.segment("jumping")[0].pieces == ("jump", "ing")
    assert segmenter.segment("helped")[0].pieces == ("help", "ed")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
        ({"em_rounds": -1}, "em_rounds must not be negative, got -1"),
        ({"min_count": 99}, "min_count 99 would leave single characters only; no longer subword is in that many words"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(InputError, match=message):
        Segmenter.from_counts(WORDS, **settings)


@pytest.mark.parametrize("boundaries", [False, True])
def test_many_words_are_cut_as_each_alone(boundaries):
    segmenter = Segmenter.from_counts({"high": 6, "higher": 2, "er": 2, "low": 5, "x-ray": 1}, boundaries=boundaries)
    words = ["higher", "lower", "h", "ray-x", "東京", "highlow" * 40] * 1000
    for n in (1, 3):
        together = segmenter.segment(words, n, threads=2)
        for word, found in list(zip(words, together, strict=True))[:6]:
            assert found == segmenter.segment(word, n)
            assert all(isinstance(one, pbos.Segmentation) for one in found)
        assert together == together[:6] * 1000
    assert segmenter.segment([], 2) == []
    assert gc.isenabled()


def test_marks_inside_words_are_known_in_a_batch_too():
    model = pbos.load()
    words = ["well-known", "plain", "<odd>", "a.b.c"]
    assert model.segment(words, 4) == [model.segment(word, 4) for word in words]


@pytest.mark.parametrize("first", [0, 0x600])
def test_spans_over_more_letters_than_a_record_has_bits_for(first):
    """The most frequent letters are in the middle, so that others come before and after the window."""
    random = np.random.default_rng(first)
    letters = [chr(0x4E00 + first + i) for i in range(400)]

    def word():
        return "".join(letters[int(i)] for i in np.clip(random.normal(200, 60, random.integers(1, 7)), 0, 399))

    counts = {word(): 1 for _ in range(3000)}
    segmenter = Segmenter.from_counts(counts)
    known = {w[i:j] for w in counts for i in range(len(w)) for j in range(i + 1, len(w) + 1)}
    for _ in range(300):
        w = word() + "?" + word()
        expected = {(i, j) for i in range(len(w)) for j in range(i + 1, len(w) + 1) if j == i + 1 or w[i:j] in known}
        assert {(span.start, span.end) for span in segmenter.lattice(w).spans} == expected
