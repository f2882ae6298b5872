"""The batch of `embed` with two threads beside one. fastText holds the GIL, so threads do not help it.

Vectors go into an array that is there already: getting memory from the system takes its time, and is no work to share.
The best of 25 counts, as both cores have to be free at once, which on a shared machine they seldom are.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import inputs
import peers
from measure import Row, race

ROUNDS = 25


def rows():
    words = inputs.unseen_words()
    model, call = inputs.model("pbos"), peers.fasttext().call
    out = model.embed(words)
    halves = words[: len(words) // 2], words[len(words) // 2 :]

    def theirs_in_two() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(call, halves))

    seconds = race(
        {
            "ours 2": lambda: model.embed(words, threads=2, out=out),
            "ours 1": lambda: model.embed(words, threads=1, out=out),
            "theirs 2": theirs_in_two,
            "theirs 1": lambda: call(words),
        },
        ROUNDS,
    )
    cost = {name: 1e6 * value / len(words) for name, value in seconds.items()}
    gain = {name: cost[f"{name} 1"] / cost[f"{name} 2"] for name in ("ours", "theirs")}
    question = "embed in two threads, preset pbos"
    yield Row(question, cost["ours 2"], "µs/word", "ours in one thread", cost["ours 1"], at_least=1.8)
    quality = {"gain by the second thread": (gain["ours"], gain["theirs"])}
    yield Row(question, cost["ours 2"], "µs/word", "fasttext in two threads", cost["theirs 2"], quality=quality)
