"""Held-out training words choose the ridge penalty, and how much less rare words count. Arrays only, no words."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.jobs.pools import Pool, Threads
from pbos.jobs.workspace import Workspace
from pbos.settings import PRESETS, Preset
from pbos.training.solve import Ridge
from pbos.words.arrays import FloatMatrix, projected, projection
from pbos.words.weights import Weights

LAMS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)  # the ridge penalties to try
SHARES = (1 / 3, 1 / 10, 1 / 30, 1 / 100)  # the shares of words to try as `reliability`
FIRST_LAM = 0.003
SCORE_SHARE = 1 / 10  # in one half of the score, words count as training words do with this reliability
SEARCH_DIMS = 32  # enough to tell one setting from another
LEAST_GAIN = 0.001  # in cosine, for which a smaller lam is worth its iterations
MOST_HELD_OUT = 5000
TOLERANCE = 0.01  # of the solver: enough to tell one setting from another
Vector = npt.NDArray[np.float64]
Setting = tuple[float, float | None]  # lam and share


@dataclass(frozen=True)
class Run:
    """What the steps of one training run share."""

    preset: Preset = PRESETS["default"]
    seed: int = 0
    threads: int | None = None
    device: Any = None  # of PyTorch; None for the CPU
    progress: bool | None = False
    pool: Pool = field(default_factory=Threads)
    work: Workspace = field(default_factory=Workspace)


class Words(NamedTuple):
    """Some of the training words."""

    weights: Weights
    targets: FloatMatrix  # (n_words, dims)
    counts: Vector  # how often each occurs
    some: npt.NDArray[np.int64] | None = None  # which of these words; None for all

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The positions of the words."""
        return np.arange(len(self.weights)) if self.some is None else self.some

    def reliabilities(self, share: float | None) -> npt.NDArray[np.float32] | None:
        """Return `reliabilities` of the words, at their positions."""
        known = reliabilities(self.counts[self.rows], share)
        if known is None:
            return None
        found = np.zeros(len(self.weights), np.float32)
        found[self.rows] = known
        return found


class Choice(NamedTuple):
    """The best settings, and the scores of all that were tried."""

    lam: float
    share: float | None  # as for `reliabilities`
    scores: dict[str, float]


def reliabilities(counts: Vector, share: float | None) -> npt.NDArray[np.float32] | None:
    """Return how much each word counts in the regression, 1 on average; None if all count the same.

    A word's vector is learned from the places where the word occurs, so its error has a variance that falls with the
    count c: as 1 + c0 / c, where c0 is the count of the word at this share of all words, most frequent first. Words
    count in inverse proportion to the variance. Words that were not counted count like the rarest.

    >>> print(reliabilities(np.array([4.0, 2.0, 1.0, 0.0]), 0.5).round(2))
    [1.3  1.08 0.81 0.81]
    """
    if share is None:
        return None
    known = np.maximum(counts, counts.min(initial=np.inf, where=counts > 0))
    if not np.isfinite(known).all():
        return None
    ordered = np.sort(known)[::-1]
    typical = ordered[min(int(share * known.size), known.size - 1)]
    trust = known / (known + typical)
    return np.asarray(trust / trust.mean(), np.float32)


