"""Learn from text, 100 dimensions, two threads: processor time, memory and size of the model; one run each.

`learners.py` says how, one process per system. Processor time is that of all threads, from the start of the process to
the saved model. The texts are the first million tokens of the novels, all 13 million, and for pbos alone 105 million:
eight times the novels with their lines shuffled and 5 % of the words replaced by others at random. That text shows the
cost only: its vocabulary is no larger, and what is learned from it is of no use. "cut text into words" is a block of
16 MiB on one core, to the numbers of its words, by processor time; gensim's `tokenize` only yields the words.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import inputs
from measure import ROUNDS, Row, log, one_core

from questions.opening import gigabytes

LEARNERS = Path(__file__).parents[1] / "learners.py"
PEERS = ("fasttext", "floret", "gensim")
COPIES = 8  # 105 million tokens
BLOCK = 16 << 20


def rows():
    yield cutting()
    texts = {"1M": inputs.first_tokens(1_000_000), "13M": inputs.corpus()}
    cost("pbos", texts["1M"])  # compiles the kernels
    for size, text in texts.items():
        ours = cost("pbos", text)
        yield from by_step(size, ours)
        for peer in filter(find_spec, PEERS):
            yield from compare(size, ours, peer, cost(peer, text))
    yield from by_step("105M", cost("pbos", inputs.repeated(COPIES)))


def cutting() -> Row:
    """Return the speed of cutting text into words."""
    from gensim.utils import tokenize

    from pbos.words.tokens import words_of

    with inputs.corpus().open("rb") as stream:
        text = stream.read(BLOCK).decode("utf-8", "ignore")

    def ours() -> None:
        words_of(text, "words", lowercase=True)

    def theirs() -> None:
        for _ in tokenize(text, lowercase=True):
            pass

    with one_core():
        best = [min(processor_time(call) for _ in range(ROUNDS)) for call in (ours, theirs)]
    speed, their_speed = (BLOCK / 1e6 / seconds for seconds in best)
    return Row("cut text into words", speed, "MB/s", "gensim", their_speed)


def processor_time(call) -> float:
    """Return how many seconds the processor worked during a call."""
    started = time.process_time()
    call()
    return time.process_time() - started


def cost(system: str, text: Path) -> dict:
    """Return what a system took to learn from a text, in a new process, and the size of its model in GB."""
    log(f"{system} learns from {text.name}")
    with tempfile.TemporaryDirectory(dir=inputs.CACHE) as folder:
        model = Path(folder) / "model"
        command = [sys.executable, LEARNERS, system, text, model]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        return json.loads(output.splitlines()[-1]) | {"gb": gigabytes(model)}


def by_step(size: str, ours: dict):
    """Yield a row for all steps of pbos together, and one for each."""
    for step, taken in {"all steps": ours, **ours["steps"]}.items():
        quality = {"wall-clock s": (taken["seconds"], None), "peak GiB": (taken["gib"], None)}
        yield Row(f"learn from {size} tokens, {step}", taken["cpu"], "s", quality=quality)


def compare(size: str, ours: dict, peer: str, theirs: dict):
    """Yield a row for each kind of cost."""
    target = 10.0 if peer == "fasttext" and size == "13M" else None
    wall = {"wall-clock s": (ours["seconds"], theirs["seconds"])}
    yield Row(f"learn from {size} tokens", ours["cpu"], "s", peer, theirs["cpu"], at_least=target, quality=wall)
    yield Row("memory for the same", ours["gib"], "GiB", peer, theirs["gib"])
    yield Row("size of the model", 1e3 * ours["gb"], "MB", peer, 1e3 * theirs["gb"], at_least=target)
