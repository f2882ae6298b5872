"""The model folder: `model.safetensors`, `config.json` and a card, `README.md`. All file code of models is here.

Written whole or not at all; read by mapping it into memory, after checks that cost the same for any size. Nothing in a
model file is ever executed.
"""

from __future__ import annotations

import json
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import ModelError
from pbos.files import write_whole_folder
from pbos.kernels.trie import BLOCK, IndexArrays
from pbos.subwords import SubwordIndex

FORMAT_VERSION = 2
TENSORS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
DTYPES = {"F32": "<f4", "F16": "<f2", "I8": "|i1", "U8": "|u1", "U16": "<u2", "U32": "<u4", "I32": "<i4", "I64": "<i8"}
MAX_HEADER = 1 << 20  # ours has under 2 kB
Tensors = dict[str, npt.NDArray[Any]]

# name: (kinds of number allowed, number of dimensions, required)
Layout = dict[str, tuple[tuple[str, ...], int, bool]]
VECTORS_AND_WORDS: Layout = {
    "subword_vectors": (("F32", "F16", "I8"), 2, True),
    "subword_scales": (("F32",), 1, False),
    "subword_norms": (("F32",), 1, False),
    "words.bytes": (("U8",), 1, True),
    "words.offsets": (("U32", "I64"), 1, True),
    "target_vectors": (("F32",), 2, False),
}
LAYOUTS: dict[int, Layout] = {
    1: {
        "index.first_child": (("U32",), 1, True),
        "index.labels": (("U32",), 1, True),
        "index.probs": (("F32",), 1, True),
        "index.rows": (("I32",), 1, True),
        **VECTORS_AND_WORDS,
    },
    2: {
        "index.alphabet": (("U32",), 1, True),
        "index.labels": (("U8", "U16", "U32"), 1, True),
        "index.children": (("U8", "U16", "U32"), 1, True),
        "index.blocks": (("U32",), 1, True),
        "index.probs": (("F32", "U8"), 1, True),
        "index.prob_levels": (("F32",), 1, True),
        "index.rows": (("U8",), 2, True),
        **VECTORS_AND_WORDS,
    },
}


def save_folder(path: str | os.PathLike[str], tensors: Tensors, config: dict[str, Any], card: str) -> None:
    """Write a model folder, whole or not at all.

    An existing model at that place stays until the new one is whole; any other folder with content is refused.
    """
    from safetensors.numpy import save_file

    target = Path(os.path.realpath(Path(path).expanduser()))
    check_writable(target)
    with write_whole_folder(target) as temporary:
        plain = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        save_file(plain, temporary / TENSORS, metadata={"format": "pbos"})
        (temporary / TENSORS).chmod(0o666 & temporary.stat().st_mode)  # safetensors lets only its owner read
        content = {"format": "pbos", "format_version": FORMAT_VERSION, **config}
        (temporary / CONFIG).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (temporary / CARD).write_text(card, encoding="utf-8")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a place where a model cannot be saved, before any work is done for it."""
    target = Path(os.path.realpath(Path(path).expanduser()))
    if not target.parent.is_dir():
        raise ModelError(f"cannot save to {path}: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise ModelError(f"cannot save to {path}: no permission to write in {target.parent}")
    if target.is_dir():
        if any(target.iterdir()) and not is_model(target):
            raise ModelError(f"{path} is a folder with other content and no pbos model; choose another place")
    elif target.exists():
        raise ModelError(f"{path} is a file; a pbos model is a folder, choose another name")


def is_model(folder: Path) -> bool:
    """Tell whether a folder holds a pbos model, of any version."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == "pbos"


def load_folder(path: str | os.PathLike[str]) -> tuple[Tensors, dict[str, Any]]:
    """Map a model folder into memory and check it; return its tensors, as format 2 has them, and its config."""
    folder = Path(path).expanduser()
    config = read_config(folder)
    layout = LAYOUTS[config["format_version"]]
    tensors = map_tensors(folder / TENSORS, layout)
    missing = [name for name, (_, _, required) in layout.items() if required and name not in tensors]
    if missing:
        raise ModelError(f"{folder / TENSORS} lacks the tensor {missing[0]}; get a fresh copy of the model")
    if config["format_version"] == 1:
        tensors = upgraded(folder, tensors)
    check(folder, tensors, config)
    return tensors, config


def read_config(folder: Path) -> dict[str, Any]:
    """Read and check config.json."""
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder} is no pbos model: it has no {CONFIG}") from None
    except ValueError as error:
        raise ModelError(f"{folder / CONFIG} is not valid JSON ({error}); get a fresh copy of the model") from None
    if not isinstance(config, dict) or config.get("format") != "pbos":
        raise ModelError(f'{folder} is no pbos model: {CONFIG} does not say "format": "pbos"')
    version = config.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelError(f"{folder / CONFIG} has no valid format_version: {version!r}")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"{folder} has model format {version}, this pbos reads up to {FORMAT_VERSION}: upgrade with "
            "pip install --upgrade pbos"
        )
    return config


