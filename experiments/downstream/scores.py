"""Scores with intervals. What is measured is kept as (seeds, items, 3): what was found rightly, found, and to be found.

Their F1, 2 x right / (found + to be found), is the accuracy where each item is found once and to be found once. The
intervals come from drawing items, and seeds, with replacement; the same draws for all rivals, so that their differences
are paired.
"""

from __future__ import annotations

from collections.abc import Container
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.evaluation.results import Score

Counts = npt.NDArray[np.float64]  # (seeds, items, 3)
REPEATS = 1000


def spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """Return the entities of a sentence: first word, end, kind. As conlleval, I- after another kind begins one.

    >>> sorted(spans(["B-per", "I-per", "B-per", "O", "I-loc", "I-org"]))
    [(0, 2, 'per'), (2, 3, 'per'), (4, 5, 'loc'), (5, 6, 'org')]
    """
    found, first = set(), 0
    for place, (tag, after) in enumerate(zip(tags, [*tags[1:], "O"], strict=True)):
        if tag.startswith("B") or (place and tags[place - 1][2:] != tag[2:]):
            first = place
        if tag != "O" and (after[:1] != "I" or after[2:] != tag[2:]):
            found.add((first, place + 1, tag[2:]))
    return found


def entity_counts(words: list[str], wanted: list[str], got: list[str], unknown: Container[str]) -> list[list[int]]:
    """Return the counts of all entities, of those with an unknown word, and of the others."""
    right, found, asked = spans(wanted) & spans(got), spans(got), spans(wanted)
    has = [word in unknown for word in words]

    def numbers(some: set[tuple[int, int, str]]) -> list[int]:
        unseen = sum(any(has[first:end]) for first, end, _ in some)
        return [len(some), unseen, len(some) - unseen]

    return [list(one) for one in zip(*map(numbers, (right, found, asked)), strict=True)]


def word_counts(words: list[str], wanted: list[str], got: list[str], unknown: Container[str]) -> list[list[int]]:
    """Return the counts of all words, of unknown words, and of the others."""
    marks = [(word in unknown, one == other) for word, one, other in zip(words, wanted, got, strict=True)]
    groups = (marks, [mark for mark in marks if mark[0]], [mark for mark in marks if not mark[0]])
    return [[sum(right for _, right in group), len(group), len(group)] for group in groups]


def f1(counts: Any) -> Any:
    """Return F1 x 100 of counts in the last axis."""
    return 200 * counts[..., 0] / np.maximum(counts[..., 1] + counts[..., 2], 1e-9)


@lru_cache(maxsize=1)
def samples(n_items: int) -> npt.NDArray[np.float64]:
    """Return how often each item is in each sample."""
    random = np.random.default_rng(0)
    return random.multinomial(n_items, np.full(n_items, 1 / n_items), REPEATS).astype(np.float64)


def draws(counts: Counts) -> npt.NDArray[np.float64]:
    """Return the score, and after it those of the samples."""
    n_seeds, n_items, _ = counts.shape
    sums = (samples(n_items) @ counts.transpose(1, 0, 2).reshape(n_items, -1)).reshape(REPEATS, n_seeds, 3)
    seeds = np.random.default_rng(0).integers(0, n_seeds, (REPEATS, n_seeds))
    drawn = f1(sums)[np.arange(REPEATS)[:, None], seeds]
    return np.concatenate([[f1(counts.sum(axis=1)).mean()], drawn.mean(axis=1)])


def score(values: npt.NDArray[np.float64]) -> Score:
    """Return the score with its interval, of what `draws` returns or of a difference of two."""
    low, high = np.percentile(values[1:], [2.5, 97.5])
    return Score(float(values[0]), float(low), float(high))
