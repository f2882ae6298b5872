"""Word vectors: the class, the names of the file formats, and one module per kind of format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pbos.vectors.formats import FORMATS as FORMATS

if TYPE_CHECKING:
    from pbos.vectors.word_vectors import WordVectors as WordVectors


def __getattr__(name: str) -> Any:
    if name != "WordVectors":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pbos.vectors.word_vectors import WordVectors  # on first use: FORMATS alone needs no Numba

    return WordVectors