def map_tensors(file: Path, layout: Layout) -> Tensors:
    """Map a safetensors file: an 8-byte length, a JSON header, and the tensors' bytes. Nothing is copied."""
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size < 8:
                raise ModelError(f"{file} is cut short: {size} bytes; get a fresh copy of the model")
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ModelError(f"{file.parent} is no whole pbos model: it has no {TENSORS}") from None
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(size - 8, MAX_HEADER):
        raise ModelError(f"{file} has a header of impossible length {length}; get a fresh copy of the model")
    try:
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        entries = {
            name: (entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"]) for name, entry in header.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ModelError(f"{file} has a damaged header; get a fresh copy of the model") from None
    return {
        name: _tensor(file, data, 8 + length, size, name, layout[name], *entry)
        for name, entry in entries.items()
        if name in layout
    }


def _tensor(
    file: Path,
    data: mmap.mmap,
    base: int,
    size: int,
    name: str,
    allowed: tuple[tuple[str, ...], int, bool],
    kind: str,
    shape: tuple[int, ...],
    *ends: int,
) -> npt.NDArray[Any]:
    """Return one tensor of a mapped file, after checking that it lies inside the file and has the size it claims."""
    kinds, n_dims, _ = allowed
    if kind not in kinds or len(shape) != n_dims or not all(isinstance(n, int) and n >= 0 for n in (*shape, *ends)):
        expected = f"{'/'.join(kinds)} with {n_dims} dimensions"
        raise ModelError(f"{file}: tensor {name} has type {kind} and shape {list(shape)}, expected {expected}")
    dtype = np.dtype(DTYPES[kind])
    count = int(np.prod(shape, dtype=object))
    if len(ends) != 2 or ends[1] - ends[0] != count * dtype.itemsize or base + ends[1] > size:
        raise ModelError(f"{file}: tensor {name} does not lie within the file; get a fresh copy of the model")
    if (base + ends[0]) % dtype.itemsize:
        raise ModelError(f"{file}: tensor {name} is not aligned")
    return np.frombuffer(data, dtype, count, base + ends[0]).reshape(shape)


def upgraded(folder: Path, tensors: Tensors) -> Tensors:
    """Return the tensors of a format 1 folder as format 2 has them. This copies and reads the whole index."""
    names = ("first_child", "labels", "probs", "rows")
    first_child, labels, probs, rows = (tensors.pop(f"index.{name}") for name in names)
    if not labels.size == probs.size == rows.size == first_child.size - 1 >= 1:
        raise damaged(folder, "the subword index fits together")
    first_child = first_child.astype(np.int64)
    index = SubwordIndex.of(first_child[1:] - first_child[:-1], labels, probs, rows)
    tensors |= {f"index.{name}": array for name, array in index.arrays._asdict().items()}
    if tensors["words.bytes"].size < 2**32:
        tensors["words.offsets"] = tensors["words.offsets"].astype(np.uint32)
    return tensors


def check(folder: Path, tensors: Tensors, config: dict[str, Any]) -> None:
    """Check that the tensors fit each other, at a cost that does not grow with them.

    What is not seen here (a damaged byte inside a tensor) is seen when the index is unpacked, or gives wrong numbers,
    but never makes the kernels read outside the arrays.
    """
    index = IndexArrays(*(tensors[f"index.{name}"] for name in IndexArrays._fields))
    nodes, rows = index.labels.size, tensors["subword_vectors"].shape[0]
    offsets = tensors["words.offsets"]
    n_words, dims = offsets.size - 1, tensors["subword_vectors"].shape[1]
    is_int8 = tensors["subword_vectors"].dtype == np.int8
    facts = {
        "the subword index fits together": nodes >= 1
        and index.children.size == index.probs.size == index.rows.shape[0] == nodes
        and 1 <= index.rows.shape[1] <= 4
        and index.blocks.size == 1 + (nodes - 1) // BLOCK
        and index.alphabet.size + 1 == index.blocks[0] <= nodes
        and int(index.blocks[-1]) + index.children[(nodes - 1) // BLOCK * BLOCK :].sum(dtype=np.int64) == nodes,
        "the probabilities have their levels": index.prob_levels.size == (256 if index.probs.dtype == np.uint8 else 0),
        "the subword vectors have their scales": ("subword_scales" in tensors) == is_int8
        and (not is_int8 or tensors["subword_scales"].size == rows),
        "the subword vectors have their lengths": "subword_norms" not in tensors
        or (not is_int8 and tensors["subword_norms"].size == rows),
        "the words fit together": n_words >= 0 and offsets[0] == 0 and offsets[-1] == tensors["words.bytes"].size,
        "the target vectors fit the words": "target_vectors" not in tensors
        or tensors["target_vectors"].shape == (n_words, dims),
        f"{CONFIG} belongs to {TENSORS}": [config.get(key) for key in ("subwords", "vectors", "dims", "words")]
        == [nodes - 1, rows, dims, n_words],
    }
    for fact, holds in facts.items():
        if not holds:
            raise damaged(folder, fact)


def damaged(folder: Path, fact: str) -> ModelError:
    """Say what should hold of a model and does not."""
    return ModelError(f"{folder} is damaged: it does not hold that {fact}; get a fresh copy of the model")
