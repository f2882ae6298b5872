"""The outermost layer of the application: it decides which requests get in, and answers every request."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from anyio import CancelScope, fail_after, sleep_forever
from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pbos.errors import InputError, shortened
from pbos.server.schemas import Limits

# The page loads only its own files, cannot be framed, and sends data nowhere else.
HEADERS = Headers(
    {
        "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-cache",
    }
)
PIECE = 1 << 16  # bytes of an answer that are handed over at a time
WEIGHT = 8192  # bytes of a body that count as one more request
WITHOUT_TOKEN = {"/", "/docs", "/openapi.json"}  # and health and static files
log = logging.getLogger("pbos.server")


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response for an error: all errors have the same shape."""
    return JSONResponse({"status": status, "error": shortened(sentence)}, status, headers)


@dataclass
class Load:
    """What the server is busy with."""

    limits: Limits
    requests: int = 0  # that run or wait for a thread; long ones count more than once
    held: int = 0  # bytes of bodies and answers in memory

    @property
    def full(self) -> bool:
        """Whether further requests are refused."""
        return self.requests >= self.limits.requests or self.held >= self.limits.held_bytes

    def check(self) -> None:
        """Refuse a request if the server is full."""
        if self.full:
            raise HTTPException(429, "the server is too busy; try again later", {"retry-after": "1"})


class RequestGuard:
    """An ASGI middleware: checks the host and the token, reads bodies within limits, adds headers, hides failures."""

    def __init__(self, app: ASGIApp, load: Load, hosts: Iterable[str] | None = None, token: str | None = None) -> None:
        self.app, self.load, self.limits = app, load, load.limits
        self.hosts = None if hosts is None else {"localhost", *(name.lower() for name in hosts)}
        self.token = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method, answer, failure = scope["method"], Answer(send, self.load), None
        try:
            # HEAD is GET to the application; the server leaves out the body.
            await self.handle({**scope, "method": "GET" if method == "HEAD" else method}, receive, answer)
        except ClientDisconnect:
            pass
        except HTTPException as refusal:
            failure = error_response(refusal.status_code, refusal.detail, refusal.headers)
        except InputError as error:  # words that pbos does not accept
            failure = error_response(422, str(error))
        except asyncio.CancelledError:  # the server was stopped, and does not wait any longer
            failure = error_response(503, "the server was stopped")
        except Exception as error:
            frames = "".join(traceback.format_tb(error.__traceback__))  # without its message, which may contain words
            log.error("%s %r failed with %s\n%s", method, scope["path"], type(error).__name__, frames)
            failure = error_response(500, "the server failed on this request; see its log for details")
        finally:
            self.load.held -= answer.held
        if failure is not None and not answer.started:
            await failure(scope, receive, answer)

    async def handle(self, scope: Scope, receive: Receive, answer: Answer) -> None:
        """Let a request in or refuse it; cancel it when its client is gone."""
        request, path = Request(scope, receive), scope["path"].removeprefix(scope.get("root_path", ""))
        self.check_host(request.headers.get("host", ""))
        if path.startswith("/health"):
            await self.app(scope, receive, answer)
            return
        token = None if path in WITHOUT_TOKEN or path.startswith("/static/") else self.token
        given = request.headers.get("authorization", "").encode("latin-1")
        if token is not None and not hmac.compare_digest(given, token):
            sentence = "this server needs a token: send Authorization: Bearer TOKEN, or open the page with #token=TOKEN"
            raise HTTPException(401, sentence, {"www-authenticate": "Bearer"})
        self.load.check()
        body = await self.read(request, answer)
        weight = 1 + len(body) // WEIGHT
        unread: list[Message] = [{"type": "http.request", "body": body}]

        async def receive_body() -> Message:
            while not unread:
                await sleep_forever()
            return unread.pop()

        with CancelScope() as running:
            watcher = asyncio.create_task(cancel_without_client(running, receive))
            self.load.requests += weight
            try:
                await self.app(scope, receive_body, answer)
            except asyncio.CancelledError:  # by the server: the thread that works on it should stop too
                running.cancel()
                raise
            finally:
                self.load.requests -= weight
                watcher.cancel()

    async def read(self, request: Request, answer: Answer) -> bytes:
        """Read the body of a request within limits of its length and time."""
        most, seconds, body = self.limits.body_bytes, self.limits.body_seconds, bytearray()
        if {"content-length", "transfer-encoding"} <= set(request.headers):  # proxies disagree on where the body ends
            sentence = "the request has both Content-Length and Transfer-Encoding; send one of them"
            raise HTTPException(400, sentence, {"connection": "close"})
        too_long = HTTPException(413, f"the body is longer than {most:,} bytes; send fewer words at a time")
        if int(request.headers.get("content-length", 0)) > most:
            raise too_long
        try:
            with fail_after(seconds):
                async for piece in request.stream():
                    answer.hold(len(piece))
                    self.load.check()
                    body += piece
                    if len(body) > most:
                        raise too_long
        except TimeoutError:
            sentence = f"the body did not arrive within {seconds:g} seconds"
            raise HTTPException(408, sentence, {"connection": "close"}) from None
        return bytes(body)

    def check_host(self, host: str) -> None:
        """Refuse requests for names that are not ours, so that no other site can pose as this one (DNS rebinding)."""
        if self.hosts is None:
            return
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name not in self.hosts:
                ipaddress.ip_address(name)  # an address needs no DNS
        except ValueError:
            sentence = "the server does not answer for this Host; start it with --allow-host NAME if it should"
            raise HTTPException(421, sentence) from None


@dataclass
class Answer:
    """Sends the response to a request: with the headers that all have, and a long body piece by piece.

    The server takes a piece when the client has taken the last ones, so it does not keep the rest twice.
    """

    send: Send
    load: Load
    held: int = 0  # bytes of the body and of the answer in memory
    started: bool = False

    def hold(self, n_bytes: int) -> None:
        """Count bytes as held until the request ends."""
        self.held += n_bytes
        self.load.held += n_bytes

    async def __call__(self, message: Message) -> None:
        """Send a message."""
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message["headers"], *HEADERS.raw]
        body, sent = message.get("body", b""), 0
        if len(body) > PIECE:
            self.hold(len(body))
        while len(body) - sent > PIECE:
            await self.send({**message, "body": body[sent : sent + PIECE], "more_body": True})
            await asyncio.sleep(0)  # others get their turn
            sent += PIECE
        await self.send({**message, "body": body[sent:]} if sent else message)


async def cancel_without_client(running: CancelScope, receive: Receive) -> None:
    """Cancel what runs when its client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    running.cancel()
