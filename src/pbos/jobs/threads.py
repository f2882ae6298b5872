"""Running kernels, which release the GIL, on several threads."""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from pbos.errors import InputError, whole_number
from pbos.jobs.interrupts import raise_what_waits

Item = TypeVar("Item")
Result = TypeVar("Result")
LEAST_MEMORY = 512 << 20
BLOCK = 4096  # rows worked on at a time


def blocks(n_rows: int, size: int = BLOCK) -> Iterator[slice]:
    """Yield slices of rows, `size` at a time."""
    return (slice(first, min(first + size, n_rows)) for first in range(0, n_rows, size))


def cut(n_rows: int, n: int) -> list[slice]:
    """Return n slices of rows of about the same size, or fewer if there are fewer rows.

    >>> cut(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    bounds = np.linspace(0, n_rows, n + 1).astype(int).tolist()
    return [slice(first, last) for first, last in pairwise(bounds) if first < last]


def thread_count(threads: int | None) -> int:
    """Return the number of threads to use: as requested, or one per core available to this process."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return whole_number("threads", threads, 1)


def memory_size(memory: int | str) -> int:
    """Return an amount of memory in bytes.

    >>> memory_size("1.5G")
    1610612736
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(memory).strip(), re.IGNORECASE)
    size = float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ") if match else 0.0
    if not LEAST_MEMORY <= size < math.inf:
        least = f"at least {LEAST_MEMORY >> 20}M"
        raise InputError(f"memory must be {least}, as a number of bytes or a size such as '4G', got {memory!r}")
    return int(size)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let NumPy's linear algebra (BLAS) use one thread, so that its results do not depend on the number of cores.

    The limit is the process's. Blocks on several threads may overlap: it ends with the last of them.
    """
    from threadpoolctl import threadpool_limits

    global _n_limited, _limit
    with _limiting:
        if _n_limited == 0:
            release_blas()
            _limit = threadpool_limits(limits=1, user_api="blas")
        _n_limited += 1
    try:
        yield
    finally:
        with _limiting:
            _n_limited -= 1
            if _n_limited == 0:
                release_blas()
                _limit.restore_original_limits()
                release_blas()


def release_blas() -> None:
    """Let any thread set the limit: newer versions of threadpoolctl ignore all but the thread that was first."""
    import threadpoolctl

    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)


_limiting, _n_limited = threading.Lock(), 0
_limit: Any = None  # what the last of the blocks restores


def in_threads(function: Callable[[Item], Result], items: Iterable[Item], threads: int | None) -> list[Result]:
    """Map a function over items, on threads that live for this call only; results come in the order of the items.

    >>> in_threads(abs, [-1, -2], threads=2)
    [1, 2]
    """
    items = list(items)
    workers = min(thread_count(threads), len(items))
    if workers <= 1:
        return [function(item) for item in items]
    stop = threading.Event()
    with ThreadPoolExecutor(workers, initializer=setattr, initargs=(_here, "stop", stop)) as pool:
        try:
            return list(pool.map(function, items))
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_here = threading.local()


def check_interrupt() -> None:
    """Raise a Ctrl-C that waits, or KeyboardInterrupt if the `in_threads` that this thread works for has failed."""
    raise_what_waits()
    if hasattr(_here, "stop") and _here.stop.is_set():
        raise KeyboardInterrupt
