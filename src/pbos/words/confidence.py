"""Confidence: how close the vector of an unseen word is expected to be to the one it would have had."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.kernels.vectors import predict, products

RIDGE = 10.0  # the penalty of the regression on held-out words
PARTS = 5  # of the held-out words; each is predicted from the others, to find the curve
LEAST_FOR_CURVE = 1000  # held-out words
CURVE = 101  # points of the curve
STEPS = 10  # of Newton's method, at most
MOST_ODDS = 10.0  # the largest logarithm of odds
MORE = ("by_rank", "nearness")  # arrays that some models do not have
IS_WORD = "confidence.is_word."  # what the names of its arrays start with, in model files
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Regression:
    """What some features of n words say about a number between 0 and 1: a ridge regression, then a curve."""

    center: npt.NDArray[np.float32]  # (n,), the mean of each feature
    spread: npt.NDArray[np.float32]  # (n,), its standard deviation
    coefficients: npt.NDArray[np.float32]  # (1 + n + n (n + 1) / 2,), of 1, the features and their products
    curve: npt.NDArray[np.float32]  # (101,), what the regression's 0, 0.01, ... 1 become; with straight lines between

    @classmethod
    def fit(cls, features: npt.NDArray[np.float32], values: npt.NDArray[Any]) -> Regression:
        """Fit a regression, without a curve."""
        center, spread = features.mean(axis=0), np.maximum(features.std(axis=0), np.float32(1e-6))
        inputs = products(features, center, spread).astype(np.float64)
        return cls(
            center,
            spread,
            ridge(inputs, values.astype(np.float64)).astype(np.float32),
            np.linspace(0, 1, CURVE, dtype=np.float32),
        )

    @classmethod
    def logistic(cls, features: npt.NDArray[np.float32], answers: npt.NDArray[np.bool_]) -> Regression:
        """Fit the probability of a yes: a logistic regression, by Newton's method, whose curve is the logistic one."""
        center, spread = features.mean(axis=0), np.maximum(features.std(axis=0), np.float32(1e-6))
        inputs = products(features, center, spread).astype(np.float64)
        found, penalty = np.zeros(inputs.shape[1]), np.ones(inputs.shape[1])
        for _ in range(STEPS):
            chances = logistic(inputs @ found)
            slope = inputs.T @ (chances - answers) + penalty * found
            bend = (inputs * (chances * (1 - chances))[:, None]).T @ inputs + np.diag(penalty)
            step = np.linalg.solve(bend, slope)
            found -= step
            if np.abs(step).max() < 1e-3:
                break
        found /= 2 * MOST_ODDS  # so that 0 to 1 are all odds
        found[0] += 0.5
        curve = logistic(np.linspace(-MOST_ODDS, MOST_ODDS, CURVE))
        return cls(center, spread, found.astype(np.float32), curve.astype(np.float32))

    @classmethod
    def of_tensors(cls, tensors: dict[str, npt.NDArray[Any]], prefix: str) -> Regression:
        """Undo `tensors`."""
        return cls(*(tensors[prefix + one.name] for one in fields(cls)))

    def tensors(self, prefix: str) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by the names that model files use."""
        return {prefix + one.name: getattr(self, one.name) for one in fields(self)}

    def score(self, features: npt.NDArray[np.float32]) -> Vector:
        """Return what the regression says, before the curve."""
        return np.asarray(products(features, self.center, self.spread) @ self.coefficients, np.float64)

    def bend(self, values: npt.NDArray[Any]) -> Vector:
        """Return what the curve makes of values."""
        return np.asarray(np.interp(values, np.linspace(0, 1, CURVE), self.curve), np.float64)

    def predict(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return what is expected, from 0 to 1."""
        return np.asarray(predict(features, self.center, self.spread, self.coefficients, self.curve))


