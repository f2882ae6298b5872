"""The command `pbos serve` (extra `serve`)."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from pbos.cli import Interrupted
from pbos.cli.common import ModelOption, load_model, note, prepare, write


def serve(
    model: ModelOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines too.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8000,
    open: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a web page that explains words, and a REST API.

    \b
    Examples:
      pbos serve --open
      pbos serve -m my-model --port 8080
      curl 'http://127.0.0.1:8000/segment?word=unfriendliest&n=3'
    """
    from pbos.errors import MissingExtraError

    try:
        from pbos.server.run import listen, run, url_of
    except ModuleNotFoundError:
        raise MissingExtraError("pbos serve", "serve") from None
    prepare()
    from pbos.server import make_app

    with listen(host, port) as listener:
        app = make_app() if model is None else make_app(load_model(model), name=Path(model).resolve().name)
        url = url_of(listener)
        write(f"{url}  (API: {url}/docs; stop with Ctrl-C)")
        sys.stdout.flush()
        if open:
            import webbrowser

            if not webbrowser.open(url):
                note("no browser found; open the address above yourself")
        with suppress(Interrupted):  # uvicorn sends the signal again after it has stopped
            run(app, listener)
        note("stopped")
