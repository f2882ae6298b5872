"""A vector for every word, from the word vectors you already have and the word's spelling."""

from __future__ import annotations

TYPE_CHECKING = False  # to import typing would take longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from pbos.arrays import cosines as cosines
    from pbos.completion import complete as complete
    from pbos.corpus import Cooccurrences as Cooccurrences
    from pbos.counts import WordCounts as WordCounts
    from pbos.embedding import embed_files as embed_files
    from pbos.errors import ClusterError as ClusterError
    from pbos.errors import FormatError as FormatError
    from pbos.errors import InputError as InputError
    from pbos.errors import MissingExtraError as MissingExtraError
    from pbos.errors import ModelError as ModelError
    from pbos.errors import PbosError as PbosError
    from pbos.errors import PbosWarning as PbosWarning
    from pbos.explanation import Explanation as Explanation
    from pbos.lattice import Lattice as Lattice
    from pbos.lattice import Span as Span
    from pbos.learning import count as count
    from pbos.learning import learn as learn
    from pbos.model import Model as Model
    from pbos.model import load as load
    from pbos.segmenter import Segmenter as Segmenter
    from pbos.settings import Settings as Settings
    from pbos.subwords import Segmentation as Segmentation
    from pbos.training import train as train
    from pbos.vectors import WordVectors as WordVectors

__version__ = "0.1.0"

# The module of each public name, imported on first use, so that `pbos --help` does not wait for Numba.
_MODULES = {
    "ClusterError": "errors",
    "Cooccurrences": "corpus",
    "Explanation": "explanation",
    "FormatError": "errors",
    "InputError": "errors",
    "Lattice": "lattice",
    "MissingExtraError": "errors",
    "Model": "model",
    "ModelError": "errors",
    "PbosError": "errors",
    "PbosWarning": "errors",
    "Segmentation": "subwords",
    "Segmenter": "segmenter",
    "Settings": "settings",
    "Span": "lattice",
    "WordCounts": "counts",
    "WordVectors": "vectors",
    "complete": "completion",
    "cosines": "arrays",
    "count": "learning",
    "embed_files": "embedding",
    "learn": "learning",
    "load": "model",
    "train": "training",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'pbos' has no attribute {name!r}")
    from importlib import import_module

    from pbos.interrupts import Interrupts

    with Interrupts():  # importing Numba takes a while
        value = getattr(import_module(f"pbos.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
