"""What every request passes: a limit on its size, headers that keep browsers safe, a count, an answer in any case."""

from __future__ import annotations

import logging
import time
from typing import Any

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pbos.server.metrics import Metrics

# Everything comes from the server itself, and nothing of it can be framed or send data elsewhere.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
log = logging.getLogger("pbos.server")


def refusal(status: int, sentence: str) -> JSONResponse:
    """Return the one shape in which the server says that something is wrong."""
    return JSONResponse({"status": status, "error": sentence}, status)


class Gate:
    """An ASGI middleware."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: set[str], max_bytes: int) -> None:
        self.app = app
        self.metrics = metrics
        self.paths = paths
        self.max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, received = time.perf_counter(), 0, 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise HTTPException(
                    413, f"the body is longer than {self.max_bytes:,} bytes; send fewer words at a time"
                )
            return message

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *((k.encode(), v.encode()) for k, v in HEADERS.items())]
            await send(message)

        try:
            await self.app(scope, limited, counted)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not status:
                sentence = "the server failed on this request; its log says more"
                await refusal(500, sentence)(scope, receive, counted)
        finally:
            self.metrics.count_request(self._path(scope), status or 500, time.perf_counter() - began)

    def _path(self, scope: dict[str, Any] | Scope) -> str:
        """Return the path for the metrics: one of few, whatever is asked for."""
        path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
        if path.startswith("/static/"):
            return "/static"
        return path if path in self.paths else "other"
