"""Hostile words: every plane, combining runs, right-to-left, emoji sequences, NUL, surrogates, very long words.

Every word must get the vector of an exact computation in float64 that leaves nothing out, the same alone as among
others, and a segmentation that joins to the word; a lone surrogate must get one short error.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import pbos
from pbos.errors import InputError
from pbos.model import Model
from pbos.words.text import mark

PROMISED = 1e-3  # the largest relative error of a vector
SHORT = 500  # characters of an error message
BATCH = 40  # words tried together


# -- the words ---------------------------------------------------------------------------------------------------------


def any_character(dice: random.Random) -> str:
    """Return a character of a random plane; never a surrogate."""
    while True:
        code = dice.randrange(17) << 16 | dice.randrange(1 << 16)
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


MAKERS: tuple[Callable[[random.Random, list[str]], str], ...] = (
    lambda dice, words: "".join(any_character(dice) for _ in range(dice.randint(1, 30))),
    lambda dice, words: (
        dice.choice(words) + "".join(chr(dice.randrange(0x300, 0x370)) for _ in range(dice.randint(1, 99)))
    ),
    lambda dice, words: "".join(chr(dice.randrange(0x5D0, 0x700)) for _ in range(dice.randint(1, 20))),
    lambda dice, words: "\u202e" + dice.choice(words) + "\u202c" + dice.choice(words),
    lambda dice, words: "\u200d".join(dice.choice("👩👨👧🏽🚀🏳🌈") for _ in range(dice.randint(1, 20))) + "\ufe0f",
    lambda dice, words: "".join(chr(0x1F1E6 + dice.randrange(26)) for _ in range(dice.randint(1, 9))),
    lambda dice, words: dice.choice(words) + "\0" * dice.randint(1, 9) + dice.choice(words),
    lambda dice, words: "".join(dice.choice("<>-/.'\"\\ \t\n") for _ in range(dice.randint(1, 60))),
    lambda dice, words: "-".join(dice.choice(words) for _ in range(dice.randint(2, 30))),
    lambda dice, words: "".join(dice.choice(words).capitalize() for _ in range(dice.randint(2, 60))),
    lambda dice, words: "".join(dice.choice(words) for _ in range(dice.randint(2, 200))),
    lambda dice, words: dice.choice(words) * dice.randint(2, 200),
    lambda dice, words: dice.choice("aeİßŉǰ\u0390ﬁ") * dice.randint(1, 999),
)


def hostile(dice: random.Random, words: list[str]) -> str:
    """Return a hostile word, made of known words or of anything else."""
    return dice.choice(MAKERS)(dice, words)


# -- the oracle --------------------------------------------------------------------------------------------------------


class Oracle:
    """The vectors of a model, computed in float64 and logarithms from the strings of its subwords."""

    def __init__(self, model: Model) -> None:
        self.model, self.spelling = model, model.spelling
        index = model.index.for_weights() if self.spelling.weighting == "both" else model.index
        facts = zip(index.probs[1:].tolist(), index.rows[1:].tolist(), strict=True)
        self.known = dict(zip(index.strings(), facts, strict=True))
        self.vectors = model.subword_vectors.to_float32().astype(np.float64)

    def spans(self, spelled: str) -> list[list[tuple[float, int]]]:
        """Return the logarithm of the probability and the row of every known subword at every position."""
        found = []
        for start in range(len(spelled)):
            here: list[tuple[float, int]] = []
            while start + len(here) < len(spelled):
                known = self.known.get(spelled[start : start + len(here) + 1], None if here else (0.0, -1))
                if known is None:
                    break
                prob = known[0] if here or known[0] > 0 else self.spelling.unseen_char_prob
                here.append((float(np.log(prob)) if prob > 0 else -np.inf, known[1]))
            found.append(here)
        return found

    def vector(self, word: str) -> npt.NDArray[np.float64]:
        """Return the vector of a word."""
        spelled = mark([self.model.read_as(word)], self.spelling)[0]
        spans, size = self.spans(spelled), len(spelled)
        forward, backward = np.full(size + 1, -np.inf), np.full(size + 1, -np.inf)
        forward[0] = backward[size] = 0.0
        for start in range(size):
            for at, (step, _) in enumerate(spans[start], start + 1):
                forward[at] = np.logaddexp(forward[at], forward[start] + step)
        for start in range(size - 1, -1, -1):
            for at, (step, _) in enumerate(spans[start], start + 1):
                backward[start] = np.logaddexp(backward[start], step + backward[at])
        total, sums = 0.0, np.zeros(self.vectors.shape[1])
        for start in range(size):
            for at, (step, row) in enumerate(spans[start], start + 1):
                if row >= 0:
                    weight = self.weight(forward[start] + step + backward[at] - forward[size])
                    weight *= self.spelling.start_weight if spelled[start] == "<" else 1.0
                    weight *= self.spelling.end_weight if spelled[at - 1] == ">" else 1.0
                    total += weight
                    sums += weight * self.vectors[row]
        return sums / total if total else sums

    def weight(self, log_posterior: float) -> float:
        """Return how much a span weighs."""
        return {"posterior": 0.0, "both": 1.0}[self.spelling.weighting] + float(np.exp(log_posterior))


@cache
def models() -> tuple[Oracle, ...]:
    """Return the English model, and the same one with weights that are posteriors alone."""
    english = pbos.load()
    posterior = Model(
        english.index,
        replace(english.spelling, weighting="posterior"),
        english.subword_vectors,
        english._packed_words,
    )
    return Oracle(english), Oracle(posterior)


# -- the attacks -------------------------------------------------------------------------------------------------------


def check_vectors(oracle: Oracle, words: list[str]) -> float:
    """Compare the vectors of words with the oracle's and with those of each word alone; return the largest error."""
    found, worst = oracle.model.embed(words), 0.0
    for word, vector in zip(words, found, strict=True):
        assert np.array_equal(vector, oracle.model.embed(word)), f"{word[:99]!a}: other vector among others"
        true = oracle.vector(word)
        error = float(np.linalg.norm(vector - true) / max(float(np.linalg.norm(true)), 1e-30))
        assert error <= PROMISED, f"{word[:99]!a} ({len(word)} characters): the vector is off by {error}"
        worst = max(worst, error)
    return worst


