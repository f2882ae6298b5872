"""Tasks that only our tables need: Table 1, affixes guessed at random, hidden words by rank, gaps between models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from experiments.affixes import affix_questions, macro
from experiments.datasets import AffixRow
from pbos.errors import InputError
from pbos.evaluation.results import Embedder, Result, Score, bootstrap
from pbos.evaluation.words import hidden_rows, spearman
from pbos.model import Model
from pbos.segmenter import Segmenter
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import NEAR_ZERO, cosines

GROUPS = {"frequent": (0, 0.15), "middle": (0.15, 0.5), "rare": (0.5, 1)}  # by rank, as shares of all words
TENTHS = 10

# Table 1 of the paper.
PAPER_SEGMENTATIONS = {
    "higher": {"higher": 0.924, "high/er": 0.030, "highe/r": 0.027, "h/igher": 0.007, "hig/her": 0.004},
    "farmland": {"farmland": 0.971, "farmlan/d": 0.010, "farm/land": 0.006, "f/armland": 0.005},
    "penpineapplepie": {"pen/pineapple/pie": 0.359, "pen/pineapple/pi/e": 0.157, "pen/pineapple/p/ie": 0.101},
    "paradichlorobenzene": {
        "para/dichlorobenzene": 0.611,
        "par/a/dichlorobenzene": 0.110,
        "paradi/chlorobenzene": 0.083,
    },
}
PAPER_WEIGHTS = {
    "higher": {"higher": 0.852, "high": 0.031, "er": 0.029, "r": 0.029, "highe": 0.025},
    "farmland": {"farmland": 0.941, "d": 0.010, "farmlan": 0.009, "farm": 0.008, "land": 0.007},
    "penpineapplepie": {"pineapple": 0.238, "pen": 0.186, "pie": 0.131, "p": 0.101, "e": 0.099},
    "paradichlorobenzene": {
        "dichlorobenzene": 0.344,
        "para": 0.283,
        "a": 0.061,
        "par": 0.054,
        "ichlorobenzene": 0.042,
    },
}


def segmentation(segmenter: Segmenter, n: int = 5) -> Result:
    """Return Table 1 of the paper: the best segmentations and largest weights of four words, with the paper's figures.

    The score is the largest difference from the paper's figures. It is meaningful for the paper's counts only.
    """
    details, differences = {}, []
    for word in PAPER_SEGMENTATIONS:
        found = {"/".join(one.pieces): float(one.probability) for one in segmenter.segment(word, 50)}
        weights = {subword: float(weight) for subword, weight in segmenter.weights(word)}
        details[word] = {"segmentations": list(found.items())[:n], "weights": list(weights.items())[:n]}
        differences += [abs(found.get(text, 0.0) - value) for text, value in PAPER_SEGMENTATIONS[word].items()]
        differences += [abs(weights.get(text, 0.0) - value) for text, value in PAPER_WEIGHTS[word].items()]
    scores = {"largest difference from the paper": Score(max(differences))}
    paper = {"segmentations": PAPER_SEGMENTATIONS, "weights": PAPER_WEIGHTS}
    return Result("segmentation", "Table 1", scores, {"words": details, "paper": paper})


def affix_random(rows: Iterable[AffixRow], seed: int = 0, *, repeats: int = 1000) -> Result:
    """Guess each word's affix at random among its candidates: the baseline of affix prediction.

    Scores are averages over 100 draws; each bootstrap sample has a draw of its own.
    """
    questions, affixes = affix_questions(rows)
    right = np.array([question.right for question in questions])
    random = np.random.default_rng(seed)

    def draw(words: npt.NDArray[np.int64]) -> dict[str, float]:
        candidates = [questions[word].candidates for word in words]
        places = random.random(len(words))
        guesses = [one[int(place * len(one))] for one, place in zip(candidates, places.tolist(), strict=True)]
        return macro(right[words], np.array(guesses))

    every = [draw(np.arange(len(right))) for _ in range(100)]
    intervals = bootstrap(draw, len(right), repeats=repeats, seed=seed)
    scores = {
        kind: Score(float(np.mean([one[kind] for one in every])), score.low, score.high)
        for kind, score in intervals.items()
    }
    details = {"words": len(questions), "affixes": len(affixes), "protocol": "a random candidate, mean of 100 draws"}
    return Result("affix", "affix", scores, details)


class Split(NamedTuple):
    """Word vectors with some words hidden.

    Attributes:
        kept: What a model is trained on.
        hidden: The hidden words with their true vectors.
        places: The hidden words' ranks, as shares of all words: 0 for the most frequent.
        ranks: The kept words' ranks, from 0.
    """

    kept: WordVectors
    hidden: WordVectors
    places: npt.NDArray[np.float64]
    ranks: npt.NDArray[np.int64]


def hide(vectors: WordVectors, number: int, *, dropped: Collection[str] = (), seed: int = 0) -> Split:
    """Hide a number of words, drawn evenly from all ranks; `dropped` are left out of both parts.

    >>> split = hide(WordVectors(["a", "b", "c", "d"], np.eye(4)), 1, dropped={"b"})
    >>> sorted(split.kept.words + split.hidden.words)
    ['a', 'c', 'd']
    """
    left = np.array([row for row, word in enumerate(vectors.words) if word not in dropped])
    hidden = left[hidden_rows(len(left), number, seed)]
    ranks = np.setdiff1d(left, hidden)
    kept, out = (WordVectors([vectors.words[row] for row in rows], vectors.vectors[rows]) for rows in (ranks, hidden))
    return Split(kept, out, hidden / len(vectors), ranks)


def hidden_words(model: Embedder, split: Split, dataset: str, *, repeats: int = 1000, seed: int = 0) -> Result:
    """Compare the vectors of hidden words with their true ones, for frequent and rare words apart.

    "around the mean" is the cosine after the mean of the kept vectors is subtracted from both sides: vectors that share
    a large mean look similar before. If the model tells how far to trust a vector (`confidence`), this is compared with
    the true cosine: Spearman's rho, and the mean of both for tenths of the words, from the least confidence up.
    """
    composed, true = model.embed(split.hidden.words), split.hidden.vectors
    mean = split.kept.vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    missing = np.linalg.norm(composed, axis=1) <= NEAR_ZERO
    values = {
        "cosine": cosines(composed, true).astype(np.float64),
        "around the mean": np.where(missing, 0.0, cosines(composed - mean, true - mean)),
    }
    scores: dict[str, Score] = {}
    groups = {"": (0.0, 1.0), **{f", {group}": ends for group, ends in GROUPS.items()}}
    for group, (first, end) in groups.items():
        inside = np.flatnonzero((split.places >= first) & (split.places < end))

        def means(drawn: npt.NDArray[np.int64], group: str = group, inside: Any = inside) -> dict[str, float]:
            return {kind + group: float(value[inside][drawn].mean()) for kind, value in values.items()}

        if inside.size:
            scores |= bootstrap(means, inside.size, repeats=repeats, seed=seed)
    details: dict[str, Any] = {"words": len(split.kept), "hidden": len(true), "missing": int(missing.sum())}
    expected = confidence_of(model, split.hidden.words)
    if expected is not None:
        tenths = by_tenths(expected, values["cosine"])
        errors = np.abs(np.subtract(*np.transpose(tenths)))
        scores |= bootstrap(
            lambda drawn: {"confidence": spearman(expected[drawn], values["cosine"][drawn]) / 100},
            len(true),
            repeats=repeats,
            seed=seed,
        )
        scores |= {
            "calibration error": Score(float(errors.mean())),
            "largest calibration error": Score(float(errors.max())),
        }
        details["tenths"] = tenths
    return Result("hidden words", dataset, scores, details)


def confidence_of(model: Any, words: list[str]) -> npt.NDArray[np.float64] | None:
    """Return the confidence of words, or None if the model has none."""
    try:
        return np.asarray(model.confidence(words), np.float64)
    except (AttributeError, InputError):
        return None


def by_tenths(expected: npt.NDArray[np.float64], true: npt.NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return the means of the expected and the true values for tenths of the items, from the least expected up.

    >>> by_tenths(np.arange(20) / 20, np.arange(20) / 10)[-1]
    (0.925, 1.85)
    """
    parts = np.array_split(np.argsort(expected, kind="stable"), TENTHS)
    return [(float(expected[part].mean()), float(true[part].mean())) for part in parts]


