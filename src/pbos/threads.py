"""Kernels on several threads: how many, and a map over items in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pbos.errors import InputError

Result = TypeVar("Result")
LEAST = 256  # items handed to a thread at a time: fewer would not be worth the way


def thread_count(threads: int | None) -> int:
    """Return how many threads to use: as asked, or one for each core this process may run on."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}")
    return threads


def share(n_items: int, most: int, threads: int | None) -> int:
    """Return how many of n items to hand to a thread at a time, so that no thread is left with much more than others.

    >>> share(20_000, 4096, threads=2), share(10**6, 4096, threads=2), share(3, 4096, threads=2)
    (1250, 4096, 256)
    """
    return min(most, max(LEAST, -(-n_items // (8 * thread_count(threads)))))


def in_threads(function: Callable[[int], Result], items: Iterable[int], threads: int | None) -> Iterable[Result]:
    """Map a function that releases the GIL over items, in order, on a pool that lives for this call only.

    A pool a call costs some 100 µs and is safe after fork, where the threads of a lasting pool would be gone.
    """
    items = list(items)
    workers = min(thread_count(threads), len(items))
    if workers <= 1:
        return map(function, items)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
