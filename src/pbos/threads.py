"""Kernels on several threads: how many, and a map over items in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from threading import Thread
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
    """Map a function that releases the GIL over items, in order, on threads that live for this call only.

    New threads a call cost some 50 µs each and are safe after fork, where lasting ones would be gone. The caller's
    thread works too, instead of being woken for every result. Of several errors that of the first item is raised.
    """
    items = list(items)
    workers = min(thread_count(threads), len(items))
    if workers <= 1:
        return map(function, items)
    todo = deque(enumerate(items))
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def work() -> None:
        while todo:
            try:
                at, item = todo.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                results[at] = function(item)
            except BaseException as error:
                errors[at] = error
                todo.clear()  # items before this one are done or under way

    others = [Thread(target=work) for _ in range(workers - 1)]
    try:
        for thread in others:
            thread.start()
        work()
        for thread in others:
            thread.join()
    finally:
        todo.clear()  # if interrupted, let the others end soon
    if errors:
        raise errors[min(errors)]
    return [results[at] for at in range(len(items))]
