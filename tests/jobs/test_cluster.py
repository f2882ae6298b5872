"""Parts of a job on the workers of a Dask cluster: results and errors are those of a plain loop, whatever is lost."""

import asyncio
import functools
import gc
import importlib.util
import os
import pickle
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import dask
import pytest
from dask.utils import key_split
from distributed import Client, LocalCluster, Security
from distributed.core import rpc
from distributed.protocol.pickle import dumps

import pbos
from pbos import errors
from pbos.errors import ClusterError, InputError, MissingExtraError, PbosError
from pbos.jobs import cluster
from pbos.jobs.cluster import Workers, connect, failure
from pbos.jobs.pools import Threads, pool_of


@pytest.fixture
def local(client):
    return client.cluster


@pytest.fixture
def workers(client):
    return Workers(client)


# -- what the parts do; on the workers ---------------------------------------------------------------------------------


def square(number):
    return number * number


def first_time(marker):
    """Whether this is the first call with a file, in any process."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def killed_once(marker, number):
    if number == 3 and first_time(marker):
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number)


def fails_once(marker, number):
    if number == 3 and first_time(marker):
        raise OSError("a short failure of the network")
    return square(number)


def killed_always(number):
    os.kill(os.getpid(), signal.SIGKILL)


def refused(folder, number):
    (folder / f"{number}-{time.time_ns()}").touch()
    raise MissingExtraError("reading .zst files", "zstd") if number else InputError("word 1 is empty")


def no_such_file(number):
    open("/no/such/file")  # noqa: PTH123


def slow(number):
    time.sleep(0.02)
    return number


def held(folder, number):
    """Note that the part has begun; all but the first one to do so wait until they are let go."""
    (folder / str(number)).touch()
    if not first_time(folder / "first"):
        wait_for((folder / "go").exists)
    return number


def wait_for(condition, seconds=300):
    """Wait until something is so; fail if it takes too long even for a busy machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# -- results -----------------------------------------------------------------------------------------------------------


def test_results_are_in_order_and_reported_one_by_one(workers):
    reported = []
    assert workers.map("square", square, range(20), reported.append) == [number * number for number in range(20)]
    assert sorted(reported) == [number * number for number in range(20)]
    assert workers.map("nothing", square, []) == []
    assert workers.size == 2
    assert 0 < workers.memory <= 1 << 62


def test_a_stage_has_its_name_on_the_dashboard(client, workers, monkeypatch):
    seen = []
    plain = client.map
    monkeypatch.setattr(client, "map", lambda *args, key, **rest: seen.extend(key) or plain(*args, key=key, **rest))
    workers.map("embed-words", square, range(3))
    assert len(set(seen)) == 3
    assert {key_split(key) for key in seen} == {"embed-words"}


def test_a_pool_is_chosen_by_the_scheduler(client, local):
    with pool_of(None, threads=3) as pool:
        assert isinstance(pool, Threads) and pool.size == 3
    for scheduler in (client, local.scheduler_address):
        with pool_of(scheduler) as pool:
            assert isinstance(pool, Workers) and pool.map("square", square, [3]) == [9]
    assert client.status == "running"  # what was given stays open


@pytest.mark.parametrize("scheduler", [8786, "", b"x", LocalCluster])
def test_what_is_no_scheduler(scheduler):
    message = 'scheduler must be an address, "local" or a Dask client, got'
    for call in (pbos.count, pbos.learn, functools.partial(pbos.train, output="model")):
        with pytest.raises(InputError, match=message):
            call(None, scheduler=scheduler)


