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
from pbos.kernels import columns
from pbos.training.confidence import TOLERANCE, calibrate, mean_and_scale, row_cosines
from pbos.training.solve import NONE, Ridge, Solution, sgd
from pbos.training.system import Run, Split, System, split_words
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
    """Return the index with the n vectors that add most to the words': most squared length times squared weights."""
    weights, work = system.weights, run.work.inner("selection")
    directions = projection(system.targets.shape[1], SEARCH_DIMS, run.seed)  # enough to rank lengths
    targets = work.keep("targets", projected(system.targets, directions))
    recipe = replace(run.preset, own_share="fitted", confidence=False)
    vectors = fit(replace(system, targets=targets), replace(run, preset=recipe, progress=False, work=work)).vectors
    parts = (vectors[rows].astype(np.float64) for rows in blocks(weights.n_columns))
    lengths = np.concatenate([np.einsum("ij,ij->i", part, part) for part in parts])
    squares = np.zeros(weights.n_columns)
    columns.add_squares(weights.indptr, weights.indices, weights.data, np.arange(len(weights)), NONE, squares)
    best = np.argsort(-(lengths * squares), kind="stable")[:n]
    return system.index.with_vectors(np.isin(system.index.rows, best))


# -- settings chosen on held-out words ---------------------------------------------------------------------------------


class Choice(NamedTuple):
    """The best settings, and the scores of all that were tried."""

    lam: float
    share: float | None  # as for `reliabilities`
    scores: dict[str, float]


def tune(system: System, run: Run) -> dict[str, Any]:
    """Choose lam and reliability on held-out words, and fit the confidence to them; return a Choice and tensors."""
    recipe = run.preset
    shares: tuple[float | None, ...] = (None,)
    lams = LAMS if isinstance(recipe.lam, str) else (recipe.lam,)
    if not isinstance(recipe.reliability, str):
        shares = (recipe.reliability,)
    elif recipe.reliability == "auto" and len(system.words) >= LEAST_RANKED:
        shares = (None, *SHARES)
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

    With the first share, the search climbs to the lam with the best mean cosine; where two are as good, within .001 or
    a standard error, it takes the larger one, which is faster to train. It takes the next share only where that is
    better by more than two standard errors; then it climbs to a better lam again. Shares are compared by cosines around
    the mean of all given vectors, because rare words tend to be near it, and half of that score counts frequent words
    more: the vectors of rare words are so noisy that fitting them best means fitting noise.
    """
    start = lams.index(FIRST_LAM) if FIRST_LAM in lams else len(lams) - 1
    n_hidden, kept, system = split.hidden.size, split.kept, split.system
    if not n_hidden or len(lams) == len(shares) == 1:
        return Choice(lams[start], shares[0], {})
    directions = projection(system.targets.shape[1], SEARCH_DIMS, run.seed)
    targets = run.work.keep("tuning.targets", projected(system.targets, directions))
    given, middle = projected(split.given, directions), targets[kept].mean(axis=0)
    used, numbers = np.unique(split.hidden_weights.indices, return_inverse=True)
    used = run.work.keep("tuning.columns", used)  # so that they are not sent with every slice
    weights = replace(split.hidden_weights, indices=numbers.astype(np.int32), n_columns=used.size)
    ridges: dict[float | None, Ridge] = {}  # the last one, by its share
    cosines: dict[Setting, tuple[Vector, Vector]] = {}  # of the held-out words: plain, and around the mean
    scores: dict[str, float] = {}

    def cosines_of(setting: Setting) -> tuple[Vector, Vector]:
        lam, share = setting
        if setting not in cosines:
            if share not in ridges:
                ridges.clear()
                trust = reliabilities(system.counts, share, kept)
                ridges[share] = Ridge(system.weights, system.penalty, trust, kept, run.work)
            vectors = ridges[share].solve(targets, lam, run, only=used, tolerance=TOLERANCE).vectors
            words = weights.composed(vectors)
            cosines[setting] = row_cosines(words, given), row_cosines(words - middle, given - middle)
            name = f"{lam:g}" if share is None else f"{lam:g}, {share:.2g}"
            scores[name] = round(float(cosines[setting][0].mean()), 4)
            advance(1, note=f"lam {name}, cosine {scores[name]:.4f}")
        return cosines[setting]

    def gain(old: Setting, new: Setting, parts: Vector, around_mean: bool) -> tuple[float, float]:
        """Return how much better a setting is, and the standard error; words count in the given parts."""
        gained = cosines_of(new)[around_mean] - cosines_of(old)[around_mean]
        mean = float(parts @ gained)
        return mean, float(np.sqrt(parts**2 @ (gained - mean) ** 2))

    def climb(at: int, share: float | None, parts: Vector, around_mean: bool) -> int:
        """Return the position of the largest lam that is as good as the best one next to it."""
        for step, sign in ((1, 1), (-1, -1)):  # to a smaller lam if it is better, to a larger one unless it is worse
            while 0 <= at + step < len(lams):
                mean, error = gain((lams[at], share), (lams[at + step], share), parts, around_mean)
                if mean <= sign * max(error, LEAST_GAIN):
                    break
                at += step
        return at

    even = parts = np.full(n_hidden, 1 / n_hidden)
    trust = reliabilities(system.counts[np.concatenate([kept, split.hidden])], SCORE_SHARE)
    if trust is not None:
        frequent = trust[-n_hidden:].astype(np.float64)
        parts = (parts + frequent / frequent.sum()) / 2
    share = shares[0]
    at = climb(start, share, even, around_mean=False)
    for other in shares[1:]:
        mean, error = gain((lams[at], share), (lams[at], other), parts, around_mean=True)
        if mean <= 2 * error or n_hidden == 1:
            break
        share = other
    if share != shares[0]:
        at = climb(at, share, parts, around_mean=True)
    return Choice(lams[at], share, scores)


def reliabilities(
    counts: Vector, share: float | None, rows: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.float32] | None:
    """Return how much each word counts in the regression, 1 on average; None if all count the same.

    The error of a word's vector has a variance that falls with its count c: as 1 + c0 / c, where c0 is the count of the
    word at this share of all words, most frequent first. Words count in inverse proportion to it; those that were not
    counted, like the rarest. If only the words in some rows are used, the others get 0.

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
