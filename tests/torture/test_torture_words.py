"""A quick cut of the attacks with hostile words (torture/words.py), and of very long ones."""

import random

import numpy as np
import pytest

import pbos
from pbos.errors import InputError, PbosWarning
from torture import words


def test_hostile_words():
    assert words.run(0, seed=1, cases=80)["words"] == 80


@pytest.mark.parametrize("which", [0, 1], ids=["both", "posterior"])
def test_vectors_of_long_words(which):
    """What is negligible alone adds up in a long word: 40 % were missing at 1,500 characters, all at 20,000."""
    oracle, dice = words.models()[which], random.Random(5)
    some = ["pneumono" * 30, "".join(dice.choices(oracle.model.words, k=200)), "pneumono" * 1500]
    assert words.check_vectors(oracle, some) < 1e-4


def test_a_million_letters():
    model = words.models()[0].model
    word = "".join(random.Random(6).choices(model.words, k=150_000))
    weights, vectors = model.subwords.weights([word]), model.subword_vectors.to_float32().astype(float)
    true = np.bincount(weights.indices, weights.data, len(vectors)) @ vectors
    assert np.linalg.norm(model.embed(word) - true) < 1e-4 * np.linalg.norm(true)
    assert "".join(model.segment(word)[0].pieces) == model.read_as(word)


def test_equal_words_get_equal_answers():
    model = words.models()[0].model
    assert (model.embed(["e\0👩\u200d🚀"] * 20_000) == model.embed("e\0👩\u200d🚀")).all()


def test_messages_do_not_echo_long_words():
    model = words.models()[0].model
    for bad in ("a" * 10**6 + "\ud800", b"a" * 10**6):
        with pytest.raises(InputError) as caught:
            model.embed(bad)
        assert len(str(caught.value)) < words.SHORT


def test_the_number_of_segmentations_is_checked():
    model = words.models()[0].model
    assert model.segment(["abc"] * 4, n=2**62) == [model.segment("abc", n=4)] * 4
    assert len(model.segment("abc", n=2**70)) == 4
    with pytest.raises(InputError, match="1,000,000 segmentations of 2,002 characters are too many"):
        model.segment("a" * 2000, n=10**6)
    with pytest.raises(InputError, match="too many"):
        model.sample("a" * 2000, k=2**62)
    with pytest.raises(InputError, match=r"n must be a whole number, got 1\.5"):
        model.segment("a", n=1.5)


def test_many_segmentations_are_the_best_ones():
    """All segmentations of a word with inner marks, against the first of fewer."""
    model = words.models()[0].model
    for word in ("re-entering", "unbelievable", "a<b>c-d"):
        found = model.segment(word, n=5000)
        assert len({one.pieces for one in found}) == len(found) < 5000
        assert sum(one.probability for one in found) == pytest.approx(1)  # so there are no others
        assert found == sorted(found, key=lambda one: -one.probability)
        for n in (1, 3, 20):
            assert model.segment(word, n)[0].pieces == found[0].pieces


def test_long_words_are_not_counted():
    with pytest.warns(
        PbosWarning,
        match="1 word with more than 256 characters are not counted .the first is word 2",
    ):
        segmenter = pbos.Segmenter.from_counts({"high": 2, "ab" * 5000: 1, "er": 1})
    assert set(segmenter.index.strings()) == {"h", "i", "g", "hi", "ig", "gh", "hig", "igh", "high", "e", "r", "er"}
    assert len(pbos.Segmenter.from_counts({"ab" * 5000: 1}, max_len=2).index) == 4
