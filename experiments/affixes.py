"""Tasks on the parts of words: guessing the affix of a derived word, and finding the boundaries of morphemes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics import precision_recall_fscore_support

from experiments.datasets import AffixRow
from pbos.errors import InputError
from pbos.evaluation.results import Result, bootstrap
from pbos.segmenter import Segmenter
from pbos.words.text import BOUNDARIES

Ints = npt.NDArray[np.int64]

# Affixes --------------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """A derived word, the number of its affix, and the numbers of all affixes that its spelling contains."""

    word: str
    right: int
    candidates: list[int]


def affix_questions(rows: Iterable[AffixRow], name: str = "affix") -> tuple[list[Question], list[str]]:
    """Return the paper's questions and affixes: without -y, and without words that contain fewer than two affixes.

    An affix keeps its hyphen, which shows where it stands: "-ion", "un-".

    >>> rows = [AffixRow("-ion", "abrade", "abrasion"), AffixRow("-er", "bake", "baker"), AffixRow("-a", "x", "xa")]
    >>> affix_questions(rows)[0]
    [Question(word='abrasion', right=2, candidates=[0, 2]), Question(word='baker', right=1, candidates=[0, 1])]
    """
    pairs = [(row.affix, row.word) for row in rows if row.affix.strip("-") != "y"]
    affixes = sorted({affix for affix, _ in pairs}, key=lambda affix: (affix.strip("-"), affix))
    questions = [
        Question(word, affixes.index(affix), [at for at, one in enumerate(affixes) if one.strip("-") in word])
        for affix, word in pairs
    ]
    questions = [question for question in questions if len(question.candidates) >= 2]
    if not questions:
        raise InputError(f"{name}: no word contains two of the affixes, so there is nothing to guess")
    return questions, affixes


def affix(
    segmenter: Segmenter, rows: Iterable[AffixRow], name: str = "affix", *, repeats: int = 1000, seed: int = 0
) -> Result:
    """Guess each word's affix, the candidate with the largest weight: macro precision, recall and F1.

    Args:
        segmenter: A model, or a segmenter made from counts.
        rows: As returned by `datasets.read_affixes`.
        name: The data set's name.
        repeats: How many samples of words to draw for the intervals.
        seed: Determines the draws.
    """
    questions, affixes = affix_questions(rows, name)
    right = np.array([question.right for question in questions])
    guesses = np.array([guess(segmenter, question, affixes) for question in questions])
    scores = bootstrap(lambda drawn: macro(right[drawn], guesses[drawn]), len(right), repeats=repeats, seed=seed)
    details = {"words": len(questions), "affixes": len(affixes), "protocol": "the candidate with the largest weight"}
    return Result("affix", name, scores, details)


def guess(segmenter: Segmenter, question: Question, affixes: list[str]) -> int:
    """Return the candidate with the largest weight, the first of equals.

    With boundary marks, the weight that counts is that of the affix with its mark ("<un", "ness>"), because the same
    letters inside the word are not the affix.
    """
    weights = dict(segmenter.weights(question.word))
    left, right = BOUNDARIES if segmenter.spelling.boundaries else ("", "")

    def weight(at: int) -> float:
        affix = affixes[at]
        letters = affix.strip("-")
        return weights.get(f"{letters}{right}" if affix.startswith("-") else f"{left}{letters}", 0.0)

    return max(question.candidates, key=weight)


def macro(right: Ints, guesses: Ints) -> dict[str, float]:
    """Return precision, recall and F1, averaged over the affixes that are right or guessed at least once."""
    found = precision_recall_fscore_support(right, guesses, average="macro", zero_division=0)
    return dict(zip(("precision", "recall", "f1"), map(float, found[:3]), strict=True))


# Morphemes ------------------------------------------------------------------------------------------------------------


def morphemes(
    segmenter: Segmenter,
    gold: Mapping[str, Sequence[Sequence[str]]],
    name: str = "morphemes",
    *,
    repeats: int = 1000,
    seed: int = 0,
) -> Result:
    """Compare the best segmentation of words with their morphemes: precision, recall and F1 of the boundaries.

    Precision and recall are means over words, as in Morfessor: of a word's analyses the nearest counts, and a word
    without any boundary to find counts 1.

    Args:
        segmenter: A model, or a segmenter made from counts.
        gold: The analyses of each word, as returned by `datasets.read_morphemes`.
        name: The data set's name.
        repeats: How many samples of words to draw for the intervals.
        seed: Determines the draws.
    """
    if not gold:
        raise InputError(f"{name}: there are no words to segment")
    parts = []
    for (best,), analyses in zip(segmenter.segment(list(gold)), gold.values(), strict=True):
        ours, right = boundaries(best.pieces), [boundaries(analysis) for analysis in analyses]
        parts.append((max(share(ours, one) for one in right), max(share(one, ours) for one in right)))
    values = np.array(parts)

    def measure(drawn: Ints) -> dict[str, float]:
        precision, recall = values[drawn].mean(axis=0).tolist()
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        return {"f1": f1, "precision": precision, "recall": recall}

    scores = bootstrap(measure, len(values), repeats=repeats, seed=seed)
    return Result("morphemes", name, scores, {"words": len(values), "protocol": "inner boundaries, macro over words"})


def boundaries(pieces: Sequence[str]) -> set[int]:
    """Return where a word is cut.

    >>> sorted(boundaries(["un", "friend", "ly"]))
    [2, 8]
    """
    return set(itertools.accumulate(len(piece) for piece in pieces[:-1]))


def share(some: set[int], others: set[int]) -> float:
    """Return the share of some boundaries that are among others; 1 if there are none."""
    return len(some & others) / len(some) if some else 1.0
