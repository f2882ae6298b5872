"""What a model folder has to contain, and whether its tensors fit each other.

Everything that kernels use as a place in an array is checked to be inside of that array, so that no file, damaged or
made to do harm, makes them read or write elsewhere.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.contexts import AMOUNTS, KINDS, N_FACTS, PREFIX, Expected
from pbos.errors import InputError
from pbos.files.model_folder import (
    CONFIG,
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
from pbos.kernels.neighbors import FACTS
from pbos.kernels.trie import MAX_ROW
from pbos.settings import MOST_NEAR, Spelling
from pbos.words.confidence import CURVE, IS_WORD, Regression
from pbos.words.index import SubwordIndex
from pbos.words.text import unpack_strings
from pbos.words.tokens import CUTS

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
CONFIDENCE_LAYOUT: Layout = {
    "confidence.evidence": (("F16",), 2),
    **{f"confidence.{name}": (("F32",), 1) for name in ["mean", "scale", "center", "spread", "coefficients", "curve"]},
}
IS_WORD_LAYOUT: Layout = {f"{IS_WORD}{part.name}": (("F32",), 1) for part in fields(Regression)}
CONTEXT_LAYOUT: Layout = {
    f"{PREFIX}matrix": (("F16",), 2),
    f"{PREFIX}kept": (("F32",), 1),
    f"{PREFIX}counting": (("I64",), 1),
    f"{PREFIX}words.bytes": (("U8",), 1),
    f"{PREFIX}words.offsets": (("U32", "I64"), 1),
}
EXPECTED = [f"{PREFIX}{one}." for one in Expected._fields]
CONTEXT_LAYOUT |= {one + part.name: (("F32",), 2) for one in EXPECTED for part in fields(Regression)}
NEAR_LAYOUT: Layout = {
    "neighbors.most": (("I64",), 1),
    "neighbors.indptr": (("I64",), 1),
    "neighbors.posted": (("U32",), 1),
    "neighbors.vectors": (("F16",), 2),
    "neighbors.rules": (("I64",), 1),
    **{f"neighbors.{name}": (("F32",), 2) for name in ("hidden", "output")},
    **{f"neighbors.{name}": (("F32",), 1) for name in ("lengths", "mean", "scale", "numbers")},
    **{f"neighbors.{part.name}": (("F32",), 1) for part in fields(Regression)},
}
LAYOUT = INDEX_LAYOUT | MODEL_LAYOUT | CONFIDENCE_LAYOUT | IS_WORD_LAYOUT | CONTEXT_LAYOUT | NEAR_LAYOUT
LAYOUT |= {
    "subword_scales": (("F32",), 1),
    "subword_norms": (("F32",), 1),
    "confidence.nearness": (("U8",), 1),
    "confidence.by_rank": (("F32",), 1),
    "target_vectors": (("F32",), 2),
}


def load_model_folder(path: PathLike, verify: bool = False) -> tuple[Tensors, Spelling, dict[str, Any]]:
    """Map the folder (or URL) of a model or a segmenter into memory and check it; return tensors, spelling and config.

    With `verify`, the checksums of large tensors are checked too, which takes longer than all the rest.
    """
    folder = folder_of(path)
    tensors, config = load_folder(folder, LAYOUT, verify)
    required = INDEX_LAYOUT | (MODEL_LAYOUT if "vectors" in config or "subword_vectors" in tensors else {})
    if missing := [name for name in required if name not in tensors]:
        raise damaged(folder, f"{TENSORS} has no tensor {missing[0]}")
    return tensors, checked_spelling(folder, tensors, config), config


def checked_spelling(folder: Path, tensors: Tensors, config: dict[str, Any]) -> Spelling:
    """Return the spelling in a config; raise ModelError if tensors do not fit each other or the config.

    Kernels would leave such tensors: they take places in arrays from the index (see `SubwordIndex.is_valid`) and from
    `words.offsets`, which ascend from 0 to the number of bytes. All other tensors are only numbers to compute with, in
    the shapes checked here.
    """
    for name, array in tensors.items():
        check_type(f"{folder}: tensor {name}", TYPE_NAMES.get(array.dtype), array.shape, LAYOUT[name])
    index = SubwordIndex.of_tensors(tensors)
    n_vectors = index.arrays.labels.size - 1  # at most, in a segmenter
    fits = {
        "the index arrays have inconsistent sizes": index.has_sizes(),
        f"{CONFIG} does not belong to {TENSORS}": config.get("subwords") == n_vectors,
    }
    if "subword_vectors" in tensors:
        vectors, offsets = tensors["subword_vectors"], tensors["words.offsets"]
        (n_vectors, dims), n_words, is_int8 = vectors.shape, offsets.size - 1, vectors.dtype == np.int8
        shapes = {name: array.shape for name, array in tensors.items()}
        sizes = [config.get(key) for key in ("vectors", "dims", "words")]
        one_each = (n_vectors,)
        fits |= {
            "there are more vectors than an index can name": n_vectors <= MAX_ROW + 1,
            "the subword vectors do not fit their scales": shapes.get("subword_scales")
            == (one_each if is_int8 else None),
            "the subword vectors do not fit their norms": shapes.get("subword_norms")
            in {None, None if is_int8 else one_each},
            "the words do not fit their offsets": offsets_fit(offsets, tensors["words.bytes"]),
            "the target vectors do not fit the words": shapes.get("target_vectors") in (None, (n_words, dims)),
            "the confidence does not fit the subword vectors": confidence_fits(tensors, n_vectors, dims),
            "the map from contexts does not fit the subword vectors": contexts_fit(tensors, dims),
            "the spelling neighbors do not fit the words": near_fits(tensors, n_vectors, n_words, dims),
            f"the sizes in {CONFIG} are not those in {TENSORS}": sizes == [n_vectors, dims, n_words],
        }
    for problem, is_fine in fits.items():
        if not is_fine:
            raise damaged(folder, problem)
    if not index.is_valid(n_vectors):
        raise damaged(folder, "the index of subwords is not a trie")
    try:
        spelling = Spelling(**config["spelling"])
        if "auto" in (spelling.normalization, spelling.fallback):
            raise InputError("a trained model has no setting that is auto")
        return spelling
    except (KeyError, TypeError, InputError) as error:
        raise damaged(folder, f"{CONFIG} has bad spelling settings ({error})") from None


def confidence_fits(tensors: Tensors, rows: int, dims: int) -> bool:
    """Return whether a model has a whole confidence that fits its vectors, or none."""
    sizes = {"nearness": tensors["words.offsets"].size - 1, "by_rank": 2}
    if any(f"confidence.{name}" in tensors and tensors[f"confidence.{name}"].size != sizes[name] for name in sizes):
        return False
    if not (CONFIDENCE_LAYOUT | IS_WORD_LAYOUT).keys() & tensors:
        return True
    shapes = [tensors[name].shape for name in CONFIDENCE_LAYOUT if name in tensors]
    n_evidence = shapes[0][-1] if shapes else 0
    n = n_evidence + 4  # features
    whole = [(rows, n_evidence), (dims,), (1,), (n,), (n,), (1 + n + n * (n + 1) // 2,), (CURVE,)]
    if shapes != whole or not all((tensors[f"confidence.{name}"] > 0).all() for name in ("scale", "spread")):
        return False
    return not IS_WORD_LAYOUT.keys() & tensors or regression_fits(tensors, IS_WORD, n + 1)


def contexts_fit(tensors: Tensors, dims: int) -> bool:
    """Return whether a model has a whole map from contexts that fits its vectors, or none."""
    if not CONTEXT_LAYOUT.keys() & tensors:
        return True
    if not (CONTEXT_LAYOUT.keys() <= tensors.keys() and "confidence.mean" in tensors):
        return False
    for name in EXPECTED:
        if not regression_fits(tensors, name, N_FACTS, (len(AMOUNTS) + 1,)):
            return False
    offsets, kept, counting = (tensors[PREFIX + name] for name in ("words.offsets", "kept", "counting"))
    return (
        tensors[f"{PREFIX}matrix"].shape == (KINDS * dims, dims)
        and all(np.isfinite(tensors[name]).all() for name in CONTEXT_LAYOUT)
        and are_strings(tensors[f"{PREFIX}words.bytes"], offsets)
        and kept.size == offsets.size - 1
        and bool(((kept > 0) & (kept <= 1)).all())
        and counting.size == 3
        and counting[0] > 0
        and counting[2] in range(len(CUTS))
    )


def regression_fits(tensors: Tensors, prefix: str, n: int, many: tuple[int, ...] = ()) -> bool:
    """Return whether a model has a whole regression on n features, or many of them."""
    shapes = [getattr(tensors.get(f"{prefix}{part.name}"), "shape", None) for part in fields(Regression)]
    sizes = [n, n, 1 + n + n * (n + 1) // 2, CURVE]
    return shapes == [(*many, size) for size in sizes] and bool((tensors[f"{prefix}spread"] > 0).all())


def near_fits(tensors: Tensors, n_vectors: int, n_words: int, dims: int) -> bool:
    """Return whether a model has whole spelling neighbors that fit its vectors, words and confidence, or none."""
    if not NEAR_LAYOUT.keys() & tensors:
        return True
    if not (NEAR_LAYOUT.keys() <= tensors.keys() and "confidence.mean" in tensors):
        return False
    near = {name: tensors[f"neighbors.{name}"] for name in (key.split(".")[1] for key in NEAR_LAYOUT)}
    n_units = near["hidden"].shape[0]
    sizes = {"most": 1, "indptr": n_vectors + 1, "lengths": n_words, "mean": dims, "scale": 1}
    return (
        all(near[name].size == size for name, size in sizes.items())
        and near["vectors"].shape == (n_words, 2 * dims)
        and near["hidden"].shape == (n_units, FACTS + 2)
        and near["output"].shape == (2, n_units + 1)
        and near["numbers"].size == near["rules"].size
        and [near[part.name].size for part in fields(Regression)] == [4, 4, 15, CURVE]
        and 0 < near["most"][0] <= MOST_NEAR
        and offsets_fit(near["indptr"], near["posted"])
        and near["posted"].max(initial=0) < max(n_words, 1)
        and all(bool((near[name] > 0).all()) for name in ("scale", "spread"))
    )


def are_strings(packed: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]) -> bool:
    """Return whether packed strings can be read."""
    try:
        return offsets_fit(offsets, packed) and unpack_strings(packed, offsets) is not None
    except UnicodeDecodeError:
        return False


def offsets_fit(offsets: npt.NDArray[Any], packed: npt.NDArray[np.uint8]) -> bool:
    """Return whether packed strings are between their offsets."""
    ascends = offsets.size and offsets[0] == 0 and (offsets[1:] >= offsets[:-1]).all()
    return bool(ascends and offsets[-1] == packed.size)
