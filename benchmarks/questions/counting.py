"""Compute the probabilities of all substrings of 333,333 words, with words and counts in memory; one core.

"max relative difference" is between our probabilities and the textbook's, over all substrings. Ours are float32, so
6e-8 is the rounding error.
"""

from __future__ import annotations

import inputs
import numpy as np
import textbook
from measure import Row, one_core, race

from pbos.settings import Spelling
from pbos.training.counting import count_subwords
from pbos.words.text import encode


def rows():
    counts = inputs.counts()
    table = dict(zip(counts.words, counts.counts.tolist(), strict=True))
    every = np.ones(len(counts), np.bool_)

    def ours():
        return count_subwords(encode(counts.words, Spelling()), counts.counts, every)

    with one_core():
        seconds = race({"ours": ours, "theirs": lambda: textbook.count(table)})
    probs, index = textbook.count(table), ours()
    assert len(probs) == len(index)
    found = zip(index.strings(), index.probs[1:].tolist(), strict=True)
    difference = max(abs(prob / probs[subword] - 1) for subword, prob in found)
    yield Row(
        f"count the substrings of {len(counts):,} words",
        seconds["ours"],
        peer="textbook",
        theirs=seconds["theirs"],
        at_least=20.0,
        quality={"max relative difference": (difference, None)},
    )
