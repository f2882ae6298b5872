"""The paper's published figures, from the same counts (see the tables of Zhao et al. 2020)."""

from collections import defaultdict

import numpy as np
import pytest

from pbos import Segmenter


@pytest.fixture(scope="module")
def segmenter(shared_data):
    return Segmenter.from_counts(shared_data / "unigram_freq.csv")


# Table 1, from this very list of 333,333 words: exact to the third decimal.
SEGMENTATIONS = {
    "higher": [("higher", 0.922), ("high/er", 0.029), ("highe/r", 0.026)],
    "farmland": [("farmland", 0.972), ("farmlan/d", 0.009), ("farm/land", 0.006)],
    "penpineapplepie": [("pen/pineapple/pie", 0.354), ("pen/pineapple/pi/e", 0.163), ("pen/pineapple/p/ie", 0.098)],
    "paradichlorobenzene": [
        ("para/dichlorobenzene", 0.612),
        ("par/a/dichlorobenzene", 0.109),
        ("paradi/chlorobenzene", 0.083),
    ],
}
WEIGHTS = {
    "higher": {"higher": 0.848, "high": 0.031, "er": 0.029, "r": 0.029, "highe": 0.024},
    "farmland": {"farmland": 0.942, "d": 0.010, "farmlan": 0.009, "farm": 0.008, "land": 0.007},
    "penpineapplepie": {"pineapple": 0.237, "pen": 0.186, "pie": 0.128, "e": 0.102, "p": 0.100},
    "paradichlorobenzene": {
        "dichlorobenzene": 0.344,
        "para": 0.284,
        "a": 0.060,
        "par": 0.053,
        "ichlorobenzene": 0.042,
    },
}


@pytest.mark.parametrize("word", SEGMENTATIONS)
def test_table_1(segmenter, word):
    found = [("/".join(s.pieces), round(s.probability, 3)) for s in segmenter.segment(word, 3)]
    assert found == SEGMENTATIONS[word]
    weights = [(subword, round(weight, 3)) for subword, weight in segmenter.weights(word)[:5]]
    assert weights == list(WEIGHTS[word].items())


def test_number_of_subwords(segmenter):
    assert len(segmenter.index) == 2_070_882


def affix_scores(segmenter, data, piece):
    """Of the affixes a word contains, guess the one whose piece weighs most: macro precision, recall and F1."""
    lines = (data / "affix_complete_set.txt").read_text(encoding="utf-8").splitlines()[1:]
    gold = [(affix, derived) for affix, _, _, derived, *_ in (line.split("\t") for line in lines) if affix != "-y"]
    affixes = sorted({affix for affix, _ in gold}, key=lambda affix: affix.strip("-"))
    gold = [(affix, word) for affix, word in gold if sum(a.strip("-") in word for a in affixes) >= 2]
    assert (len(gold), len(affixes)) == (3546, 17)

    right, predicted, wanted = defaultdict(int), defaultdict(int), defaultdict(int)
    for affix, word in gold:
        weights = dict(segmenter.weights(word))
        guess = max((a for a in affixes if a.strip("-") in word), key=lambda a: weights.get(piece(a), 0.0))
        predicted[guess] += 1
        wanted[affix] += 1
        right[affix] += guess == affix
    precision = np.array([right[a] / predicted[a] if predicted[a] else 0 for a in affixes])
    recall = np.array([right[a] / wanted[a] for a in affixes])
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)
    return [x.mean() for x in (precision, recall, f1)]


def test_affix_prediction(segmenter, shared_data):
    """Of the affixes a word contains, the one with the largest weight is the right one: .861 / .874 / .829."""
    found = affix_scores(segmenter, shared_data, lambda affix: affix.strip("-"))
    assert [round(x, 3) for x in found] == [0.861, 0.874, 0.829]


def test_affix_prediction_with_fitted_probabilities(shared_data):
    """Boundaries, every word counted once, subwords of two words or more, two rounds of EM: F1 of .89 or more.

    These settings were the best of 16 tried on this very set, so the figure is on the high side.
    """
    settings = {"boundaries": True, "types": True, "min_count": 2, "em_rounds": 2}
    segmenter = Segmenter.from_counts(shared_data / "unigram_freq.csv", **settings)
    found = affix_scores(
        segmenter, shared_data, lambda affix: f"{affix[1:]}>" if affix.startswith("-") else f"<{affix[:-1]}"
    )
    assert found[2] >= 0.89
