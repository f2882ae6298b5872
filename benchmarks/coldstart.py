"""Cold start: the processor time that compiling the kernels takes, in a process of its own with an empty cache.

`python benchmarks/coldstart.py` prints one table per first call (embed, segment, ...): for each compiled function the
number of signatures and the processor time of its own, without the functions it calls, which are listed themselves.
Functions of NumPy inside kernels are compiled from Numba's own sources; they are listed with their module.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from typing import Any

FIRST_CALLS = {
    "embed": lambda model: model.embed("unfriendliest"),
    "segment": lambda model: model.segment("unfriendliest"),
    "sample": lambda model: model.sample("unfriendliest", 1, 0),
    "explain": lambda model: model.explain("unfriendliest").weights,
    "confidence": lambda model: model.confidence("unfriendliest"),
    "neighbors": lambda model: model.neighbors("unfriendliest"),
    "long word": lambda model: model.embed("unfriendliest" * 100),
}
SHOWN = 0.02  # functions that took less are summed up


class CompileTimes:
    """Adds up the processor time of compiling each function, without that of the functions it calls."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.signatures: Counter[str] = Counter()
        self._inner = [0.0]

    def watch(self) -> None:
        """Listen to Numba's events."""
        from numba.core import event

        times = self
        starts: list[float] = []

        class Listener(event.Listener):  # type: ignore[misc]  # Numba is untyped
            def on_start(self, event: Any) -> None:
                starts.append(time.process_time())
                times._inner.append(0.0)

            def on_end(self, event: Any) -> None:
                took = time.process_time() - starts.pop()
                function = event.data["dispatcher"].py_func
                module = function.__module__.removeprefix("pbos.kernels.")
                name = f"{module}.{function.__qualname__.partition('.')[0]}"
                times.seconds[name] += took - times._inner.pop()
                times.signatures[name] += 1
                times._inner[-1] += took

        event.register("numba:compile", Listener())


def measure_here() -> None:
    """Make the first calls, one after another, and print what each took as JSON."""
    times = CompileTimes()
    spent = [time.process_time()]
    steps: list[dict[str, Any]] = []

    def done(name: str) -> None:
        now = time.process_time()
        steps.append(
            {
                "step": name,
                "seconds": now - spent[-1],
                "functions": {name: [times.signatures[name], taken] for name, taken in times.seconds.items()},
            }
        )
        spent.append(now)
        times.seconds.clear()
        times.signatures.clear()

    import pbos

    times.watch()
    model = pbos.load()
    done("import")
    for name, call in FIRST_CALLS.items():
        call(model)
        done(name)
    print(json.dumps(steps))


def measure() -> list[dict[str, Any]]:
    """Measure in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, __file__, "here"]
        output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def report(steps: list[dict[str, Any]]) -> str:
    """Return the tables in Markdown."""
    lines = ["| first call | processor time | of which compiling | functions | signatures |", "|---|---|---|---|---|"]
    for step in steps:
        times = step["functions"].values()
        compiling, signatures = sum(taken for _, taken in times), sum(number for number, _ in times)
        lines.append(f"| {step['step']} | {step['seconds']:.2f} s | {compiling:.2f} s | {len(times)} | {signatures} |")
    for step in steps:
        functions = sorted(step["functions"].items(), key=lambda item: -item[1][1])
        shown = [f"{name} {taken:.2f}{f' ({number})' if number > 1 else ''}" for name, (number, taken) in functions]
        large = [text for text, (_, (_, taken)) in zip(shown, functions, strict=True) if taken >= SHOWN]
        rest = sum(taken for _, (_, taken) in functions if taken < SHOWN)
        if functions:
            lines += ["", f"{step['step']}: {', '.join(large)}, {len(functions) - len(large)} others {rest:.2f}"]
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["here"]:
        measure_here()
    else:
        print(report(measure()))
