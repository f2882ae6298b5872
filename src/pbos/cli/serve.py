"""The command `pbos serve` (extra `serve`)."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from typer import Option

import pbos
from pbos.cli import Interrupted, options
from pbos.cli.common import note, write
from pbos.errors import InputError, MissingExtraError


def serve(
    model: options.Model = None,
    host: Annotated[
        str, Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 accepts other machines too.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, metavar="N", help="Port; 0 picks a free one.")] = 8000,
    allow_host: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Name that clients use for the server, such as pbos.example.org; can be repeated."),
    ] = None,
    token: Annotated[
        str | None,
        Option(envvar="PBOS_TOKEN", metavar="TOKEN", help="What clients must send as 'Authorization: Bearer TOKEN'."),
    ] = None,
    open: Annotated[bool, Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a web page that explains words, and a REST API.

    \b
    Examples:
      pbos serve --open
      pbos serve -m my-model --port 8080
      curl 'http://127.0.0.1:8000/segment?word=unfriendliest&n=3'
    """
    # Products of matrices in one thread each: requests share the cores, and threads of one would wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported
    try:
        from pbos.server.run import listen, run
    except ModuleNotFoundError:
        raise MissingExtraError("pbos serve", "serve") from None
    from pbos.server import make_app

    for name in allow_host or ():
        if "/" in name or ":" in name:
            raise InputError(f"--allow-host {name}: give only the name, without http://, a port or a path")
    token = os.environ.get("PBOS_TOKEN") if token is None else token  # typer passes over one that is set but empty
    with listen(host, port) as listener:
        given = None if model is None else pbos.load(model)
        title = None if model is None else Path(model).resolve().name
        app = make_app(given, name=title, hosts=[host, *(allow_host or [])], token=token)
        address, port = listener.getsockname()[:2]
        url = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
        write(f"{url}  (API: {url}/docs; stop with Ctrl-C)")
        sys.stdout.flush()
        if open:
            import webbrowser

            if not webbrowser.open(url if token is None else f"{url}#token={quote(token)}"):
                note("no browser found; open the address above yourself")
        with suppress(Interrupted):  # uvicorn sends the signal again after it has stopped
            run(app, listener)
        note("stopped")
