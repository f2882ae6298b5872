"""The data of the experiments beside the public benchmarks: target vectors, word counts, a corpus.

They are looked for in the data folder only; docs/evaluation-data.md lists them.
"""

from __future__ import annotations

from pathlib import Path

from pbos.counts import WordCounts
from pbos.vectors import WordVectors


def vectors(name: str, data: Path, *, limit: int | None = None) -> WordVectors:
    """Read target vectors, most frequent word first; the first `limit` words if given."""
    return WordVectors.read(data / "vectors" / name, limit=limit, progress=False)


def own_counts(name: str, data: Path) -> WordCounts | None:
    """Read the word counts beside target vectors, from the same text; None if there are none."""
    file = data / "vectors" / name / "counts.tsv.gz"
    return WordCounts.read(file) if file.exists() else None


def paper_counts(data: Path) -> WordCounts:
    """Read the counts of English words that the paper uses."""
    return WordCounts.read(data / "unigram_freq.csv")


def corpus(data: Path) -> Path:
    """Return the file of English novels, one paragraph per line."""
    return data / "corpus" / "novels-en.txt.gz"