def check_spelling(model: Model, words: list[str], n: int) -> None:
    """Check that segmentations, confidences and explanations of words are those of each word alone, and sound."""
    confidences = model.confidence(words) if model.has_confidence else None
    for at, (word, found) in enumerate(zip(words, model.segment(words, n), strict=True)):
        assert found == model.segment(word, n), f"{word[:99]!a}: other segmentations among others"
        assert len({one.pieces for one in found}) == len(found) <= n
        assert all("".join(one.pieces) == model.read_as(word) for one in found)
        assert sum(one.probability for one in found) <= 1 + 1e-9
        if confidences is not None:
            assert 0 <= confidences[at] <= 1
            assert confidences[at] == model.confidence(word)
    model.explain(words[0], n).to_dict()
    model.neighbors(words[0], 3)


def check_surrogates(model: Model, dice: random.Random) -> None:
    """Check that a lone surrogate gets one short error from every method."""
    word = "a" * dice.choice((1, 10, 10**5)) + chr(dice.randrange(0xD800, 0xE000))
    for method in (model.embed, model.segment, model.confidence, model.explain, model.neighbors):
        try:
            method(word)
        except InputError as error:
            assert "surrogate" in str(error)
            assert len(str(error)) < SHORT, f"{len(str(error))} characters: {str(error)[:99]}"
        else:
            raise AssertionError(f"{method.__name__} took a lone surrogate")


def run(seconds: float, seed: int, cases: int | None = None) -> dict[str, Any]:
    """Try hostile words until the time is over, or so many of them."""
    dice, end, tried, worst = random.Random(seed), time.monotonic() + seconds, 0, 0.0
    while tried < cases if cases is not None else time.monotonic() < end:
        oracle = dice.choice(models())
        words = [hostile(dice, oracle.model.words) for _ in range(min(BATCH, cases or BATCH))]
        try:
            worst = max(worst, check_vectors(oracle, words))
            if oracle.model.has_confidence:
                check_spelling(oracle.model, words, dice.choice((1, 2, 5, 30)))
            check_surrogates(models()[0].model, dice)
        except Exception as error:
            error.add_note(f"seed {seed}, words {tried} to {tried + len(words)}")
            raise
        tried += len(words)
    return {"words": tried, "largest error": worst}
