"""Words and their counts or vectors, in and out of files; published ones too.

Files, URLs and what people have in memory come in; `WordVectors` and `WordCounts` come out, and can be written. Start
reading at `WordVectors.read`, then see formats.py: to add a format, add an entry and its functions. `published.get`
downloads the tables that catalog.py lists; columns.py reads the words of Parquet, Arrow and CSV files. This room
imports files, jobs, kernels and words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pbos.tables.formats import FORMATS as FORMATS

if TYPE_CHECKING:
    from pbos.tables.word_vectors import WordVectors as WordVectors


def __getattr__(name: str) -> Any:
    if name != "WordVectors":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pbos.tables.word_vectors import WordVectors  # on first use: FORMATS alone needs no Numba

    return WordVectors
