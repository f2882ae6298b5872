"""Running the application on an address of this machine."""

from __future__ import annotations

import errno
import socket

import uvicorn
from fastapi import FastAPI

from pbos.errors import InputError

GRACE = 5  # seconds that requests under way have when the server is told to stop


def listen(host: str, port: int) -> socket.socket:
    """Take an address before the model is loaded: who asks too early waits, and a taken port is known at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise InputError(f"{host} is no address of this machine; choose another with --host") from None
    listener = socket.socket(family, kind, protocol)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows, where SO_REUSEADDR would share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is in use on {host}; choose another with --port") from None
        if error.errno == errno.EACCES:
            raise InputError(f"port {port} needs more rights than you have; choose one from 1024 up") from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"{host} is no address of this machine; choose another with --host") from None
        raise
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=GRACE
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:  # which uvicorn raises again when it has stopped
        pass
    finally:
        listener.close()
