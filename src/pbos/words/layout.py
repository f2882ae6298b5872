"""What a model folder has to contain, and whether its tensors fit each other.

Everything that kernels use as a place in an array is checked to be inside of that array, so that no file, damaged or
made to do harm, makes them read or write elsewhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pbos.errors import InputError, ModelError
from pbos.files.model_folder import (
    CONFIG,
    FRESH_COPY,
    TENSORS,
    TYPE_NAMES,
    Layout,
    Tensors,
    check_type,
    damaged,
    folder_of,
    load_folder,
)
from pbos.files.paths import PathLike
from pbos.kernels.trie import MAX_ROW
from pbos.settings import Spelling
from pbos.words.confidence import CURVE
from pbos.words.index import SubwordIndex

INDEX_LAYOUT: Layout = {
    "index.alphabet": (("U32",), 1),
    "index.labels": (("U8", "U16", "U32"), 1),
    "index.children": (("U8", "U16", "U32"), 1),
    "index.probs": (("F32", "U8"), 1),
    "index.prob_levels": (("F32",), 1),
    "index.rows": (("U8",), 2),
}
MODEL_LAYOUT: Layout = {  # what a model has and a segmenter has not
    "subword_vectors": (("F32", "F16", "I8"), 2),
    "words.bytes": (("U8",), 1),
    "words.offsets": (("U32", "I64"), 1),
}
OPTIONAL_LAYOUT: Layout = {
    "subword_scales": (("F32",), 1),
    "subword_norms": (("F32",), 1),
    "target_vectors": (("F32",), 2),
    "confidence.evidence": (("F16",), 2),
    "confidence.mean": (("F32",), 1),
    "confidence.scale": (("F32",), 1),
    "confidence.center": (("F32",), 1),
    "confidence.spread": (("F32",), 1),
    "confidence.coefficients": (("F32",), 1),
    "confidence.curve": (("F32",), 1),
}
LAYOUT = INDEX_LAYOUT | MODEL_LAYOUT | OPTIONAL_LAYOUT


def load_model_folder(path: PathLike, verify: bool = False) -> tuple[Tensors, Spelling, dict[str, Any]]:
    """Map the folder of a model or a segmenter into memory and check it; return its tensors, spelling and config.

    Args:
        path: The folder, or its URL.
        verify: Whether to check the checksums of large tensors too, which takes longer than all the rest.
    """
    folder = folder_of(path)
    tensors, config = load_folder(folder, LAYOUT, verify)
    required = INDEX_LAYOUT | (MODEL_LAYOUT if "vectors" in config or "subword_vectors" in tensors else {})
    if missing := [name for name in required if name not in tensors]:
        raise ModelError(f"{folder / TENSORS} has no tensor {missing[0]}; {FRESH_COPY}")
    check_tensors(folder, tensors, config)
    return tensors, read_spelling(path, config), config


def read_spelling(path: PathLike, config: dict[str, Any]) -> Spelling:
    """Return the spelling in a config, or raise ModelError."""
    try:
        spelling = Spelling(**config["spelling"])
        if "auto" in (spelling.normalization, spelling.fallback):
            raise InputError("a trained model has no setting that is auto")
        return spelling
    except (KeyError, TypeError, InputError) as error:
        raise ModelError(f"{path}: {CONFIG} has bad spelling settings ({error}); {FRESH_COPY}") from None


def check_tensors(folder: Path, tensors: Tensors, config: dict[str, Any]) -> None:
    """Raise ModelError if tensors do not fit each other or the config; then kernels would leave them.

    A kernel takes places in arrays from the index (see `SubwordIndex.is_valid`) and from `words.offsets`, which ascend
    from 0 to the number of bytes. All other tensors are only numbers to compute with, in the shapes checked here.
    """
    for name, array in tensors.items():
        check_type(f"{folder}: tensor {name}", TYPE_NAMES.get(array.dtype), array.shape, LAYOUT[name])
    index = SubwordIndex.of_tensors(tensors)
    vectors = tensors.get("subword_vectors")
    problems = {
        "the index arrays have inconsistent sizes": not index.has_sizes(),
        f"{CONFIG} does not belong to {TENSORS}": config.get("subwords") != index.arrays.labels.size - 1,
    }
    if vectors is not None:
        offsets = tensors["words.offsets"]
        (rows, dims), n_words, is_int8 = vectors.shape, offsets.size - 1, vectors.dtype == np.int8
        scales, norms, targets = (tensors.get(name) for name in ("subword_scales", "subword_norms", "target_vectors"))
        problems |= {
            "there are more vectors than an index can name": rows > MAX_ROW + 1,
            "the subword vectors do not fit their scales": (scales is not None) != is_int8
            or (scales is not None and scales.size != rows),
            "the subword vectors do not fit their norms": norms is not None and (is_int8 or norms.size != rows),
            "the words do not fit their offsets": not (
                n_words >= 0
                and offsets[0] == 0
                and offsets[-1] == tensors["words.bytes"].size
                and (offsets[1:] >= offsets[:-1]).all()
            ),
            "the target vectors do not fit the words": targets is not None and targets.shape != (n_words, dims),
            "the confidence does not fit the subword vectors": not confidence_fits(tensors, rows, dims),
            f"the sizes in {CONFIG} are not those in {TENSORS}": [
                config.get(key) for key in ("vectors", "dims", "words")
            ]
            != [rows, dims, n_words],
        }
    for problem, found in problems.items():
        if found:
            raise damaged(folder, problem)
    if not index.is_valid(len(index) if vectors is None else len(vectors)):
        raise damaged(folder, "the index of subwords is not a trie")


def confidence_fits(tensors: Tensors, rows: int, dims: int) -> bool:
    """Return whether a model has a whole confidence that fits its vectors, or none."""
    names = [name for name in OPTIONAL_LAYOUT if name.startswith("confidence.")]
    shapes = [tensors[name].shape for name in names if name in tensors]
    n_evidence = shapes[0][-1] if shapes else 0
    n = n_evidence + 4  # features
    whole = [(rows, n_evidence), (dims,), (1,), (n,), (n,), (1 + n + n * (n + 1) // 2,), (CURVE,)]
    divisors = (tensors[name] for name in ("confidence.scale", "confidence.spread") if name in tensors)
    return shapes in ([], whole) and all((divisor > 0).all() for divisor in divisors)
