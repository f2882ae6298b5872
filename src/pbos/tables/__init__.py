"""Word counts and word vectors, in and out of files; published ones too."""

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
