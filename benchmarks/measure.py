"""Clocks, and the rows of the one table that all questions fill."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import sys
import time
from dataclasses import asdict, dataclass, field

ROUNDS = 5
HEADER = "| question | ours | peer | ratio | target | quality, ours / peer |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Row:
    """One figure of ours, beside a peer's if there is one.

    Attributes:
        question: What was done, with how much of it.
        ours: Our figure, in `unit`.
        unit: One that ends in "/s" is better when larger, any other when smaller.
        peer: Who else was measured, and how; empty for nobody.
        theirs: The peer's figure, in the same unit.
        at_least: The ratio we want.
        at_most: The figure we want.
        quality: What the answers are worth, (ours, the peer's); the peer's is None where it has none.
    """

    question: str
    ours: float
    unit: str = "s"
    peer: str = ""
    theirs: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    quality: dict[str, tuple[float, float | None]] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """How many times better we are than the peer; below 1 we are worse."""
        if self.theirs is None:
            return None
        return self.ours / self.theirs if self.unit.endswith("/s") else self.theirs / self.ours

    @property
    def target(self) -> str:
        """The target, and whether it is met."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}x: {'met' if (self.ratio or 0) >= self.at_least else 'missed'}"
        if self.at_most is not None:
            return f"≤ {self.at_most:g} {self.unit}: {'met' if self.ours <= self.at_most else 'missed'}"
        return ""

    def to_dict(self) -> dict:
        """Return everything as plain data."""
        return {**asdict(self), "ratio": self.ratio, "target": self.target}

    def __str__(self) -> str:
        peer = "" if self.theirs is None else f"{self.peer} {figure(self.theirs)} {self.unit}"
        ratio = "" if self.ratio is None else f"{figure(self.ratio)}x"
        pairs = {name: [figure(value) for value in pair if value is not None] for name, pair in self.quality.items()}
        quality = "; ".join(f"{name} {' / '.join(figures)}" for name, figures in pairs.items())
        return f"| {self.question} | {figure(self.ours)} {self.unit} | {peer} | {ratio} | {self.target} | {quality} |"


def figure(value: float) -> str:
    """Write a number with three digits that count.

    >>> [figure(value) for value in (0.012345, 12.345, 12345.6, 1.5e-7)]
    ['0.0123', '12.3', '12,346', '1.5e-07']
    """
    if value == 0 or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def clock(function) -> float:
    """Return the seconds a call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def race(functions: dict, rounds: int = ROUNDS) -> dict:
    """Run the functions in turn, round after round; return the best seconds of each.

    In turn, so that whatever else slows the machine down slows all of them. What lives already is not looked at by the
    garbage collector, as the one pays for it who allocates most.
    """
    gc.collect()
    gc.freeze()
    best = dict.fromkeys(functions, math.inf)
    for _ in range(rounds):
        for name, function in functions.items():
            best[name] = min(best[name], clock(function))
    gc.unfreeze()
    return best


@contextlib.contextmanager
def one_core():
    """Keep this thread and those it starts on one core, and BLAS to one thread."""
    from threadpoolctl import threadpool_limits

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        with threadpool_limits(1):
            yield
    finally:
        os.sched_setaffinity(0, cores)


def say(text: str) -> None:
    """Tell how far we are."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
