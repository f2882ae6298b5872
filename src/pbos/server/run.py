"""Runs the application on a local address."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

import uvicorn
from fastapi import FastAPI

from pbos.errors import InputError


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket. Done before the model loads: early requests wait, and a port in use fails at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        reasons = {
            errno.EADDRINUSE: f"port {port} is in use on {host}; choose another with --port",
            errno.EACCES: f"you do not have permission to use port {port}; choose one from 1024 up with --port",
        }
        other = f"{host} is not an address of this machine; choose another with --host"
        raise InputError(reasons.get(error.errno or 0, other)) from None


def url_of(listener: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=5)
    with suppress(KeyboardInterrupt):  # uvicorn raises it again after it has stopped
        uvicorn.Server(config).run(sockets=[listener])