def test_a_local_cluster_is_started_and_ended():
    with connect("local") as pool:
        (pid,) = set(pool.map("pid", lambda _: os.getpid(), [1]))
        assert pid != os.getpid()
    wait_for(lambda: not is_there(pid))


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# -- other users of the machine, who can connect too -------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_who_lacks_the_credentials_runs_nothing(client, tmp_path, scheme):
    security = Security.temporary() if scheme == "tls" else Security(require_encryption=False)
    touch = functools.partial((tmp_path / "marker").touch)
    workers = known_to(client)
    servers = [client.scheduler.address, *workers, *(worker["nanny"] for worker in workers.values())]
    assert len(set(servers)) == 5

    async def run(address):
        async with rpc(address, connection_args=security.get_connection_args("client"), timeout=60) as server:
            await server.run(function=dumps(touch))

    for server in servers:
        address = f"{scheme}://{server.rpartition('/')[2]}"
        with pytest.raises(OSError, match="before comm was established"):
            asyncio.run(run(address))
    with pytest.raises(OSError, match=r"ConnectionReset|certificate does not match"):
        Client(f"{scheme}://{client.scheduler.address.rpartition('/')[2]}", security=security, timeout=60)
    assert not (tmp_path / "marker").exists()
    client.run(touch)
    assert (tmp_path / "marker").exists()


def test_nothing_is_told_without_credentials(client):
    """Dask's pages, which have neither TLS nor a password, name files, show logs and the stacks of calls."""
    ports = [client.scheduler_info()["services"]["dashboard"]]
    ports += [worker["services"]["dashboard"] for worker in known_to(client).values()]
    for port in ports:
        for page in ("", "status", "info/main/workers.html", "json/counts.json", "metrics", "health"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}")


def test_python_imports_nothing_from_where_others_may_write(tmp_path, monkeypatch):
    """Dask's folder comes first in the path of imports; in the folder of temporary files, another user may own it."""
    (tmp_path / "dask-scratch-space").mkdir()
    (tmp_path / "dask-scratch-space" / "planted.py").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = sys.path.copy()
    with cluster.started(n_workers=1) as client:
        places = [*sys.path, *next(iter(client.run(lambda: sys.path).values()))]
        found = [importlib.util.find_spec("planted"), *client.run(importlib.util.find_spec, "planted").values()]
        (folder,) = {Path(place).relative_to(tmp_path).parts[0] for place in places if place.startswith(str(tmp_path))}
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
    assert found == [None, None]
    assert sys.path == before
    assert [path.name for path in tmp_path.iterdir()] == ["dask-scratch-space"]


def test_without_cryptography_no_cluster_is_started(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingExtraError, match=r'a cluster on this machine needs .*: pip install "pbos\[dask\]"'):
        connect("local").__enter__()


def test_workers_leave_ctrl_c_to_this_process(client):
    assert set(client.run(signal.getsignal, signal.SIGINT).values()) == {signal.SIG_IGN}


def test_an_address_that_needs_other_credentials(client, capfd):
    address, config = client.scheduler.address, "distributed.comm.tls"
    other = Security.temporary().get_tls_config_for_role("client")
    lacking = {"ca-file": None, "client": {"cert": None, "key": None}, "ciphers": None}
    for wrong, what in (
        ({**lacking, "ca-file": other["ca_file"], "client": {"cert": other["cert"], "key": other["key"]}}, "not match"),
        (lacking, "TLS expects"),
    ):
        with dask.config.set({config: {**dask.config.get(config), **wrong}}), pytest.raises(ClusterError) as caught:
            connect(address).__enter__()
        message = str(caught.value)
        assert message.startswith(f"no Dask scheduler answers at {address} (TLS") and what in message
        assert message.endswith("; check distributed.comm.tls in Dask's configuration")
    assert capfd.readouterr().err == ""
    with connect(address) as pool:
        assert pool.map("square", square, [3]) == [9]


# -- losses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [killed_once, fails_once])
def test_a_part_runs_again(workers, tmp_path, part):
    found = workers.map("again", functools.partial(part, tmp_path / "marker"), range(8))
    assert found == [number * number for number in range(8)]
    assert (tmp_path / "marker").exists()


