"""Runs the application on a local address, with uvicorn."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from pbos.errors import InputError

BACKLOG = 128  # connections that wait to be accepted
CONNECTIONS = 1000  # open at a time; fewer if the process may not open as many files
HEAD_SECONDS = 30  # until a connection has sent the (next) head of a request
SEND_SECONDS = 60  # until a client has taken an answer
STOP_SECONDS = 5  # for requests that run when the server is stopped
HEAD_BYTES = 16_384
log = logging.getLogger("pbos.server")


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Done before the model loads: early requests wait, and a port in use fails at once."""
    if not host:  # which means all addresses to a socket
        raise InputError("--host is empty; name an address: 127.0.0.1, or 0.0.0.0 to let in other machines")
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
    # Connections take this on. asyncio leaves it out for sockets that it has not made, and answers would wait 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(
        app,
        http=Connection,
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


def most_connections() -> int:
    """Return how many connections may be open: some files are for other things, and for those not accepted yet."""
    try:
        import resource
    except ImportError:  # Windows
        return CONNECTIONS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(8, min(CONNECTIONS, files - BACKLOG - 64)) if files >= 0 else CONNECTIONS


class Connection(H11Protocol):
    """A connection of uvicorn that makes room for others, and does not wait for ever."""

    waiting: dict[Connection, float] = {}  # noqa: RUF012 (for all): those without a running request, longest first
    most = 0
    sending_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request. If there are too many connections, one has to go."""
        super().connection_made(transport)
        self.wait()
        if len(self.connections) > self.most:
            self.least_needed().drop()

    def least_needed(self) -> Connection:
        """Return the other connection that has waited longest or, if none waits, that has been taking longest."""
        if (first := next(iter(self.waiting))) is not self:
            return first
        all_of_them = [one for one in self.connections if isinstance(one, Connection)]
        for one in all_of_them:
            one.note_sending(self.loop.time())
        sending = {one: one.sending_since for one in all_of_them if one.sending_since is not None}
        return min(sending, key=sending.__getitem__, default=self)

    def data_received(self, data: bytes) -> None:
        """Handle what the client sent. Until the whole body of a request is there, the connection waits for more."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.waiting.pop(self, None)
            if self.conn.their_state is h11.SEND_BODY:
                self.wait()

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        self.wait()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def wait(self) -> None:
        """Note since when the connection waits for a request."""
        self.waiting.pop(self, None)
        if not self.transport.is_closing():
            self.waiting[self] = self.loop.time()

    def drop(self) -> None:
        """Close the connection at once."""
        self.waiting.pop(self, None)
        self.connections.discard(self)
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, unless an answer to an earlier request is under way."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()
            return
        body = b'{"status":400,"error":"this is not a valid HTTP request"}'
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        self.transport.close()

    def note_sending(self, now: float) -> None:
        """Note since when the client has been taking an answer."""
        if not self.transport.get_write_buffer_size():
            self.sending_since = None
        elif self.sending_since is None:
            self.sending_since = now

    def check_time(self, now: float) -> None:
        """Close the connection if its client does not take the answer."""
        self.note_sending(now)
        if self.sending_since is not None and now - self.sending_since > SEND_SECONDS:
            self.drop()


class Server(uvicorn.Server):
    """A server of uvicorn that closes connections which take too long."""

    complained = float("-inf")  # when it last logged a problem

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that stop it, but Ctrl-C not if it is ignored, as for a job in the background."""
        ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        with super().capture_signals():
            if ignored:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        Connection.most = most_connections()
        asyncio.get_running_loop().set_exception_handler(self.complain)
        await super().startup(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Do what is to be done ten times a second."""
        now = asyncio.get_running_loop().time()
        for connection, since in list(Connection.waiting.items()):
            if now - since <= HEAD_SECONDS:
                break  # the others wait less long
            connection.drop()
        if counter % 10 == 0:
            for one in list(self.server_state.connections):
                if isinstance(one, Connection):
                    one.check_time(now)
        return await super().on_tick(counter)

    def complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a problem of the event loop, without data; once a minute, as it is always the same if files run out."""
        if loop.time() - self.complained > 60:
            self.complained = loop.time()
            log.error("%s: %s", context.get("message"), type(context.get("exception")).__name__)
