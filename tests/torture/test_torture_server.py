"""A few of the attacks of torture/server.py."""

import signal
import socket
import sys
import time
from contextlib import ExitStack

import pytest

if sys.platform != "linux":
    pytest.skip("needs /proc", allow_module_level=True)
attacks = pytest.importorskip("torture.server")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def server():
    with attacks.served(short=False) as server:
        yield server


def test_broken_requests(server):
    assert sum(attacks.garbage(server, 50, seed=1).values()) == 50


def test_oversize_requests(server):
    attacks.oversize(server, [3 << 20])


def test_stuffed_bodies(server):
    attacks.stuffed(server, 8)


def test_more_slow_connections_than_files():
    with attacks.served() as server:
        attacks.slow(server, 320)


def test_as_many_unfinished_bodies_as_connections(server):
    """They have twenty seconds, but a new client does not wait for them."""
    with ExitStack() as stack:
        for _ in range(64):  # as many as the server keeps
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            connection.sendall(attacks.WHOLE[2][:-5])
        time.sleep(0.5)  # so that the server has seen that they have begun
        attacks.check_alive(server, "unfinished bodies")


def test_abandoned_requests(server):
    attacks.abandoned(server, 8, seed=1)


def test_load_within_limits(server):
    given = attacks.load(server, attacks.request("GET", "/neighbors?word=unfriendliest"), 16, 0.5)
    assert set(given.statuses) == {200}


def test_a_server_that_is_stopped_finishes_what_runs(server):
    """The last test: it stops the server."""
    attacks.stopped(server)
    assert server.log.read_text() == ""
    assert server.process.returncode in (0, -15)


def test_a_server_stops_where_ctrl_c_is_ignored(monkeypatch):
    """As in a job in the background of a script: the server ignores Ctrl-C then, so attacks end it with SIGTERM."""
    monkeypatch.setattr(attacks, "PATIENCE", 60)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with attacks.served(short=False) as server:
            pass
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert server.process.returncode == -signal.SIGTERM
