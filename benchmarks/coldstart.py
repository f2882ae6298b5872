"""Cold start: the processor time of first calls in a process of its own with an empty cache, and what is compiled.

`python benchmarks/coldstart.py` prints a row for each first call (embed, segment, ...). Functions of NumPy inside
kernels are compiled from Numba's own sources; they count too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from numba.core import event

WORD = "unfriendliest"


class Compiled(event.Listener):
    """The functions that were compiled, once for each signature."""

    def __init__(self) -> None:
        self.functions: list[object] = []

    def on_start(self, event) -> None:
        """Remember a function."""
        self.functions.append(event.data["dispatcher"].py_func)

    def on_end(self, event) -> None:
        """Ignore."""


def measure() -> None:
    """Make the first calls, one after another, and print what each took."""
    compiled, started = Compiled(), 0.0
    event.register("numba:compile", compiled)
    import pbos

    model = pbos.load()
    calls = {
        "import": lambda: None,
        "embed": lambda: model.embed(WORD),
        "segment": lambda: model.segment(WORD),
        "sample": lambda: model.sample(WORD, 1, 0),
        "explain": lambda: model.explain(WORD).weights,
        "confidence": lambda: model.confidence(WORD),
        "neighbors": lambda: model.neighbors(WORD),
        "long word": lambda: model.embed(WORD * 100),
    }
    print("| first call | processor time | functions | signatures |\n|---|---|---|---|")
    for name, call in calls.items():
        call()
        now, functions = time.process_time(), compiled.functions
        print(f"| {name} | {now - started:.2f} s | {len(set(functions))} | {len(functions)} |", flush=True)
        started, compiled.functions = now, []


if __name__ == "__main__":
    if sys.argv[1:] == ["here"]:
        measure()
    else:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, "here"]
            subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)
