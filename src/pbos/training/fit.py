"""From a system to its subword vectors: settings are chosen on held-out words, then all words are solved for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.jobs.progress import Advance
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import blocks
from pbos.training.confidence import TOLERANCE, calibrate, mean_and_scale, row_cosines
from pbos.training.run import Run
from pbos.training.solve import Ridge, Solution, sgd
from pbos.training.system import Split, System, split_words
from pbos.words.arrays import projected, projection
from pbos.words.confidence import Confidence
from pbos.words.index import SubwordIndex

LAMS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)  # the ridge penalties to try
SHARES = (1 / 3, 1 / 10, 1 / 30, 1 / 100)  # the shares of words to try as `reliability`
FIRST_LAM = 0.003
SCORE_SHARE = 1 / 10  # in one half of the score, words count as training words do with this reliability
SEARCH_DIMS = 32  # enough to tell one setting from another
LEAST_GAIN = 0.001  # in cosine, for which a smaller lam is worth its iterations
LEAST_HELD_OUT = 100  # words, to fit a confidence to
LEAST_RANKED = 20_000  # words; with fewer, all are needed, and count the same
Vector = npt.NDArray[np.float64]
Setting = tuple[float, float | None]  # lam and share


def fit(system: System, run: Run) -> Solution:
    """Find the subword vectors with the preset's solver, and their confidence if the preset asks for it."""
    recipe, dims = run.preset, system.targets.shape[1]
    if recipe.solver == "sgd":
        with progress_bar("training", dims, run.progress) as advance:
            return sgd(system.weights, system.targets, run, advance)
    tuned = run.work.step("tuned", lambda: tune(system, run))
    choice, confidence = Choice(*tuned["choice"]), Confidence.of_tensors(tuned)
    reliability = reliabilities(system.counts, choice.share)
    own = None if isinstance(recipe.own_share, str) else (system.whole, recipe.own_share)
    with progress_bar("training", dims, run.progress) as advance:
        ridge = Ridge(system.weights, system.penalty, reliability, work=run.work)
        solution = ridge.solve(system.targets, choice.lam, run, work=run.work, own=own, on_slice=advance)
    report = {**solution.report, "reliability": "even" if choice.share is None else round(choice.share, 4)}
    if choice.scores:
        report["tried"] = choice.scores
    if confidence is not None:  # it was fitted in a projection
        mean, scale = mean_and_scale(system.targets, np.arange(len(system.words)), reliability)
        confidence = replace(confidence, mean=mean, scale=np.array([scale], np.float32))
    return Solution(solution.vectors, report, confidence)


def most_important(system: System, n: int, run: Run) -> SubwordIndex:
    """Return the index with the n vectors that add most to the words' vectors.

    What one adds is its squared length times its squared weights. Lengths are measured in a random projection, which is
    enough to rank them.
    """
    weights, work = system.weights, run.work.inner("selection")
    directions = projection(system.targets.shape[1], SEARCH_DIMS, run.seed)
    targets = work.keep("targets", projected(system.targets, directions))
    recipe = replace(run.preset, own_share="fitted", confidence=False)
    vectors = fit(replace(system, targets=targets), replace(run, preset=recipe, progress=False, work=work)).vectors
    parts = [vectors[rows].astype(np.float64) for rows in blocks(weights.n_columns)]
    lengths = np.concatenate([np.einsum("ij,ij->i", part, part) for part in parts])
    squares = np.zeros(weights.n_columns)
    for entries in blocks(weights.data.size):
        np.add.at(squares, weights.indices[entries], weights.data[entries].astype(np.float64) ** 2)
    kept = np.zeros(squares.size, np.bool_)
    kept[np.argsort(-(lengths * squares), kind="stable")[:n]] = True
    return system.index.with_vectors(kept[system.index.rows])  # which leaves nodes without a vector as they are


# -- settings chosen on held-out words ---------------------------------------------------------------------------------


class Choice(NamedTuple):
    """The best settings, and the scores of all that were tried."""

    lam: float
    share: float | None  # as for `reliabilities`
    scores: dict[str, float]


def tune(system: System, run: Run) -> dict[str, Any]:
    """Choose lam and reliability on held-out words, and fit the confidence to them; return a Choice and tensors."""
    recipe = run.preset
    lams = LAMS if isinstance(recipe.lam, str) else (recipe.lam,)
    shares: tuple[float | None, ...] = (None,)
    if recipe.reliability == "auto" and len(system.words) >= LEAST_RANKED:
        shares = (None, *SHARES)
    elif not isinstance(recipe.reliability, str):
        shares = (recipe.reliability,)
    if len(lams) == len(shares) == 1 and not recipe.confidence:
        return {"choice": Choice(lams[0], shares[0], {})}
    split = split_words(system, run)
    with progress_bar("choosing lam", None, run.progress) as advance:
        choice = choose(split, lams, shares, run, advance)
        if not recipe.confidence or split.hidden.size < LEAST_HELD_OUT:
            return {"choice": choice}
        confidence = calibrate(split, choice.lam, reliabilities(system.counts, choice.share, split.kept), run)
        return {"choice": choice, **confidence.tensors()}