def split(n_words: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return which words to hold out: a tenth, at most 5,000."""
    hidden = np.zeros(n_words, np.bool_)
    size = min(n_words // 10, MOST_HELD_OUT)
    hidden[np.random.default_rng(seed).choice(n_words, size, replace=False)] = True
    return hidden


def choose(
    kept: Words,
    held_out: Words,
    penalty: Vector | None = None,
    run: Run | None = None,
    *,
    lams: Sequence[float] = LAMS,
    shares: Sequence[float | None] = (None, *SHARES),
    on_try: Callable[[str, float], None] = lambda name, score: None,
) -> Choice:
    """Choose lam and the share for `reliabilities` by the cosines of held-out words with their given vectors.

    With the first share, the search climbs to the lam with the best mean cosine; where two are as good, within
    .001 or a standard error, it takes the larger one, which is faster to train. It takes the next share only where that
    is better by more than two standard errors; then it climbs to a better lam again.

    Shares are compared by another score. Cosines are taken around the mean of all given vectors, because rare words
    tend to be near it, and half of the score counts frequent words more: the vectors of rare words are so noisy that
    fitting them best means fitting noise.

    Args:
        kept: The words to train on.
        held_out: The words to compare with.
        penalty: As for `Ridge`.
        run: Where to solve; its seed determines the random projection in which vectors are compared.
        lams: The values to try, in order.
        shares: The values to try, in order; None for words that all count the same.
        on_try: Called with what was tried and its score.
    """
    start = lams.index(FIRST_LAM) if FIRST_LAM in lams else len(lams) - 1
    if not len(held_out.weights) or len(lams) == len(shares) == 1:
        return Choice(lams[start], shares[0], {})
    run = run or Run()
    directions, work = projection(kept.targets.shape[1], SEARCH_DIMS, run.seed), run.work
    targets = work.keep("tuning.targets", projected(kept.targets, directions))
    goal = projected(held_out.targets, directions)
    middle = targets[kept.rows].mean(axis=0)
    trust = reliabilities(np.concatenate([kept.counts[kept.rows], held_out.counts]), SCORE_SHARE)
    even = parts = np.full(len(goal), 1 / len(goal))
    if trust is not None:
        frequent = trust[-len(goal) :].astype(np.float64)
        parts = (parts + frequent / frequent.sum()) / 2
    scores: dict[str, float] = {}

    @functools.lru_cache(maxsize=1)
    def ridge(share: float | None) -> Ridge:
        return Ridge(kept.weights, penalty, kept.reliabilities(share), kept.some, work)

    needed, columns = np.unique(held_out.weights.indices, return_inverse=True)
    needed = work.keep("tuning.columns", needed)  # so that they are not sent with every slice
    weights = replace(held_out.weights, indices=columns.astype(np.int32), n_columns=needed.size)

    @functools.cache
    def cosines_of(lam: float, share: float | None) -> tuple[Vector, Vector]:
        """Return the cosines of the held-out words, plain and around the mean."""
        options = {"tolerance": TOLERANCE, "pool": run.pool, "device": run.device}
        solution = ridge(share).solve(targets, lam, only=needed, **options)
        words = weights.composed(solution.vectors)
        plain = row_cosines(words, goal)
        name = f"{lam:g}" if share is None else f"{lam:g}, {share:.2g}"
        scores[name] = round(float(plain.mean()), 4)
        on_try(name, scores[name])
        return plain, row_cosines(words - middle, goal - middle)

    def gain(old: Setting, new: Setting, by: int, parts: Vector) -> tuple[float, float]:
        """Return how much better a setting is, by plain cosines (0) or around the mean (1), and the standard error."""
        gained = cosines_of(*new)[by] - cosines_of(*old)[by]
        mean = float(parts @ gained)
        return mean, float(np.sqrt(parts**2 @ (gained - mean) ** 2))

    def climb(at: int, share: float | None, by: int, parts: Vector) -> int:
        """Return the position of the largest lam that is as good as the best one next to it."""
        for step, sign in ((1, 1), (-1, -1)):  # to a smaller lam if it is better, to a larger one unless it is worse
            while 0 <= at + step < len(lams):
                mean, error = gain((lams[at], share), (lams[at + step], share), by, parts)
                if mean <= sign * max(error, LEAST_GAIN):
                    break
                at += step
        return at

    share = shares[0]
    at = climb(start, share, 0, even)
    for other in shares[1:]:
        mean, error = gain((lams[at], share), (lams[at], other), 1, parts)
        if mean <= 2 * error or len(goal) == 1:
            break
        share = other
    if share != shares[0]:
        at = climb(at, share, 1, parts)
    return Choice(lams[at], share, scores)


def row_cosines(left: FloatMatrix, right: FloatMatrix) -> Vector:
    """Return the cosine of each row of one matrix with the same row of another, in float64; 0 for rows of zeros."""
    products = np.einsum("ij,ij->i", left, right, dtype=np.float64)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: Vector = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return cosines
