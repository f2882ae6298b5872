"""Confidence: how close the vector of an unseen word is expected to be to the one it would have had."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.arrays import FloatMatrix
from pbos.kernels.compose import compose
from pbos.solvers import Ridge
from pbos.tuning import row_cosines
from pbos.weights import Weights

EVIDENCE_LAM = 0.1  # the ridge penalty of evidence, which has to be smoother than vectors
RIDGE = 3.0  # the penalty of the regression on held-out words
MOST_SPREADS = 4.0  # how far from the mean a feature may be; farther ones count as this far
FEW = 3  # a subword in so few words may be a word of its own
BLOCK = 1 << 15  # words composed at a time
LEAST_HELD_OUT = 100
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Confidence:
    """A regression from what is known about a word to the cosine of its composed vector and the true one.

    What is known: eight numbers of evidence, the weighted sums of those of its subwords; the length of the composed
    vector and its distance from the mean; the number of subwords; the length of the word.

    Attributes:
        evidence: (n_vectors, 8) float16, for each subword vector; see `evidence_of`.
        mean: (dims,) The mean of the given vectors.
        scale: (1,) Their typical length.
        center: (12,) The mean of each feature.
        spread: (12,) Its standard deviation.
        coefficients: (1 + 12 + 78,) Of 1, the features and their products.
    """

    evidence: npt.NDArray[np.float16]
    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]
    center: npt.NDArray[np.float32]
    spread: npt.NDArray[np.float32]
    coefficients: npt.NDArray[np.float32]

    @classmethod
    def of_tensors(cls, tensors: dict[str, npt.NDArray[Any]]) -> Confidence | None:
        """Return what `tensors` returned, if it is there."""
        if "confidence.evidence" not in tensors:
            return None
        return cls(**{one.name: tensors[f"confidence.{one.name}"] for one in fields(cls)})

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by the names that model files use."""
        return {f"confidence.{one.name}": getattr(self, one.name) for one in fields(self)}

    @property
    def n_features(self) -> int:
        """The number of features of a word."""
        return int(self.evidence.shape[1]) + 4

    def rows(self, keep: npt.NDArray[np.integer[Any]]) -> Confidence:
        """Return the confidence of a model with some of the subword vectors."""
        return replace(self, evidence=self.evidence[keep])

    def projected(self, components: FloatMatrix) -> Confidence:
        """Return the confidence of a model whose vectors are projected on the columns of a matrix."""
        return replace(self, mean=self.mean @ components)

    def features(
        self, composed: FloatMatrix, evidence: FloatMatrix, n_subwords: npt.ArrayLike, lengths: npt.ArrayLike
    ) -> npt.NDArray[np.float32]:
        """Return the features of words, (n_words, 12).

        Args:
            composed: Their vectors.
            evidence: The weighted sums of their subwords' evidence.
            n_subwords: How many subwords with a vector each has.
            lengths: How many characters each has, with its marks.
        """
        far = np.linalg.norm(composed, axis=1), np.linalg.norm(composed - self.mean, axis=1)
        logs = [np.log(distance / self.scale + 1e-3) for distance in far]
        counts = [np.log1p(np.asarray(n_subwords)), np.log(np.asarray(lengths))]
        return np.column_stack([evidence, *logs, *counts]).astype(np.float32)

    def predict(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the expected cosine of each word, from 0 to 1."""
        cosines = products((features - self.center) / self.spread) @ self.coefficients
        result: npt.NDArray[np.float32] = cosines.clip(0, 1)
        return result

    def fitted(self, features: npt.NDArray[np.float32], cosines: Vector) -> Confidence:
        """Return the confidence fitted to the features and the true cosines of held-out words."""
        center, spread = features.mean(axis=0), np.maximum(features.std(axis=0), np.float32(1e-6))
        inputs = products((features - center) / spread).astype(np.float64)
        penalty = np.full(inputs.shape[1], RIDGE)
        penalty[0] = 0
        found = np.linalg.solve(inputs.T @ inputs + np.diag(penalty), inputs.T @ cosines)
        return replace(self, center=center, spread=spread, coefficients=found.astype(np.float32))


def products(features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return 1, the features and the products of any two: (n_words, 1 + n + n (n + 1) / 2)."""
    features = features.clip(-MOST_SPREADS, MOST_SPREADS)
    first, second = np.triu_indices(features.shape[1])
    return np.column_stack([np.ones(len(features), np.float32), features, features[:, first] * features[:, second]])


def unfitted(
    weights: Weights,
    vectors: FloatMatrix,
    targets: FloatMatrix,
    counts: Vector,
    *,
    lam: float,
    penalty: Vector,
    reliability: npt.NDArray[np.float32] | None,
    threads: int | None = None,
    device: Any = None,
) -> Confidence:
    """Return the evidence of a solution of `Ridge`, without the regression.

    Five of the numbers are solved for like vectors, from five facts about each training word: how close its shared
    subwords come to its vector, how close they would come without it, how rare it is, how close its vector is to the
    mean, and how long the sum of its shared subwords is. The other three are about a subword itself: how many training
    words contain it, whether they are few, and the length of its vector.

    Args:
        weights: As for `Ridge`, as are `penalty` and `reliability`.
        vectors: The solution.
        targets: As for `Ridge.solve`, as are `lam`, `threads` and `device`.
        counts: How often each word occurs.
        lam: The ridge penalty.
        penalty: The penalty of each vector.
        reliability: How much each word counts.
        threads: The number of threads.
        device: The PyTorch device.
    """
    n_words = np.bincount(weights.indices, minlength=weights.n_columns)
    mean = np.average(targets, axis=0, weights=reliability).astype(np.float32)
    scale = float(np.sqrt(np.mean(np.einsum("ij,ij->i", targets, targets, dtype=np.float64)))) or 1.0
    left = (1 - leverages(weights, lam, penalty, reliability)).astype(np.float32)
    facts = np.empty((len(weights), 5), np.float32)
    for first in range(0, len(weights), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(weights)))
        given, shared = targets[rows], shared_words(weights.take(rows), n_words, vectors)
        without = given - (given - shared) / left[rows, None]
        facts[rows, 0] = row_cosines(shared, given)
        facts[rows, 1] = row_cosines(without, given)
        facts[rows, 3] = row_cosines(given, np.broadcast_to(mean, given.shape))
        facts[rows, 4] = np.log(np.linalg.norm(shared, axis=1) / scale + 1e-3)
    facts[:, 2] = np.log(np.maximum(counts, counts.min(initial=1.0, where=counts > 0)))
    facts -= facts.mean(axis=0)
    facts /= np.maximum(facts.std(axis=0), 1e-6)
    solved = Ridge(weights, penalty).solve(facts, EVIDENCE_LAM, tolerance=0.1, threads=threads, device=device).vectors
    lengths = np.linalg.norm(vectors, axis=1) / scale
    evidence = np.column_stack([solved, np.log(np.maximum(n_words, 1)), n_words <= FEW, lengths])
    empty = np.zeros(0, np.float32)
    largest = float(np.finfo(np.float16).max)
    bits = evidence.clip(-largest, largest).astype(np.float16)
    return Confidence(bits, mean, np.array([scale], np.float32), empty, empty, empty)


