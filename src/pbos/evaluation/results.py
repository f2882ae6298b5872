"""What every task takes and returns: anything that embeds words in, scores with their uncertainty out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pbos.subword_vectors import FloatMatrix


class Embedder(Protocol):
    """Anything that gives vectors to words: a Model, a baseline, the target vectors alone."""

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        ...

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims); a word without a vector gets zeros."""
        ...


@dataclass(frozen=True)
class Score:
    """A figure with its 95 % bootstrap interval.

    Attributes:
        value: The figure.
        low: Where the interval begins; None where the sample does not allow one.
        high: Where it ends.
    """

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Result:
    """What a task found for one model on one data set.

    Attributes:
        task: The task's name, as on the command line: "similarity".
        dataset: The data set's name: "WS353".
        scores: The figures, the main one first: {"spearman": ..., "spearman, pairs with both vectors": ...}.
        details: Sizes and the protocol, as plain data.
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
    value: float,
    measure: Callable[[npt.NDArray[np.int64]], float],
    size: int,
    *,
    repeats: int = 1000,
    seed: int = 0,
    least: int = 20,
) -> Score:
    """Put a 95 % interval around a value: the percentiles of the measure over samples drawn with replacement.

    Args:
        value: The measure on the whole sample.
        measure: Takes the positions of a drawn sample, returns its figure.
        size: The number of items in the sample.
        repeats: How many samples to draw.
        seed: Fixes them.
        least: Below so many items no interval is given.

    >>> values = np.arange(100.0)
    >>> score = bootstrap(values.mean(), lambda drawn: values[drawn].mean(), len(values))
    >>> score.low < 49.5 < score.high
    True
    """
    if size < least:
        return Score(value)
    random = np.random.default_rng(seed)
    drawn = [measure(random.integers(0, size, size)) for _ in range(repeats)]
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return Score(value, float(low), float(high))
