"""What every task takes and returns: anything that embeds words in, scores with confidence intervals out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pbos.words.arrays import FloatMatrix

MIN_ITEMS = 20  # smaller samples get no interval


class Embedder(Protocol):
    """Anything that gives vectors to words: a Model, a baseline, a table of word vectors."""

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        ...

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims); a word without a vector gets zeros."""
        ...


@dataclass(frozen=True)
class Score:
    """A score with its 95 % bootstrap interval.

    Attributes:
        value: The score.
        low: Lower end of the interval; None if the sample is too small for one.
        high: Upper end of the interval.
    """

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Result:
    """The result of a task for one model on one data set.

    Attributes:
        task: The task's name, as on the command line: "similarity".
        dataset: The data set's name: "WS353".
        scores: The scores, the main one first: {"spearman": ..., "spearman, pairs with both vectors": ...}.
        details: Sizes and protocol, as plain data.
    """

    task: str
    dataset: str
    scores: dict[str, Score]
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> Score:
        """The first score."""
        return next(iter(self.scores.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON."""
        return asdict(self)


def bootstrap(
    measure: Callable[[npt.NDArray[np.int64]], dict[str, float]], size: int, *, repeats: int = 1000, seed: int = 0
) -> dict[str, Score]:
    """Score a sample, with 95 % intervals: percentiles of the scores over samples drawn with replacement.

    Args:
        measure: Takes the positions of the items in a sample and returns its scores by name.
        size: The number of items.
        repeats: How many samples to draw.
        seed: Determines the draws.

    >>> values = np.arange(100.0)
    >>> score = bootstrap(lambda drawn: {"mean": values[drawn].mean()}, len(values))["mean"]
    >>> score.low < score.value == 49.5 < score.high
    True
    """
    values = measure(np.arange(size))
    if size < MIN_ITEMS:
        return {name: Score(float(value)) for name, value in values.items()}
    random = np.random.default_rng(seed)
    drawn = [list(measure(random.integers(0, size, size)).values()) for _ in range(repeats)]
    low, high = np.nanpercentile(drawn, [2.5, 97.5], axis=0)
    return {name: Score(float(values[name]), float(low[at]), float(high[at])) for at, name in enumerate(values)}