def choose(
    split: Split,
    lams: Sequence[float],
    shares: Sequence[float | None],
    run: Run,
    advance: Advance = lambda steps, note="": None,
) -> Choice:
    """Choose lam and the share for `reliabilities` by the cosines of held-out words with their given vectors.

    With the first share, the search climbs to the lam with the best mean cosine; where two are as good, within
    .001 or a standard error, it takes the larger one, which is faster to train. It takes the next share only where that
    is better by more than two standard errors; then it climbs to a better lam again.

    Shares are compared by another score. Cosines are taken around the mean of all given vectors, because rare words
    tend to be near it, and half of the score counts frequent words more: the vectors of rare words are so noisy that
    fitting them best means fitting noise.
    """
    start = lams.index(FIRST_LAM) if FIRST_LAM in lams else len(lams) - 1
    n_hidden = split.hidden.size
    if not n_hidden or len(lams) == len(shares) == 1:
        return Choice(lams[start], shares[0], {})
    trials = Trials(split, run, advance)
    even = parts = np.full(n_hidden, 1 / n_hidden)
    trust = reliabilities(split.system.counts[np.concatenate([split.kept, split.hidden])], SCORE_SHARE)
    if trust is not None:
        frequent = trust[-n_hidden:].astype(np.float64)
        parts = (parts + frequent / frequent.sum()) / 2
    share = shares[0]
    at = trials.climb(lams, start, share, even)
    for other in shares[1:]:
        mean, error = trials.gain((lams[at], share), (lams[at], other), parts, around_mean=True)
        if mean <= 2 * error or n_hidden == 1:
            break
        share = other
    if share != shares[0]:
        at = trials.climb(lams, at, share, parts, around_mean=True)
    return Choice(lams[at], share, trials.scores)


class Trials:
    """Settings tried on held-out words, each once, in a random projection."""

    def __init__(self, split: Split, run: Run, advance: Advance) -> None:
        directions = projection(split.system.targets.shape[1], SEARCH_DIMS, run.seed)
        self.split, self.run, self.advance = split, run, advance
        self.targets = run.work.keep("tuning.targets", projected(split.system.targets, directions))
        self.given = projected(split.given, directions)
        self.middle = self.targets[split.kept].mean(axis=0)
        used, numbers = np.unique(split.hidden_weights.indices, return_inverse=True)
        self.used = run.work.keep("tuning.columns", used)  # so that they are not sent with every slice
        self.weights = replace(split.hidden_weights, indices=numbers.astype(np.int32), n_columns=used.size)
        self.ridge: tuple[float | None, Ridge] | None = None  # the last one, and its share
        self.cosines: dict[Setting, tuple[Vector, Vector]] = {}
        self.scores: dict[str, float] = {}

    def cosines_of(self, lam: float, share: float | None) -> tuple[Vector, Vector]:
        """Return the cosines of the held-out words, plain and around the mean."""
        if (lam, share) in self.cosines:
            return self.cosines[lam, share]
        if self.ridge is None or self.ridge[0] != share:
            split, system, self.ridge = self.split, self.split.system, None
            reliability, work = reliabilities(system.counts, share, split.kept), self.run.work
            self.ridge = share, Ridge(system.weights, system.penalty, reliability, split.kept, work)
        solution = self.ridge[1].solve(self.targets, lam, self.run, only=self.used, tolerance=TOLERANCE)
        words = self.weights.composed(solution.vectors)
        plain = row_cosines(words, self.given)
        name = f"{lam:g}" if share is None else f"{lam:g}, {share:.2g}"
        self.scores[name] = round(float(plain.mean()), 4)
        self.advance(1, note=f"lam {name}, cosine {self.scores[name]:.4f}")
        self.cosines[lam, share] = plain, row_cosines(words - self.middle, self.given - self.middle)
        return self.cosines[lam, share]

    def gain(self, old: Setting, new: Setting, parts: Vector, around_mean: bool) -> tuple[float, float]:
        """Return how much better a setting is, and the standard error; words count in the given parts."""
        gained = self.cosines_of(*new)[around_mean] - self.cosines_of(*old)[around_mean]
        mean = float(parts @ gained)
        return mean, float(np.sqrt(parts**2 @ (gained - mean) ** 2))

    def climb(
        self, lams: Sequence[float], at: int, share: float | None, parts: Vector, around_mean: bool = False
    ) -> int:
        """Return the position of the largest lam that is as good as the best one next to it."""
        for step, sign in ((1, 1), (-1, -1)):  # to a smaller lam if it is better, to a larger one unless it is worse
            while 0 <= at + step < len(lams):
                mean, error = self.gain((lams[at], share), (lams[at + step], share), parts, around_mean)
                if mean <= sign * max(error, LEAST_GAIN):
                    break
                at += step
        return at


def reliabilities(
    counts: Vector, share: float | None, rows: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.float32] | None:
    """Return how much each word counts in the regression, 1 on average; None if all count the same.

    A word's vector is learned from the places where the word occurs, so its error has a variance that falls with the
    count c: as 1 + c0 / c, where c0 is the count of the word at this share of all words, most frequent first. Words
    count in inverse proportion to the variance. Words that were not counted count like the rarest. If only the words
    in some rows are used, the others get 0.

    >>> print(reliabilities(np.array([4.0, 2.0, 1.0, 0.0]), 0.5).round(2))
    [1.3  1.08 0.81 0.81]
    """
    if share is None:
        return None
    rows = np.arange(counts.size) if rows is None else rows
    known = np.maximum(counts[rows], counts[rows].min(initial=np.inf, where=counts[rows] > 0))
    if not np.isfinite(known).all():
        return None
    ordered = np.sort(known)[::-1]
    typical = ordered[min(int(share * known.size), known.size - 1)]
    trust = known / (known + typical)
    found = np.zeros(counts.size, np.float32)
    found[rows] = trust / trust.mean()
    return found
