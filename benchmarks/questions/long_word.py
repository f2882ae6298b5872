"""One word of 100,000 characters."""

from __future__ import annotations

import inputs
from measure import Row, race

import pbos


def rows():
    segmenter, model = pbos.Segmenter.from_counts(inputs.counts()), pbos.load()
    word = ("penpineapplepie" * 6_667)[:100_000]
    calls = {
        "segment": lambda: segmenter.segment(word),
        "weights of": lambda: segmenter.weights(word),
        "embed": lambda: model[word],
    }
    for name, seconds in race(calls).items():
        yield Row(f"{name} a string of {len(word):,} characters", seconds)
