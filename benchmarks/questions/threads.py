"""The batch of `embed` with two threads and with one. fastText holds the GIL, so threads do not help it.

Vectors are written into an existing array, because allocating memory cannot be done in parallel. The best of 25 runs
counts, because both cores have to be free at the same time, which is rare on a shared machine.
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
    speedup = {name: cost[f"{name} 1"] / cost[f"{name} 2"] for name in ("ours", "theirs")}
    question = "embed with two threads, preset pbos"
    yield Row(question, cost["ours 2"], "µs/word", "pbos, one thread", cost["ours 1"], at_least=1.8)
    quality = {"speedup from one to two threads": (speedup["ours"], speedup["theirs"])}
    yield Row(question, cost["ours 2"], "µs/word", "fasttext, two threads", cost["theirs 2"], quality=quality)
