"""How far to trust subword vectors: what training words tell about each of them, fitted to held-out words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.jobs.threads import blocks, in_threads
from pbos.kernels import columns
from pbos.training.run import Run
from pbos.training.solve import Ridge
from pbos.training.system import Split, System
from pbos.words.arrays import FloatMatrix, projected, projection, row_lengths, rows_of
from pbos.words.confidence import Confidence
from pbos.words.subwords import Subwords
from pbos.words.vectors import SubwordVectors
from pbos.words.weights import Weights

EVIDENCE_LAM = 0.1  # the ridge penalty of evidence, which has to be smoother than vectors
TOLERANCE = 0.01  # of the solver, for evidence
FEW = 3  # a subword in so few words may be a word of its own
CALIBRATION_DIMS = 100  # enough for the cosines that the confidence is fitted to
MANY = 1_000_000  # words; with more, fewer dimensions do
FEWER_DIMS = 32
Reliability = npt.NDArray[np.float32] | None
Vector = npt.NDArray[np.float64]


def calibrate(split: Split, lam: float, reliability: Reliability, run: Run) -> Confidence:
    """Fit a confidence to the cosines of held-out words, as a model of the other words composes them."""
    system, work = split.system, run.work.inner("calibration")
    dims = CALIBRATION_DIMS if len(split.kept) <= MANY else FEWER_DIMS
    directions = projection(system.targets.shape[1], dims, run.seed)
    given = projected(split.given, directions)
    system = replace(system, targets=run.work.keep("calibration.targets", projected(system.targets, directions)))
    ridge = Ridge(system.weights, system.penalty, reliability, split.kept, run.work)
    found = ridge.solve(system.targets, lam, run, work=work).vectors
    vectors = found if isinstance(found, np.ndarray) else found.joined(work)
    evidence = subword_evidence(system, split.kept, vectors, lam, reliability, run)
    stored = SubwordVectors.of(vectors)
    subwords = Subwords(split.index, run.preset, stored.lengths, split.kept_words)
    words = subwords.read([system.words[row] for row in split.hidden.tolist()])
    return evidence.fitted(
        subwords.features(words, stored, evidence), row_cosines(split.hidden_weights.composed(vectors), given)
    )


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
    n_words: npt.NDArray[np.int32],
) -> Vector:
    """Return how much of each word's own error its shared subwords take up: 0 for nothing, .9 at most.

    Takes the matrix of the regression to be diagonal. `penalties` are lam times those of the columns, and `n_words`
    says how many words have each column.
    """
    trust = np.ones(len(weights)) if reliability is None else reliability.astype(np.float64)
    sums, found = penalties.copy(), np.empty(rows.size)

    def squares(block: slice) -> tuple[npt.NDArray[Any], ...]:
        some = weights.take(rows[block])
        at = np.repeat(np.arange(len(some)), np.diff(some.indptr))
        return at, some.indices, trust[rows[block]][at] * some.data.astype(np.float64) ** 2

    for block in blocks(rows.size):
        _, places, values = squares(block)
        np.add.at(sums, places, values)
    shares = np.where(n_words > 1, 1 / sums, 0.0)
    for block in blocks(rows.size):
        at, places, values = squares(block)
        found[block] = np.bincount(at, values * shares[places], block.stop - block.start)
    return found.clip(0, 0.9)


def row_cosines(left: FloatMatrix, right: FloatMatrix) -> Vector:
    """Return the cosine of each row of one matrix with the same row of another, in float64; 0 for rows of zeros."""
    products = np.einsum("ij,ij->i", left, right, dtype=np.float64)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    cosines: Vector = np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return cosines
