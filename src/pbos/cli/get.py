"""The command `pbos get`."""

from __future__ import annotations

from typing import Annotated

import typer

from pbos.cli.common import JsonOption, offer, write, write_json
from pbos.cli.files import ForceOption, check_output, train
from pbos.errors import InputError


def names() -> list[str]:
    """Return the names of all vectors."""
    from pbos.tables import published

    return [table.name for table in published.tables()]


def get(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The vectors; without a name, list all.", autocompletion=offer(names)),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FOLDER", help="Train a model on them and save it here.")
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Download published word vectors by name.

    Checks them and prints their path. They are kept in ~/.cache/pbos, or in the folder that PBOS_CACHE names. An
    interrupted download goes on where it was. With --output, a model is trained on them with default settings; for
    others, use `pbos train`.

    \b
    Examples:
      pbos get
      pbos get glove-6b-100d -o glove-model
      pbos get fasttext-crawl-de
      pbos train "$(pbos get polyglot-tr)" --preset pbos -o turkish-model
    """
    from pbos.tables import published

    if output is None and force:
        raise InputError("--force replaces a model; give its folder with --output")
    if output is not None and (name is None or json):
        raise InputError("--output trains a model; give the NAME of vectors, and leave out --json")
    if name is None:
        for table in published.tables():
            if json:
                write_json(
                    {"name": table.name, "description": table.about, "license": table.license, "page": table.page}
                )
            else:
                write(f"{table.name:<20} {table.about} ({table.license})")
        return
    if output is not None:
        check_output(output, replace=force)  # before a download
    path = published.get(name)
    if output is not None:
        counts = path / "counts.tsv.gz"
        train(vectors=str(path), output=output, force=force, counts=str(counts) if counts.exists() else None)
    elif json:
        write_json({"name": name, "path": str(path)})
    else:
        write(str(path))
