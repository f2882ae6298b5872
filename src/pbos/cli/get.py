"""The command `pbos get`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

import pbos
from pbos.cli import options
from pbos.cli.common import write, write_json
from pbos.cli.files import check_output, note_saved
from pbos.errors import InputError


def names() -> list[str]:
    """Return the names of all vectors."""
    from pbos.tables import published

    return [table.name for table in published.tables()]


def get(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="The vectors; without a name, list all.", autocompletion=names)
    ] = None,
    output: Annotated[
        str | None, Option("-o", "--output", metavar="FOLDER", help="Train a model and save it here.")
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
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
        note_saved(pbos.train(path, counts if counts.exists() else None, output=output), output)
    elif json:
        write_json({"name": name, "path": str(path)})
    else:
        write(str(path))
