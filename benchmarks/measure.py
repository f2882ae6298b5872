"""Timing, and the rows of the result table."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # `experiments` is no installed package
DATA = Path(os.environ.get("PBOS_DATA") or ROOT.parent / "shared" / "data")
CACHE = Path(__file__).resolve().parent / ".cache"
ROUNDS = 5
HEADER = "| question | ours | peer | ratio | target | quality, ours / peer |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Row:
    """One measurement of pbos, compared with a peer if there is one.

    Attributes:
        question: What was measured, with its size.
        ours: The value of pbos, in `unit`.
        unit: Larger is better if it ends in "/s"; otherwise smaller is better.
        peer: The name of the peer; empty if there is none.
        theirs: The peer's value, in the same unit.
        at_least: The target for the ratio.
        at_most: The target for our value.
        quality: Quality scores, as (ours, the peer's); the peer's is None if it has no such score.
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
        """How many times better pbos is than the peer; below 1 it is worse."""
        if self.theirs is None:
            return None
        return self.ours / self.theirs if self.unit.endswith("/s") else self.theirs / self.ours

    @property
    def target(self) -> str:
        """The target, and whether it was met."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}x: {'met' if (self.ratio or 0) >= self.at_least else 'missed'}"
        if self.at_most is not None:
            return f"≤ {self.at_most:g} {self.unit}: {'met' if self.ours <= self.at_most else 'missed'}"
        return ""

    def to_dict(self) -> dict:
        """Return the row as a dictionary, for JSON."""
        return {**asdict(self), "ratio": self.ratio, "target": self.target}

    def __str__(self) -> str:
        peer = "" if self.theirs is None else f"{self.peer} {figure(self.theirs)} {self.unit}"
        ratio = "" if self.ratio is None else f"{figure(self.ratio)}x"
        pairs = {name: [figure(value) for value in pair if value is not None] for name, pair in self.quality.items()}
        quality = "; ".join(f"{name} {' / '.join(figures)}" for name, figures in pairs.items())
        return f"| {self.question} | {figure(self.ours)} {self.unit} | {peer} | {ratio} | {self.target} | {quality} |"


def figure(value: float) -> str:
    """Format a number with three significant digits.

    >>> [figure(value) for value in (0.012345, 12.345, 12345.6, 1.5e-7)]
    ['0.0123', '12.3', '12,346', '1.5e-07']
    """
    if value == 0 or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def clock(function) -> float:
    """Return how many seconds a call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def race(functions: dict, rounds: int = ROUNDS) -> dict:
    """Time functions over several rounds; return the best time of each, in seconds.

    The functions alternate, so that other load on the machine affects all of them. Existing objects are frozen, because
    garbage collection would otherwise charge them to whichever function allocates most.
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
    """Pin this thread and the threads it starts to one core, and limit BLAS to one thread."""
    from threadpoolctl import threadpool_limits

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        with threadpool_limits(1):
            yield
    finally:
        os.sched_setaffinity(0, cores)


def log(text: str) -> None:
    """Print a progress message to stderr."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
