"""Where the parts of a job run: on threads of this process, or on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Union

from pbos.errors import InputError
from pbos.jobs.threads import in_threads, thread_count

if TYPE_CHECKING:
    from pbos.jobs.cluster import Workers

Pool = Union["Threads", "Workers"]
"""Runs the parts of a job. A part may run more than once, on any worker, and gives the same result each time; a part
that writes a file writes it whole or not at all."""

Item = TypeVar("Item")
Result = TypeVar("Result")
PLENTY = 6 << 30  # bytes for the arrays of all parts, unless less memory is asked for


class Threads:
    """The pool of this process.

    Attributes:
        size: How many parts run at the same time.
        memory: What each of them may use for its own arrays, in bytes.
    """

    def __init__(self, threads: int | None = None, memory: int | None = None) -> None:
        self.size = thread_count(threads)
        self.memory = (PLENTY if memory is None else memory) // self.size

    def map(
        self,
        stage: str,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        on_done: Callable[[Result], None] = lambda result: None,
        memory: int = 0,
    ) -> list[Result]:
        """Apply a function to items; results come in the order of the items.

        >>> Threads(2).map("absolute", abs, [-1, -2])
        [1, 2]

        Args:
            stage: What the parts are called where people watch them, such as "count-text".
            function: The function. It is sent to other processes, so it must not hold large arrays, except mapped ones.
            items: The items, small ones likewise.
            on_done: Called with each result when it is there, in any order.
            memory: What a part needs, in bytes, if that may be more than `memory`: then fewer run at the same time.
        """

        def run(item: Item) -> Any:
            result = function(item)
            on_done(result)
            return result

        fewer = self.size * self.memory // max(memory, 1)
        return in_threads(run, items, max(1, min(self.size, fewer)))


@contextmanager
def pool_of(scheduler: str | Any = None, threads: int | None = None, memory: int | None = None) -> Iterator[Pool]:
    """Open a pool: the threads of this process if `scheduler` is None, otherwise as for `pbos.jobs.cluster.connect`."""
    check_scheduler(scheduler)
    if scheduler is None:
        yield Threads(threads, memory)
        return
    from pbos.jobs.cluster import connect

    with connect(scheduler) as workers:
        yield workers


def check_scheduler(scheduler: Any) -> None:
    """Raise an error if this is no scheduler, or if the extra for it is missing."""
    if scheduler is not None:
        from pbos.jobs.cluster import SCHEDULER  # here, because it is an extra

        if not isinstance(scheduler, SCHEDULER) or scheduler == "":
            raise InputError(f'scheduler must be an address, "local" or a Dask client, got {scheduler!r}')