class Cosines(NamedTuple):
    """The cosines of pairs, and the scores that people gave them."""

    cosines: npt.NDArray[np.float64]
    human: npt.NDArray[np.float64]

    @classmethod
    def of(cls, result: Result) -> Cosines:
        """Take them from the result of `pbos.evaluation.words.similarity`."""
        return cls(np.array(result.details["cosines"]), np.array(result.details["human"]))

    def rho(self, drawn: Any = slice(None)) -> float:
        """Return Spearman's rho x 100, of some pairs."""
        return spearman(self.cosines[drawn], self.human[drawn])


def mean_gap(ours: Sequence[Cosines], theirs: Sequence[Cosines], *, repeats: int = 1000, seed: int = 0) -> Score:
    """Return how far our mean rho over some sets is above theirs; the interval is from drawing the pairs of each set.

    >>> right = Cosines(np.arange(30.0), np.arange(30.0))
    >>> round(mean_gap([right], [Cosines(-right.cosines, right.human)]).low)
    200
    """
    random = np.random.default_rng(seed)

    def gap(drawn: Sequence[Any]) -> float:
        return float(np.mean([one.rho(at) - other.rho(at) for one, other, at in zip(ours, theirs, drawn, strict=True)]))

    sizes = [len(one.human) for one in ours]
    low, high = np.percentile(
        [gap([random.integers(0, size, size) for size in sizes]) for _ in range(repeats)], [2.5, 97.5]
    )
    return Score(gap([slice(None)] * len(sizes)), float(low), float(high))


def size_of(model: Model) -> dict[str, int]:
    """Return the number of trained parameters, and the bytes of the subword vectors and the index together."""
    index = sum(array.nbytes for array in model.index.arrays)
    return {"parameters": int(model.subword_vectors.values.size), "bytes": int(model.subword_vectors.nbytes + index)}
