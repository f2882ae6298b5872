"""Runs the application with uvicorn."""

from __future__ import annotations

import errno
import logging
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import uvicorn
from fastapi import FastAPI

from pbos.errors import InputError

BACKLOG = 128  # connections that wait to be accepted
CONNECTIONS = 500  # more are too many
HEAD_SECONDS = 30  # until a connection has sent the (next) head of a request
BUSY_SECONDS = 1  # the same while there are too many connections
SEND_SECONDS = 60  # without progress, until an answer that the client does not take is dropped
STOP_SECONDS = 5  # for requests that run when the server is stopped
HEAD_BYTES = 16_384


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Done before the model loads: early requests wait, and a port in use fails at once."""
    if not host:  # which means all addresses to a socket
        raise InputError("--host is empty; name an address: 127.0.0.1, or 0.0.0.0 to accept other machines")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: f"port {port} is in use on {host}; choose another with --port",
            errno.EACCES: f"you do not have permission to use port {port}; choose one from 1024 up with --port",
        }
        other = f"{host} is not an address of this machine; choose another with --host"
        raise InputError(reasons.get(error.errno or 0, other)) from None
    # Connections inherit both. asyncio sets the first only on sockets of its own; without it answers wait for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * SEND_SECONDS)
    return listener


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until interrupted."""
    # Not a line for each connection that cannot be accepted while files have run out.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        log_level="critical",  # not a line for every request that is not HTTP; the gate logs failures
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=HEAD_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has stopped
        Server(config).run(sockets=[listener])


class Server(uvicorn.Server):
    """A server that closes connections without a request; uvicorn waits for the end of the first head for ever."""

    waiting: Mapping[tuple[Any, Any], float] = MappingProxyType({})  # since when connections wait, after which request

    async def on_tick(self, counter: int) -> bool:
        """Close the connections that have waited too long; ten times a second."""
        now, connections = time.monotonic(), list[Any](self.server_state.connections)
        idle = [(one, one.cycle) for one in connections if one.cycle is None or one.cycle.response_complete]
        self.waiting = {key: self.waiting.get(key, now) for key in idle}
        patience = HEAD_SECONDS if len(connections) <= CONNECTIONS else BUSY_SECONDS
        for (connection, _), since in self.waiting.items():
            if now - since > patience:
                connection.transport.close()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that stop it, but Ctrl-C not if it is ignored, as for a job in the background."""
        ctrl_c = signal.getsignal(signal.SIGINT)
        with super().capture_signals():
            if ctrl_c == signal.SIG_IGN:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            yield
