"""One call per word, `model[word]`, for 20,000 unseen words, one core."""

from __future__ import annotations

import inputs
import peers
from measure import Row, one_core, race


def rows():
    words = inputs.unseen_words()
    model, vector_of = inputs.model("pbos"), peers.fasttext().vector_of

    def ours() -> None:
        for word in words:
            model[word]

    def theirs() -> None:
        for word in words:
            vector_of(word)

    with one_core():
        seconds = race({"ours": ours, "theirs": theirs})
    cost = {name: 1e6 * value / len(words) for name, value in seconds.items()}
    yield Row('`model["word"]`, preset pbos', cost["ours"], "µs/word", "fasttext", cost["theirs"], at_least=1.0)
