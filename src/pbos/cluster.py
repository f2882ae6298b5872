"""The same jobs on the workers of a Dask cluster (extra `dask`)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pbos.errors import ClusterError, MissingExtraError, PbosError

try:
    from distributed import Client, KilledWorker, LocalCluster, as_completed
    from distributed.comm.core import CommClosedError
except ImportError:
    raise MissingExtraError("working on a cluster", "dask") from None

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRIES = 2  # of a part that failed; a part whose worker was lost is always run again


class Workers:
    """The pool of a cluster: see `pbos.pools.Pool`.

    Attributes:
        client: Dask's client.
        size: How many parts run at the same time.
        memory: The memory of a worker for each part that it runs at the same time, in bytes.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
        if not workers:
            raise ClusterError(f"the scheduler at {address(client)} has no workers; start some with: dask worker")
        self.size = sum(worker["nthreads"] for worker in workers)
        self.memory = min(int(worker["memory_limit"] or 1 << 62) // worker["nthreads"] for worker in workers)

    def map(
        self,
        stage: str,
        function: Callable[[Item], Result],
        items: Iterable[Item],
        on_done: Callable[[Result], None] = lambda result: None,
        memory: int = 0,
    ) -> list[Result]:
        """Apply a function to items, on the workers."""
        if memory > self.memory:
            sizes = f"{memory / 2**30:.1f} GiB, but workers have {self.memory / 2**30:.1f} GiB per thread"
            raise ClusterError(f"a part of {stage} needs {sizes}; use workers with more memory or fewer threads")
        items, job = list(items), uuid.uuid4().hex[:8]
        keys = [f"{stage}-{job}-{number}" for number in range(len(items))]  # up to the job, what the dashboard shows
        try:
            futures = self.client.map(function, items, key=keys, retries=RETRIES, pure=False)
            found: dict[Any, Result] = {}
            for future, result in as_completed(futures, with_results=True):
                found[future.key] = result
                on_done(result)
            return [found[key] for key in keys]
        except PbosError:
            raise
        except (CommClosedError, OSError, TimeoutError) as error:
            raise self._lost(stage, error) from None
        except KilledWorker:
            raise ClusterError(
                f"workers were lost again and again during {stage}; they may need more memory than they have"
            ) from None
        except Exception as error:
            if self.client.status == "running" and "cancelled" not in type(error).__name__.lower():
                raise
            raise self._lost(stage, error) from None

    def _lost(self, stage: str, error: Exception) -> ClusterError:
        return ClusterError(
            f"the scheduler at {address(self.client)} was lost during {stage} ({error or type(error).__name__}); "
            "run the same again when it is back: what is done is kept"
        )


def address(client: Any) -> str:
    """Return the address of a client's scheduler."""
    return str(getattr(client.scheduler, "address", "?"))


@contextmanager
def connect(scheduler: str | Any) -> Iterator[Workers]:
    """Connect to a cluster.

    Args:
        scheduler: The address of a scheduler, such as "tcp://10.0.0.1:8786"; "local", to start workers on this machine
            for the time being; or Dask's client.
    """
    if not isinstance(scheduler, str):
        yield Workers(scheduler)
    elif scheduler == "local":
        with LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            yield Workers(client)
    else:
        try:
            client = Client(scheduler, timeout="10s")
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(f"no Dask scheduler answers at {scheduler} ({error}); start one, or use local") from None
        with client:
            yield Workers(client)