def test_workers_come_and_go(client, local, workers):
    done = []

    def on_done(number):
        done.append(number)
        if len(done) in (3, 30):
            local.scale(3 if len(done) == 3 else 2)

    assert workers.map("slow", slow, range(100), on_done) == list(range(100))
    # Later tests need workers that stay: those that run are those wanted, and the scheduler knows no others.
    wait_for(lambda: local.workers.keys() == local.worker_spec.keys() and len(known_to(client)) == 2)


def known_to(client):
    return client.scheduler_info()["workers"]


def test_results_that_are_lost_with_their_workers_are_made_again(client, workers):
    pids = list(client.run(os.getpid, on_error="ignore").values())  # not of a worker that is just leaving

    def on_done(result):
        if pids:
            time.sleep(0.5)  # until the other parts are done too
            while pids:
                os.kill(pids.pop(), signal.SIGKILL)
            time.sleep(0.5)  # until the scheduler knows

    assert workers.map("square", square, range(8), on_done) == [number * number for number in range(8)]


def test_a_part_that_kills_its_workers(workers, capfd):
    with pytest.raises(ClusterError, match="workers were lost repeatedly during dangerous; they may need more"):
        workers.map("dangerous", killed_always, [1])
    assert capfd.readouterr().err == ""


def test_an_interruption_cancels_what_has_not_begun(client, workers, tmp_path):
    def on_done(number):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workers.map("held", functools.partial(held, tmp_path), range(200), on_done)
    (tmp_path / "go").touch()
    wait_for(lambda: not any(client.processing().values()))
    assert len(list(tmp_path.iterdir())) < 100


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1])
def test_an_error_on_purpose_comes_back_unchanged_and_at_once(workers, tmp_path, capfd, number):
    with pytest.raises(PbosError) as here:
        refused(tmp_path, number)
    with pytest.raises(type(here.value)) as there:
        workers.map("refused", functools.partial(refused, tmp_path), [number])
    assert str(there.value) == str(here.value)
    assert len(list(tmp_path.iterdir())) == 2  # one here and one there: it was not tried again
    assert capfd.readouterr().err == ""


def test_every_error_can_be_sent():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PbosError)]
    assert len(kinds) > 5
    for kind in kinds:
        error = kind(*["x", "dask"][: 2 if kind is MissingExtraError else 1])
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy)) == (kind, str(error))


def test_other_errors(workers):
    with pytest.raises(ZeroDivisionError):
        workers.map("divide", lambda number: 1 / number, [1, 0])
    with pytest.raises(ClusterError, match="a worker cannot find /no/such/file; workers need the same files"):
        workers.map("files", no_such_file, [1])
    strange = RuntimeError("This frequently\noccurs if the Scheduler and Client have different environments.")
    assert "the scheduler cannot read the parts of strange; install pbos" in str(failure("strange", strange))


@pytest.mark.parametrize(("found", "what"), [("0.0.9", "has pbos 0.0.9"), (ModuleNotFoundError("x"), "has no pbos")])
def test_workers_with_another_pbos_are_refused(client, monkeypatch, found, what):
    monkeypatch.setattr(client, "run", lambda *_, **__: {"tcp://a:1": pbos.__version__, "tcp://b:2": found})
    with pytest.raises(ClusterError, match=f"the worker at tcp://b:2 {what}; install pbos {pbos.__version__} on all"):
        Workers(client)


def test_no_scheduler_and_no_workers(monkeypatch, capfd):
    with monkeypatch.context() as patch:
        wait = Client.wait_for_workers
        patch.setattr(Client, "wait_for_workers", lambda self, number, timeout: wait(self, number, timeout=0.3))
        none = pytest.raises(ClusterError, match=r"the scheduler at \S+ has no workers; start some with: dask worker")
        with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty, none:
            connect(empty.scheduler_address).__enter__()
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    for address in ("tcp://127.0.0.1:1", "nonsense:::"):
        with pytest.raises(ClusterError, match=f"no Dask scheduler answers at {address} .*; start one, or use local"):
            connect(address).__enter__()
        assert not [kept for kept in gc.get_objects() if isinstance(kept, Client) and kept.status == "connecting"]
    assert capfd.readouterr().err == ""
