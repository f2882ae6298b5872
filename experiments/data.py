"""The data of the experiments: target vectors, word counts, word pairs, a corpus.

Published tables are where `python -m experiments real-data` writes them; everything else is in the data folder.
docs/evaluation-data.md lists both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from experiments import datasets, real_data
from pbos.errors import InputError
from pbos.evaluation.datasets import Pair, read_pairs
from pbos.tables.counts import WordCounts
from pbos.tables.word_vectors import WordVectors

ENGLISH = (*datasets.ENGLISH, "MEN", "MTurk-771")
RUSSIAN = tuple(f"{kind}-ru" for kind in datasets.MULTILINGUAL_KINDS)
PAIRS = {  # in the folder `similarity` of the published tables; TR9856 is for development, no table reports it
    "MEN": "MEN_dataset_natural_form_full.tsv",
    "MTurk-771": "MTURK-771.tsv",
    "TR9856": "TermRelatednessResults.tsv",
}


class MissingData(InputError):
    """Something has to be fetched or computed elsewhere first; the rows that need it are skipped."""


def is_published(name: str) -> bool:
    """Return whether a name is that of a published table, not of the data folder."""
    return name in real_data.ITEMS


def published(name: str) -> Path:
    """Return the folder of a published table."""
    folder = real_data.FOLDER / name
    if not folder.exists():
        raise MissingData(f"{folder} does not exist; `python -m experiments real-data {name}` fetches it")
    return folder


def source(name: str) -> dict[str, Any]:
    """Return where a published table comes from: package, digest, license."""
    found: dict[str, Any] = json.loads((published(name) / "source.json").read_text(encoding="utf-8"))
    return found


def vectors(name: str, data: Path, *, limit: int | None = None) -> WordVectors:
    """Read target vectors, most frequent word first; the first `limit` words if given.

    Of GloVe, only plain words are kept: ASCII letters in lower case.
    """
    if not is_published(name):
        return WordVectors.read(data / "vectors" / name, limit=limit, progress=False)
    if not name.startswith("glove-6b"):
        return WordVectors.read(published(name), limit=limit, progress=False)
    whole = WordVectors.read(published(name), progress=False)
    rows = [row for row, word in enumerate(whole.words) if is_plain(word)][:limit]
    return WordVectors([whole.words[row] for row in rows], whole.vectors[rows])


def is_plain(word: str) -> bool:
    """Return whether a word consists of ASCII letters in lower case.

    >>> [word for word in ["house", "House", "naïve", "3d", "u.s."] if is_plain(word)]
    ['house']
    """
    return word.isascii() and word.isalpha() and word.islower()


def pairs(name: str, data: Path) -> list[Pair]:
    """Return a similarity set, by the names of `experiments.datasets` or of PAIRS."""
    if name in PAIRS:
        return read_pairs(published("similarity") / PAIRS[name])
    return datasets.pairs(name, data)


def own_counts(name: str, data: Path) -> WordCounts | None:
    """Read the word counts beside target vectors, from the same text; None if there are none."""
    folder = published(name) if is_published(name) else data / "vectors" / name
    file = folder / "counts.tsv.gz"
    return WordCounts.read(file) if file.exists() else None


def paper_counts(data: Path) -> WordCounts:
    """Read the counts of English words that the paper uses."""
    return WordCounts.read(data / "unigram_freq.csv")


def corpus(data: Path) -> Path:
    """Return the file of English novels, one paragraph per line."""
    return data / "corpus" / "novels-en.txt.gz"
