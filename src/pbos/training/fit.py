"""From a system to its subword vectors: settings and confidence come from held-out words, then all are solved for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.jobs.progress import Advance
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import blocks, in_threads
from pbos.kernels import columns
from pbos.training.outliers import made_up
from pbos.training.solve import NONE, Ridge, Solution, sgd
from pbos.training.system import MOST_HELD_OUT, HeldOut, Run, Split, System, make_system, split_words
from pbos.words.arrays import FloatMatrix, projected, projection, row_lengths, rows_of
from pbos.words.confidence import Confidence, Regression
from pbos.words.index import SubwordIndex
from pbos.words.subwords import Subwords
from pbos.words.text import encode
from pbos.words.vectors import SubwordVectors
from pbos.words.weights import Weights

LAMS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)  # the ridge penalties to try
SHARES = (1 / 3, 1 / 10, 1 / 30, 1 / 100)  # the shares of words to try as `reliability`
FIRST_LAM = 0.003
SCORE_SHARE = 1 / 10  # in one half of the score, words count as training words do with this reliability
SEARCH_DIMS = 32  # enough to tell one setting from another
LEAST_GAIN = 0.001  # in cosine, for which a smaller lam is worth its iterations
OWN_VECTORS = 1 / 4  # of the vectors of a small model
LEAST_HELD_OUT = 100  # words, to fit a confidence to
LEAST_OF_TEXT = 20  # words of a text to hold out at once
LEAST_RANKED = 20_000  # words; with fewer, all are needed, and count the same
EVIDENCE_LAM = 0.1  # the ridge penalty of evidence, which has to be smoother than vectors
TOLERANCE = 0.01  # of the solver, for evidence and while settings are chosen
FEW = 3  # a subword in so few words may be a word of its own
CALIBRATION_DIMS = 100  # enough for the cosines that the confidence is fitted to
MANY = 1_000_000  # words; with more, fewer dimensions do
FEWER_DIMS = 32
Vector = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Reliability = npt.NDArray[np.float32] | None
Setting = tuple[float, float | None]  # lam and share


def fit(system: System, run: Run, in_text: Rows | None = None) -> Solution:
    """Find the subword vectors with the preset's solver, and their confidence if the preset asks for it.

    Some of the words `in_text` are held out, too, so that contexts can be compared with their spelling.
    """
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
    held_out = None
    if confidence is not None and in_text is not None:
        held_out = HeldOut(**run.work.step("held_out", lambda: hold_out(system, in_text, choice, tuned, run)))
    if confidence is not None:  # it was fitted in a projection
        mean, scale = mean_and_scale(system.targets, np.arange(len(system.words)), reliability)
        confidence = replace(confidence, mean=mean, scale=np.array([scale], np.float32))
    return Solution(solution.vectors, report, confidence, held_out)


def most_important(system: System, n: int, run: Run) -> SubwordIndex:
    """Return the index with n vectors: those that add most to the words', and some words' own.

    Subwords add the squared length of their vector times the squared weights. A quarter is left for the vectors of
    whole words whose spelling misleads: the farther from their given vectors without them, and the more frequent.
    """
    weights, work = system.weights, run.work.inner("selection")
    directions = projection(system.targets.shape[1], SEARCH_DIMS, run.seed)  # enough to rank lengths
    targets = work.keep("targets", projected(system.targets, directions))
    recipe = replace(run.preset, own_share="fitted", confidence=False)
    vectors = fit(replace(system, targets=targets), replace(run, preset=recipe, progress=False, work=work)).vectors
    parts = (vectors[rows].astype(np.float64) for rows in blocks(weights.n_columns))
    lengths = np.concatenate([np.einsum("ij,ij->i", part, part) for part in parts])
    squares = np.zeros(weights.n_columns)
    columns.add_squares(weights.indptr, weights.indices, weights.data, np.arange(len(weights)), NONE, squares)
    gains, whole = lengths * squares, system.whole
    n_own = min(int(OWN_VECTORS * n), int((whole >= 0).sum()))
    best = np.argsort(-gains, kind="stable")[: n - n_own]
    index = system.index.with_vectors(np.isin(system.index.rows, best))
    if n_own:
        codes = work.keep_all("codes", encode(system.words, recipe))
        inner = replace(run, work=work.inner("few"))
        few = make_system(index, system.words, codes, targets, system.counts, inner)
        ridge = Ridge(few.weights, few.penalty, work=inner.work)
        found = ridge.solve(targets, FIRST_LAM, inner, tolerance=TOLERANCE).vectors
        rank = np.argsort(np.argsort(-system.counts, kind="stable"))
        lost = (1 - row_cosines(few.weights.composed(found), targets)) / np.sqrt(rank + len(rank) / 20)
        lost[whole < 0] = 0
        own = whole[np.argsort(-lost, kind="stable")[:n_own]]
        index = system.index.with_vectors(np.isin(system.index.rows, np.concatenate([best, own])))
    return index


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
        trust = reliabilities(system.counts, choice.share, split.kept)
        return {"choice": choice, **calibrate(split, choice.lam, trust, run).tensors()}


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


def reliabilities(counts: Vector, share: float | None, rows: npt.NDArray[np.int64] | None = None) -> Reliability:
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


# -- the confidence: what training words tell about each subword vector, fitted to held-out words ----------------------


class Unseen(NamedTuple):
    """Held-out words as a model of the other words composes them, in a projection."""

    evidence: Confidence  # of that model, without the regression
    words: list[str]
    features: npt.NDArray[np.float32]  # of the words, for a confidence
    composed: FloatMatrix
    given: FloatMatrix
    directions: FloatMatrix
    subwords: Subwords
    vectors: SubwordVectors


def calibrate(split: Split, lam: float, reliability: Reliability, run: Run) -> Confidence:
    """Fit a confidence to the cosines of held-out words, as a model of the other words composes them."""
    found = unseen(split, lam, reliability, run, "calibration")
    cosines, evidence = row_cosines(found.composed, found.given), found.evidence
    confidence = evidence.fitted(found.features, cosines)
    ranks = 1 + np.argsort(np.argsort(-split.system.counts, kind="stable"))[split.hidden]
    confidence = confidence.with_ranks(confidence.predict(found.features), cosines, ranks)
    subwords, features = found.subwords, [found.features]
    good, bad = made_up(found.words, subwords.words, run.seed)
    features += [subwords.features(subwords.read(some), found.vectors, evidence) for some in (good, bad)]
    every, is_word = np.concatenate(features), np.arange(sum(map(len, features))) < len(found.words) + len(good)
    some_subword = every[:, -3] > 0
    return replace(confidence, is_word=Regression.logistic(every[some_subword], is_word[some_subword]))


def hold_out(system: System, rows: Rows, choice: Choice, tuned: dict[str, Any], run: Run) -> dict[str, Any]:
    """Compose words of a text as unseen ones, return the fields of a HeldOut.

    They are two tenths of the words, at most 5,000 each, and each is held out alone: the others are needed.
    """
    confidence, size = Confidence.of_tensors(tuned), min(max(rows.size // 10, LEAST_OF_TEXT), MOST_HELD_OUT)
    assert confidence is not None
    order, held = np.random.default_rng(run.seed).permutation(rows), []
    for at in range(2):
        split = split_words(system, run, np.sort(order[at * size : (at + 1) * size]))
        trust = reliabilities(system.counts, choice.share, split.kept)
        found = unseen(split, choice.lam, trust, run, f"held_out.{at}")
        held.append((split.hidden, found.composed, confidence.predict(found.features)))
    hidden, composed, expected = (np.concatenate(part) for part in zip(*held, strict=True))
    ascending = np.argsort(hidden)
    return HeldOut(hidden[ascending], composed[ascending], expected[ascending], found.directions)._asdict()


def unseen(split: Split, lam: float, reliability: Reliability, run: Run, name: str) -> Unseen:
    """Compose held-out words with a model of the other words; what is kept of the work starts with a name."""
    system, work = split.system, run.work.inner(name)
    dims = CALIBRATION_DIMS if len(split.kept) <= MANY else FEWER_DIMS
    directions = projection(system.targets.shape[1], dims, run.seed)
    given = projected(split.given, directions)
    system = replace(system, targets=run.work.keep(f"{name}.targets", projected(system.targets, directions)))
    ridge = Ridge(system.weights, system.penalty, reliability, split.kept, run.work)
    found = ridge.solve(system.targets, lam, run, work=work).vectors
    vectors = found if isinstance(found, np.ndarray) else found.joined(work)
    evidence = subword_evidence(system, split.kept, vectors, lam, reliability, run)
    stored = SubwordVectors.of(vectors)
    subwords = Subwords(split.index, run.preset, stored.lengths, split.kept_words)
    words = subwords.read([system.words[row] for row in split.hidden.tolist()])
    composed, features = split.hidden_weights.composed(vectors), subwords.features(words, stored, evidence)
    return Unseen(evidence, words, features, composed, given, directions, subwords, stored)


def subword_evidence(
    system: System, rows: npt.NDArray[np.int64], vectors: FloatMatrix, lam: float, reliability: Reliability, run: Run
) -> Confidence:
    """Return the evidence of a solution of `Ridge` for some words, without the regression.

    Five of the numbers are solved for like vectors, from five facts about each training word: how close its shared
    subwords come to its vector, how close they would come without it, how rare it is, how close its vector is to the
    mean, and how long the sum of its shared subwords is. The other three are about a subword itself: how many training
    words contain it, whether they are few, and the length of its vector.
    """
    weights, targets = system.weights, system.targets
    n_words = columns.count_rows(weights.indptr, weights.indices, weights.data, rows, weights.n_columns)
    mean, scale = mean_and_scale(targets, rows, reliability)
    left = (1 - leverages(weights, rows, lam * system.penalty, reliability, n_words)).astype(np.float32)
    found = np.empty((rows.size, 5), np.float32)

    def write_facts(block: slice) -> None:
        some, facts, given = weights.take(rows[block]), found[block], rows_of(targets, rows[block])
        of_two_or_more = np.where(n_words[some.indices] > 1, some.data, np.float32(0))
        shared = replace(some, data=of_two_or_more).composed(vectors)
        facts[:, 0] = row_cosines(shared, given)
        facts[:, 1] = row_cosines(given - (given - shared) / left[block, None], given)
        facts[:, 3] = row_cosines(given, np.broadcast_to(mean, given.shape))
        facts[:, 4] = np.log(np.linalg.norm(shared, axis=1) / scale + 1e-3)

    in_threads(write_facts, blocks(rows.size), run.threads)
    counts = system.counts[rows]
    found[:, 2] = np.log(np.maximum(counts, counts.min(initial=1.0, where=counts > 0)))
    found -= found.mean(axis=0)
    found /= np.maximum(found.std(axis=0), 1e-6)
    facts = np.zeros((len(weights), 5), np.float32)
    facts[rows] = found
    facts = run.work.keep("facts", facts)
    ridge = Ridge(weights, system.penalty, rows=rows, work=run.work)
    largest = float(np.finfo(np.float16).max)
    evidence = np.empty((len(n_words), 8), np.float16)
    evidence[:, :5] = ridge.solve(facts, EVIDENCE_LAM, run, tolerance=TOLERANCE).vectors.clip(-largest, largest)
    evidence[:, 5] = np.log(np.maximum(n_words, 1))
    evidence[:, 6] = n_words <= FEW
    empty = np.zeros(0, np.float32)
    unscaled = Confidence(evidence, mean, np.array([scale], np.float32), empty, empty, empty, empty)
    return with_lengths(unscaled, row_lengths(vectors))


def with_lengths(confidence: Confidence, lengths: npt.NDArray[np.float32]) -> Confidence:
    """Return a confidence with the lengths of the subword vectors as its last evidence."""
    evidence = np.array(confidence.evidence)
    evidence[:, -1] = (lengths / confidence.scale[0]).clip(max=float(np.finfo(np.float16).max))
    return replace(confidence, evidence=evidence)


def mean_and_scale(targets: Any, rows: npt.NDArray[np.int64], reliability: Reliability) -> tuple[FloatMatrix, float]:
    """Return the mean of some words' given vectors, which count by reliability, and their typical length."""
    total, squares = np.zeros(targets.shape[1]), 0.0
    trust = np.ones(targets.shape[0], np.float32) if reliability is None else reliability
    for block in blocks(rows.size):
        given = rows_of(targets, rows[block]).astype(np.float64)
        total += (given * trust[rows[block], None]).sum(axis=0)
        squares += float(np.einsum("ij,ij->", given, given))
    return (total / trust[rows].sum(dtype=np.float64)).astype(np.float32), float(np.sqrt(squares / rows.size)) or 1.0


def leverages(
    weights: Weights,
    rows: npt.NDArray[np.int64],
    penalties: Vector,
    reliability: Reliability,
    n_words: npt.NDArray[Any],
) -> Vector:
    """Return how much of each word's own error its shared subwords take up: 0 for nothing, .9 at most.

    Takes the matrix of the regression to be diagonal. `penalties` are lam times those of the columns, and `n_words`
    says how many words have each column.
    """
    matrix = weights.indptr, weights.indices, weights.data, rows, NONE if reliability is None else reliability[rows]
    sums = penalties.copy()
    columns.add_squares(*matrix, sums)
    found: Vector = columns.sum_shares(*matrix, np.where(n_words > 1, 1 / sums, 0.0))
    return found.clip(0, 0.9)


def row_cosines(left: FloatMatrix, right: FloatMatrix) -> Vector:
    """Return the cosine of each row of one matrix with the same row of another, in float64; 0 for rows of zeros."""
    products = np.einsum("ij,ij->i", left, right, dtype=np.float64)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: Vector = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return cosines