@dataclass(frozen=True)
class Confidence:
    """A regression from what is known about a word to the cosine of its composed vector and the true one.

    What is known: eight numbers of evidence, the weighted sums of those of its subwords; the length of the composed
    vector and its distance from the mean; the number of subwords; the length of the word. Anything that can be typed is
    not a word, so the expected cosine is multiplied by the probability that it is one: a logistic regression on the
    same facts and on how probable the spelling is, per letter.
    """

    evidence: npt.NDArray[np.float16]  # (n_vectors, 8), for each subword vector; see `pbos.training.fit`
    mean: npt.NDArray[np.float32]  # (dims,), the mean of the given vectors
    scale: npt.NDArray[np.float32]  # (1,), their typical length
    center: npt.NDArray[np.float32]  # the last four are those of its regression
    spread: npt.NDArray[np.float32]
    coefficients: npt.NDArray[np.float32]
    curve: npt.NDArray[np.float32]
    is_word: Regression | None = None  # models of version 0.1 have none
    by_rank: npt.NDArray[np.float32] | None = None  # (2,), see `at_ranks`
    nearness: npt.NDArray[np.uint8] | None = None  # (n_words,), see `near`; None if no training word lost its vector

    def __post_init__(self) -> None:
        for array in self.tensors().values():  # read-only, as mapped ones are, for the same kernel signature
            array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Confidence, tuple(getattr(self, one.name) for one in fields(self))

    @classmethod
    def of_tensors(cls, tensors: dict[str, npt.NDArray[Any]]) -> Confidence | None:
        """Undo `tensors`; return None if the tensors of a model have no confidence."""
        if "confidence.evidence" not in tensors:
            return None
        arrays = {one.name: tensors[f"confidence.{one.name}"] for one in fields(cls)[:-3]}
        is_word = Regression.of_tensors(tensors, IS_WORD) if f"{IS_WORD}center" in tensors else None
        return cls(
            **arrays,
            is_word=is_word,
            by_rank=tensors.get(f"confidence.{MORE[0]}"),
            nearness=tensors.get(f"confidence.{MORE[1]}"),
        )

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by the names that model files use."""
        arrays = {f"confidence.{one.name}": getattr(self, one.name) for one in fields(self)[:-3]}
        for name in MORE:
            arrays |= {} if getattr(self, name) is None else {f"confidence.{name}": getattr(self, name)}
        return arrays if self.is_word is None else arrays | self.is_word.tensors(IS_WORD)

    def with_ranks(self, expected: npt.NDArray[np.float32], cosines: Vector, ranks: npt.NDArray[Any]) -> Confidence:
        """Return the confidence with the line by which held-out words miss their expectation, over root ranks."""
        slope, start = np.polyfit(np.sqrt(ranks), cosines - expected, 1)
        return replace(self, by_rank=np.array([start, slope], np.float32))

    def at_ranks(self, expected: npt.NDArray[np.float32], ranks: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return expected cosines, given that words have these ranks in the table; 0 stays 0."""
        if self.by_rank is None:
            raise InputError("this model was trained by an earlier version and does not know ranks; train it again")
        start, slope = self.by_rank
        moved = (expected + start + slope * np.sqrt(ranks)).clip(0, 1)
        return np.where(expected > 0, moved, 0).astype(np.float32)

    def near(self, row: int) -> float:
        """Return the confidence of a training word: 1, or the cosine of what is left of its vector with the given one.

        Small models have lost the vectors of most words; they keep this cosine, in steps of 1/255.
        """
        return 1.0 if self.nearness is None else float(self.nearness[row]) / 255

    def predict(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the expected cosine of each word, from 0 to 1."""
        expected = Regression(self.center, self.spread, self.coefficients, self.curve).predict(features)
        return expected if self.is_word is None else expected * self.is_word.predict(features)

    def fitted(self, features: npt.NDArray[np.float32], cosines: Vector) -> Confidence:
        """Return the confidence fitted to the features and the true cosines of held-out words.

        How probable a spelling is, the last feature, is left out: it is too high for held-out words, whose spelling
        the model has counted.
        """
        features = np.ascontiguousarray(features[:, :-1])
        found = Regression.fit(features, cosines)
        if len(features) >= LEAST_FOR_CURVE:
            inputs = products(features, found.center, found.spread).astype(np.float64)
            predicted, part = np.empty(len(features)), np.arange(len(features)) % PARTS
            for at in range(PARTS):
                predicted[part == at] = inputs[part == at] @ ridge(inputs[part != at], cosines[part != at])
            found = replace(found, curve=fitted_curve(predicted.clip(0, 1), cosines))
        return replace(self, **{one.name: getattr(found, one.name) for one in fields(found)})


def fitted_curve(predicted: Vector, cosines: Vector) -> npt.NDArray[np.float32]:
    """Return the cubic from predicted to true cosines, as a curve that never falls.

    A regression predicts too little for the worst words and too much for the best ones. Beyond nearly all predicted
    values, the curve goes on with slope 1.
    """
    places = np.linspace(0, 1, CURVE)
    inner = places.clip(*np.quantile(predicted, [0.002, 0.998]))
    cubic = np.polynomial.Polynomial.fit(predicted, cosines, 3)
    curve = np.maximum.accumulate(cubic(inner) + places - inner)
    return np.asarray(curve.clip(0, 1), np.float32)


def logistic(odds: Vector) -> Vector:
    """Return the probabilities that go with logarithms of odds."""
    return np.asarray(1 / (1 + np.exp(-odds.clip(-MOST_ODDS, MOST_ODDS))), np.float64)


def ridge(inputs: Vector, cosines: Vector) -> Vector:
    """Return the coefficients of a ridge regression; the first one, of the constant, costs nothing."""
    penalty = np.full(inputs.shape[1], RIDGE)
    penalty[0] = 0
    return np.asarray(np.linalg.solve(inputs.T @ inputs + np.diag(penalty), inputs.T @ cosines), np.float64)
