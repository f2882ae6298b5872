"""The outermost layer of the application: it decides which requests get in, and answers every request."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import threading
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pbos.errors import shortened
from pbos.server.schemas import Limits

# The page loads only its own files, cannot be framed, and sends data nowhere else.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
PIECE = 1 << 16  # bytes of an answer that are handed over at a time
WEIGHT = 8192  # bytes of a body that count as one more request
WITHOUT_TOKEN = {"/", "/docs", "/openapi.json", "/health", "/health/live", "/health/ready"}
log = logging.getLogger("pbos.server")


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response for an error: all errors have the same shape."""
    return JSONResponse({"status": status, "error": shortened(sentence)}, status, headers)


class Abandoned(Exception):
    """The client of the running request is gone, or the server stops: nobody waits for the result."""


_abandoned: ContextVar[threading.Event] = ContextVar("abandoned")


def stop_if_abandoned() -> None:
    """Raise Abandoned if nobody waits for the result of the running request; for threads, between steps."""
    event = _abandoned.get(None)
    if event is not None and event.is_set():
        raise Abandoned


class Refusal(Exception):
    """A request that does not get in; with the arguments of `error_response`."""


class Load:
    """What the server is busy with.

    Attributes:
        requests: How many requests run or wait for a thread; long ones count more than once.
        held: The bytes of bodies and answers in memory.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.requests, self.held = limits, 0, 0

    @property
    def full(self) -> bool:
        """Whether further requests are refused."""
        return self.requests >= self.limits.requests or self.held >= self.limits.held_bytes

    def check(self) -> None:
        """Refuse a request if the server is full."""
        if self.full:
            raise Refusal(429, "the server has too much to do; try again later", {"retry-after": "1"})


class RequestGuard:
    """An ASGI middleware: checks the host and the token, reads bodies within limits, adds headers, hides failures."""

    def __init__(self, app: ASGIApp, load: Load, hosts: Iterable[str] | None = None, token: str | None = None) -> None:
        self.app, self.load, self.limits = app, load, load.limits
        self.hosts = None if hosts is None else {name.lower() for name in hosts}
        self.token = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = Answer(send, self.load, with_body=scope["method"] != "HEAD")
        try:
            await self.handle(scope if answer.with_body else {**scope, "method": "GET"}, receive, answer)
        except Refusal as refusal:
            await error_response(*refusal.args)(scope, receive, answer)
        except Abandoned:
            pass
        except asyncio.CancelledError:  # by the server, when requests are not done in time after it was stopped
            if not answer.started:
                await error_response(503, "the server was stopped")(scope, receive, answer)
        except Exception as error:
            frames = "".join(traceback.format_tb(error.__traceback__))  # without its message, which may contain words
            log.error("%s %r failed with %s\n%s", scope["method"], scope["path"], type(error).__name__, frames)
            if not answer.started:
                sentence = "the server failed on this request; see its log for details"
                await error_response(500, sentence)(scope, receive, answer)
        finally:
            self.load.held -= answer.held

    async def handle(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        """Let a request in or refuse it, and tell the threads that work on it when its client is gone."""
        headers, path = Headers(scope=scope), scope["path"].removeprefix(scope.get("root_path", ""))
        self.check_host(headers.get("host", ""))
        if path.startswith("/health"):
            await self.app(scope, receive, answer)
            return
        if path not in WITHOUT_TOKEN and not path.startswith("/static/"):
            self.check_token(headers.get("authorization", ""))
        self.load.check()
        body = b""
        if "content-length" in headers and "transfer-encoding" in headers:  # proxies disagree on where the body ends
            sentence = "the request has both Content-Length and Transfer-Encoding; send one of them"
            raise Refusal(400, sentence, {"connection": "close"})
        if "content-length" in headers or "transfer-encoding" in headers:
            try:
                body = await asyncio.wait_for(self.read(headers, receive, answer), self.limits.body_seconds)
            except asyncio.TimeoutError:
                sentence = f"the body did not arrive within {self.limits.body_seconds:g} seconds"
                raise Refusal(408, sentence, {"connection": "close"}) from None
            self.load.check()
        _abandoned.set(answer.disconnected)
        watcher = asyncio.create_task(wait_for_the_end(receive, answer.disconnected))
        weight = 1 + len(body) // WEIGHT
        self.load.requests += weight
        try:
            await self.app(scope, replay(body), answer)
        finally:
            self.load.requests -= weight
            answer.disconnected.set()
            watcher.cancel()

    async def read(self, headers: Headers, receive: Receive, answer: Answer) -> bytes:
        """Read the body of a request. What is too long is not kept."""
        most, length = self.limits.body_bytes, headers.get("content-length", "0")
        size = int(length[:20]) if length.isdecimal() else most + 1
        body, more = bytearray(), True
        while more and size <= most:
            self.load.check()
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Abandoned
            piece, more = message.get("body", b""), message.get("more_body", False)
            body += piece
            answer.hold(len(piece))
            size = max(size, len(body))
        if size > most:
            raise Refusal(413, f"the body is longer than {most:,} bytes; send fewer words at a time")
        return bytes(body)

    def check_host(self, host: str) -> None:
        """Refuse requests for names that are not ours, so that no other site can pose as this one (DNS rebinding)."""
        if self.hosts is None:
            return
        with suppress(ValueError):
            name = urlsplit(f"//{host}").hostname or ""
            if name == "localhost" or name in self.hosts:
                return
            ipaddress.ip_address(name)  # an address needs no DNS
            return
        raise Refusal(421, "the server does not answer for this Host; start it with --allow-host NAME if it should")

    def check_token(self, authorization: str) -> None:
        """Refuse requests without the token, if there is one."""
        if self.token is not None and not hmac.compare_digest(authorization.encode("latin-1"), self.token):
            sentence = "this server needs a token: send Authorization: Bearer TOKEN, or open the page with #token=TOKEN"
            raise Refusal(401, sentence, {"www-authenticate": "Bearer"})


class Answer:
    """Sends the response to a request: with the headers that all have, and piece by piece.

    A server that takes a piece only when the client took the last ones does not keep the rest twice. Others get their
    turn between pieces.

    Attributes:
        with_body: Whether to send the body; not for HEAD, which is answered as GET otherwise.
        started: Whether something was sent.
        held: The bytes of its body and its answer in memory.
        disconnected: Set when nobody waits for the answer any more.
    """

    def __init__(self, send: Send, load: Load, with_body: bool = True) -> None:
        self.send, self.load, self.with_body = send, load, with_body
        self.held, self.started, self.disconnected = 0, False, threading.Event()

    def hold(self, n_bytes: int) -> None:
        """Count bytes as held until the request ends."""
        self.held += n_bytes
        self.load.held += n_bytes

    async def __call__(self, message: Message) -> None:
        """Send a message."""
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message["headers"], *RAW_HEADERS]
        if not self.with_body and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        body = message.get("body", b"")
        if len(body) > PIECE:
            self.hold(len(body))
            last = len(body) - PIECE
            for first in range(0, last, PIECE):
                await self.send({**message, "body": bytes(body[first : first + PIECE]), "more_body": True})
                await asyncio.sleep(0)
                if self.disconnected.is_set():
                    raise Abandoned
            message = {**message, "body": bytes(body[first + PIECE :])}
        await self.send(message)


def replay(body: bytes) -> Receive:
    """Return a `receive` for a body that was read."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()  # until the request ends: its end is the watcher's business
        return messages.pop()

    return receive


async def wait_for_the_end(receive: Receive, disconnected: threading.Event) -> None:
    """Set an event when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnected.set()
