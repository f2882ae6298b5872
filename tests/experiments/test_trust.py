"""The figures of docs/trust.md, on vectors small enough to count by hand."""

import numpy as np
import pytest

from experiments import trust
from pbos import WordVectors

RANDOM = np.random.default_rng(0)
KNOWN = WordVectors([f"w{row}" for row in range(40)], RANDOM.normal(size=(40, 5)))


def asked(expected, true, ranks=None):
    size = len(expected)
    composed, given = RANDOM.normal(size=(2, size, 5)).astype(np.float32)
    ranks = np.arange(size) if ranks is None else np.array(ranks)
    return trust.Asked([f"x{row}" for row in range(size)], ranks, composed, given, np.array(expected), np.array(true))


def test_shared_neighbors_are_those_of_sorted_lists():
    words = asked(RANDOM.random(7), RANDOM.random(7))

    def ten(vector):
        cosines = [vector @ known / np.linalg.norm(vector) / np.linalg.norm(known) for known in KNOWN.vectors]
        return set(sorted(range(40), key=lambda row: -cosines[row])[:10])

    counted = [len(ten(one) & ten(other)) for one, other in zip(words.composed, words.given, strict=True)]
    assert trust.shared_neighbors(words, KNOWN).tolist() == counted


def test_thresholds_keep_the_words_above_them():
    hidden, later = asked([0.1, 0.35, 0.55, 0.9], [0.0, 0.4, 0.5, 0.9]), asked([0.1, 0.75], [0.2, 0.6])
    lines = list(trust.thresholds(hidden, later))
    assert "| 0 | 100% | 0.45 | 100% | 0.40 |" in lines
    assert "| 0.5 | 50% | 0.70 | 50% | 0.60 |" in lines


def test_ranks_are_grouped():
    hidden, later = asked([0.5, 0.6], [0.1, 0.3], [0, 4999]), asked([0.2], [0.4], [120_000])
    words = trust.Asked(["y"] * 11, np.array(trust.RANKS[:-1]), *[np.ones((11, 5))] * 2, np.ones(11), np.ones(11))
    means = {low: (one, other) for low, _, one, other in trust.rank_means(words, later)}
    assert means[100_000] == pytest.approx(((1 + 0.2) / 2, (1 + 0.4) / 2))
    assert next(iter(trust.rank_means(hidden, words)))[2:] == pytest.approx(((0.5 + 0.6 + 1) / 3, (0.1 + 0.3 + 1) / 3))


def test_the_table_of_bands_has_all_words():
    lines = list(trust.bands(asked([0.1, 0.25, 0.35, 0.45, 0.55, 0.65, 0.9, 1.0], [0.5] * 8), KNOWN))[2:]
    assert [line.split(" | ")[1] for line in lines] == ["12%"] * 6 + ["25%"]
