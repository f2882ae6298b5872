"""The same jobs on the workers of a Dask cluster (extra `dask`)."""

from __future__ import annotations

import gc
import logging
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from pbos import __version__
from pbos.errors import ClusterError, MissingExtraError, PbosError

try:
    import dask
    from distributed import Client, KilledWorker, LocalCluster, Security, as_completed
    from distributed.protocol.pickle import dumps, loads
    from distributed.utils import silence_logging_cmgr
except ImportError:
    raise MissingExtraError("working on a cluster", "dask") from None

Item = TypeVar("Item")
Result = TypeVar("Result")
SCHEDULER = (str, Client)  # the types of what names one
RETRIES = 2  # of a part that failed; a part whose worker was lost is always run again
PATIENCE = 10  # seconds to wait for a scheduler to answer, and for its first worker
LOCAL = {
    "threads_per_worker": 1,
    "dashboard_address": "127.0.0.1:0",  # at any free port; nothing is shown there, as other users could see it
    "scheduler_kwargs": {"dashboard": False},
    "silence_logs": logging.CRITICAL,
    "preload": __name__,  # see `dask_setup`
}
CONFIG = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    # Dask gives up a worker that is not back after 15 s, and waits forever when all are; a restart can take longer.
    "distributed.deploy.lost-worker-timeout": "1h",
}


class Workers:
    """The pool of a cluster: see `pbos.jobs.pools.Threads`.

    `memory` is that of a worker for each part that it runs at the same time.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.address = str(getattr(client.scheduler, "address", "?"))
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise ClusterError(
                f"the scheduler at {self.address} has no workers; start some with: dask worker"
            ) from None
        for worker, version in client.run(eval, "__import__('pbos').__version__", on_error="return").items():
            if isinstance(version, ImportError) or (isinstance(version, str) and version != __version__):
                what = f"pbos {version}" if isinstance(version, str) else "no pbos"
                raise ClusterError(f"the worker at {worker} has {what}; install pbos {__version__} on all workers")
        workers = client.scheduler_info(n_workers=-1)["workers"].values()
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
        futures, found = [], {}
        advice = "run the same again when it is back; finished work is kept"
        lost = ClusterError(f"the scheduler at {self.address} was lost during {stage}; {advice}")
        try:
            # As bytes, because the scheduler unpickles objects too, and may not have the files that arrays are in.
            run = partial(attempt, dumps(function))
            futures = self.client.map(run, [dumps(item) for item in items], key=keys, retries=RETRIES, pure=False)
            for future in as_completed(futures, loop=self.client.loop):
                try:
                    result = future.result()  # if its worker has gone with it, another one makes it again
                except Exception as error:
                    raise (failure(stage, error) if future.status == "error" else lost) from None
                if isinstance(result, PbosError):
                    raise result
                found[future.key] = result
                on_done(result)
            return [found[key] for key in keys]
        except BaseException as error:
            if self.client.status == "running":
                self.client.cancel(futures)
            elif isinstance(error, Exception) and not isinstance(error, PbosError):
                raise lost from None
            raise


def failure(stage: str, error: BaseException) -> BaseException:
    """Return the error to raise for that of a part."""
    if isinstance(error, KilledWorker):
        return ClusterError(f"workers were lost repeatedly during {stage}; they may need more memory than they have")
    if isinstance(error, FileNotFoundError):
        return ClusterError(f"a worker cannot find {error.filename}; workers need the same files at the same paths")
    if "different environments" in str(error):  # an error of the scheduler, which unpickles the parts too
        return ClusterError(f"the scheduler cannot read the parts of {stage}; install pbos {__version__} there too")
    return error


def attempt(function: bytes, item: bytes) -> Any:
    """Apply a function to an item, both pickled; return an error that would come again, so that Dask does not retry."""
    try:
        return loads(function)(loads(item))
    except PbosError as error:
        return error


@contextmanager
def connect(scheduler: str | Any) -> Iterator[Workers]:
    """Connect to Dask's client, to the scheduler at an address or, for "local", to workers started here meanwhile."""
    if not isinstance(scheduler, str):
        yield Workers(scheduler)
        return
    with (
        silence_logging_cmgr(logging.CRITICAL),  # what matters is raised
        started() if scheduler == "local" else answering(scheduler) as client,
    ):
        yield Workers(client)


@contextmanager
def started(**options: Any) -> Iterator[Any]:
    """Start workers on this machine for the time being; yield Dask's client.

    All users of the machine can connect to them, but only these processes have the credentials. Python imports from
    Dask's scratch folder first, so it is one in which no other user can write.
    """
    try:
        security = Security.temporary()
    except ImportError:  # it needs cryptography
        raise MissingExtraError("a cluster on this machine", "dask") from None
    with tempfile.TemporaryDirectory(prefix="pbos-", ignore_cleanup_errors=True) as scratch:
        try:
            with (
                dask.config.set({**CONFIG, "temporary-directory": scratch}),
                LocalCluster(**LOCAL, security=security, **options) as cluster,
                Client(cluster) as client,
            ):
                yield client
        finally:  # Dask does so itself, unless it is interrupted; later anybody can make a folder of this name
            sys.path[:] = [place for place in sys.path if not place.startswith(scratch)]


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C to the process that has started the workers; Dask calls this in each of them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def answering(scheduler: str) -> Any:
    """Return Dask's client of a scheduler; raise ClusterError if it does not answer."""
    try:
        return Client(scheduler, timeout=PATIENCE)
    except (OSError, TimeoutError, TypeError, ValueError) as error:
        reason = str(error).partition(". ")[0]
    gc.collect()  # ends what is left of the client now; while another one is being started this would hang
    encrypted = scheduler.startswith("tls:")
    advice = "check distributed.comm.tls in Dask's configuration" if encrypted else "start one, or use local"
    raise ClusterError(f"no Dask scheduler answers at {scheduler} ({reason}); {advice}")
