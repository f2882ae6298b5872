"""A vector for every word, from the word vectors you already have and the word's spelling."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # to import typing would take longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from pbos.corpus import Cooccurrences as Cooccurrences
    from pbos.corpus.embed_files import embed_files as embed_files
    from pbos.corpus.learn import count as count
    from pbos.corpus.learn import learn as learn
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
    from pbos.training.train import train as train
    from pbos.words.arrays import cosines as cosines
    from pbos.words.explanation import Explanation as Explanation
    from pbos.words.lattice import Lattice as Lattice
    from pbos.words.lattice import Span as Span
    from pbos.words.subwords import Segmentation as Segmentation

__version__ = "0.1.0"

# The module of each public name, imported on first use, so that `pbos --help` does not wait for Numba.
_MODULES = {
    "ClusterError": "errors",
    "Cooccurrences": "corpus",
    "Explanation": "words.explanation",
    "FormatError": "errors",
    "InputError": "errors",
    "Lattice": "words.lattice",
    "MissingExtraError": "errors",
    "Model": "model",
    "ModelError": "errors",
    "PbosError": "errors",
    "PbosWarning": "errors",
    "Segmentation": "words.subwords",
    "Segmenter": "segmenter",
    "Settings": "settings",
    "Span": "words.lattice",
    "WordCounts": "tables.counts",
    "WordVectors": "tables.word_vectors",
    "complete": "training.complete",
    "cosines": "words.arrays",
    "count": "corpus.learn",
    "embed_files": "corpus.embed_files",
    "learn": "corpus.learn",
    "load": "model",
    "train": "training.train",
}
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
    if name in _MOVED:
        return sys.modules[f"pbos.{name}"]
    if name not in _MODULES:
        raise AttributeError(f"module 'pbos' has no attribute {name!r}")
    from importlib import import_module

    from pbos.jobs.interrupts import Interrupts

    with Interrupts():  # importing Numba takes a while
        value = getattr(import_module(f"pbos.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def _forward(old: str, new: str) -> None:
    """Make a module under an old name whose attributes are those of the new one, imported on first use."""

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from importlib import import_module

        return getattr(import_module(f"pbos.{new}"), name)

    module: Any = type(sys)(f"pbos.{old}", f"Moved to pbos.{new}.")
    module.__getattr__ = find
    sys.modules[module.__name__] = module


for _old, _new in _MOVED.items():
    _forward(_old, _new)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
