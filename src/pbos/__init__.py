"""A vector for every word, from the word vectors you already have and the word's spelling."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # to import typing would take longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from pbos.corpus import Cooccurrences as Cooccurrences
    from pbos.corpus.count import count as count
    from pbos.corpus.embed_files import embed_files as embed_files
    from pbos.errors import ClusterError as ClusterError
    from pbos.errors import FormatError as FormatError
    from pbos.errors import InputError as InputError
    from pbos.errors import MissingExtraError as MissingExtraError
    from pbos.errors import ModelError as ModelError
    from pbos.errors import PbosError as PbosError
    from pbos.errors import PbosWarning as PbosWarning
    from pbos.model import Model as Model
    from pbos.model import load as load
    from pbos.segmenter import Segmenter as Segmenter
    from pbos.settings import Settings as Settings
    from pbos.tables.counts import WordCounts as WordCounts
    from pbos.tables.word_vectors import WordVectors as WordVectors
    from pbos.training.complete import complete as complete
    from pbos.training.learn import learn as learn
    from pbos.training.train import train as train
    from pbos.words.arrays import cosines as cosines
    from pbos.words.explanation import Explanation as Explanation
    from pbos.words.lattice import Lattice as Lattice
    from pbos.words.lattice import Span as Span
    from pbos.words.subwords import Segmentation as Segmentation

__version__ = "0.2.0"

# The public names by module, imported on first use, so that `pbos --help` does not wait for Numba.
_NAMES = {
    "corpus": "Cooccurrences",
    "corpus.count": "count",
    "corpus.embed_files": "embed_files",
    "errors": "ClusterError FormatError InputError MissingExtraError ModelError PbosError PbosWarning",
    "model": "Model load",
    "segmenter": "Segmenter",
    "settings": "Settings",
    "tables.counts": "WordCounts",
    "tables.word_vectors": "WordVectors",
    "training.complete": "complete",
    "training.learn": "learn",
    "training.train": "train",
    "words.arrays": "cosines",
    "words.explanation": "Explanation",
    "words.lattice": "Lattice Span",
    "words.subwords": "Segmentation",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_MODULES)

_MOVED = {  # modules of version 0.1, which pickles and docs name, and where they are now
    "confidence": "words.confidence",
    "counts": "tables.counts",
    "explanation": "words.explanation",
    "index": "words.index",
    "lattice": "words.lattice",
    "published": "tables.published",
    "subword_vectors": "words.vectors",
    "subwords": "words.subwords",
    "vectors": "tables.word_vectors",
    "vectors.word_vectors": "tables.word_vectors",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'pbos' has no attribute {name!r}")
    from importlib import import_module

    from pbos.jobs.interrupts import Interrupts

    with Interrupts():  # importing Numba takes a while
        value = getattr(import_module(f"pbos.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


class _Moved(type(sys)):  # type: ignore[misc]
    """A module under its old name; its attributes are those of the new one, imported on first use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from importlib import import_module

        return getattr(import_module(f"pbos.{_MOVED[self.__name__.removeprefix('pbos.')]}"), name)


for _old in _MOVED:
    sys.modules[f"pbos.{_old}"] = globals()[_old] = _Moved(f"pbos.{_old}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