def leverages(
    weights: Weights, lam: float, penalty: Vector, reliability: npt.NDArray[np.float32] | None
) -> npt.NDArray[np.float64]:
    """Return how much of each word's own error its shared subwords take up: 0 for nothing, .9 at most.

    Takes the matrix of the regression to be diagonal.
    """
    words = np.repeat(np.arange(len(weights)), np.diff(weights.indptr))
    squares = weights.data.astype(np.float64) ** 2
    if reliability is not None:
        squares *= reliability[words]
    sums = np.bincount(weights.indices, squares, minlength=weights.n_columns)
    shared = np.bincount(weights.indices, minlength=weights.n_columns) > 1
    shares = squares * shared[weights.indices] / (lam * penalty + sums)[weights.indices]
    found: npt.NDArray[np.float64] = np.bincount(words, shares, minlength=len(weights)).clip(0, 0.9)
    return found


def shared_words(weights: Weights, n_words: npt.NDArray[np.int64], vectors: FloatMatrix) -> FloatMatrix:
    """Return the words' vectors without what they have for themselves: the sums over columns of two or more words."""
    out = np.empty((len(weights), vectors.shape[1]), np.float32)
    data = np.where(n_words[weights.indices] > 1, weights.data, np.float32(0))
    compose(weights.indptr, weights.indices, data, vectors, out)
    return out
