"""The folder of a model or segmenter: `model.safetensors`, `config.json` and a card, `README.md`.

Saved completely or not at all. Loaded by mapping it into memory, after checks whose cost does not depend on the size.
Nothing in it is ever executed.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.confidence import CURVE
from pbos.errors import InputError, ModelError
from pbos.files import (
    PathLike,
    check_target,
    is_remote,
    local,
    names_in,
    open_bytes,
    real,
    reserve,
    url_of,
    write_whole_folder,
)
from pbos.index import SubwordIndex
from pbos.kernels.trie import IndexArrays
from pbos.settings import Spelling

FORMAT_VERSION = 1
TENSORS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
NUMPY_TYPES = {"F32": "<f4", "F16": "<f2", "I8": "|i1", "U8": "|u1", "U16": "<u2", "U32": "<u4", "I64": "<i8"}
FILE_ORDER = ("I64", "F32", "U32", "F16", "U16", "I8", "U8")  # of tensors, as the safetensors library has it
MAX_HEADER = 1 << 20  # ours is under 2 kB
FRESH_COPY = "get a fresh copy of the model"
Tensors = dict[str, npt.NDArray[Any]]

# name: (allowed types, number of dimensions)
INDEX_LAYOUT: dict[str, tuple[tuple[str, ...], int]] = {
    "index.alphabet": (("U32",), 1),
    "index.labels": (("U8", "U16", "U32"), 1),
    "index.children": (("U8", "U16", "U32"), 1),
    "index.probs": (("F32", "U8"), 1),
    "index.prob_levels": (("F32",), 1),
    "index.rows": (("U8",), 2),
}
MODEL_LAYOUT: dict[str, tuple[tuple[str, ...], int]] = {  # what a model has and a segmenter has not
    "subword_vectors": (("F32", "F16", "I8"), 2),
    "words.bytes": (("U8",), 1),
    "words.offsets": (("U32", "I64"), 1),
}
OPTIONAL_LAYOUT: dict[str, tuple[tuple[str, ...], int]] = {
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


def index_tensors(index: SubwordIndex) -> Tensors:
    """Return the tensors of an index."""
    return {f"index.{name}": array for name, array in index.arrays._asdict().items()}


def index_of(tensors: Tensors) -> SubwordIndex:
    """Undo `index_tensors`."""
    return SubwordIndex(IndexArrays(*(tensors[f"index.{name}"] for name in IndexArrays._fields)))


def spelling_of(path: PathLike, config: dict[str, Any]) -> Spelling:
    """Return the spelling in a config."""
    try:
        spelling = Spelling(**config["spelling"])
        if "auto" in (spelling.normalization, spelling.fallback):
            raise InputError("a trained model has no setting that is auto")
        return spelling
    except (KeyError, TypeError, InputError) as error:
        raise ModelError(f"{path}: {CONFIG} has bad spelling settings ({error}); {FRESH_COPY}") from None


def save_folder(path: PathLike, tensors: Tensors, config: dict[str, Any], card: str) -> None:
    """Write a folder, completely or not at all.

    An existing model there stays until the new one is complete. Any other folder with content is never replaced.
    """
    with new_folder(path, {name: (array.dtype, array.shape) for name, array in tensors.items()}) as (empty, describe):
        for name, array in tensors.items():
            empty[name][...] = array
        describe(config, card)


@contextmanager
def new_folder(
    path: PathLike, shapes: dict[str, tuple[Any, tuple[int, ...]]]
) -> Iterator[tuple[Tensors, Callable[[dict[str, Any], str], None]]]:
    """Write a folder as `save_folder` does, its tensors part by part.

    Args:
        path: The folder.
        shapes: The type and the shape of each tensor.

    Yields:
        The tensors to fill, mapped from their file, and a function to call with the config and the card.
    """
    check_writable(path)
    with write_whole_folder(target_of(path), last=CONFIG) as temporary:

        def describe(config: dict[str, Any], card: str) -> None:
            content = {"format": "pbos", "format_version": FORMAT_VERSION, **config}
            (temporary / CONFIG).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            (temporary / CARD).write_text(card, encoding="utf-8")

        yield new_tensors(temporary / TENSORS, shapes), describe


def new_tensors(file: Path, shapes: dict[str, tuple[Any, tuple[int, ...]]]) -> Tensors:
    """Make a safetensors file; return its tensors, to be filled, in the order of the file: large types first."""
    kinds = {np.dtype(kind): name for name, kind in NUMPY_TYPES.items()}
    types = {name: np.dtype(dtype).newbyteorder("<") for name, (dtype, _) in shapes.items()}
    order = sorted(shapes, key=lambda name: (FILE_ORDER.index(kinds[types[name]]), name))
    header: dict[str, Any] = {"__metadata__": {"format": "pbos"}}
    size = 0
    for name in order:
        end = size + types[name].itemsize * math.prod(shapes[name][1])
        header[name] = {"dtype": kinds[types[name]], "shape": [*shapes[name][1]], "data_offsets": [size, end]}
        size = end
    content = json.dumps(header, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)  # so that tensors are aligned
    with file.open("xb+") as stream:
        stream.write(len(content).to_bytes(8, "little") + content)
        stream.flush()
        reserve(stream, 8 + len(content) + size)
        data = mmap.mmap(stream.fileno(), 0)
    tensors = {}
    for name in order:
        shape, start = shapes[name][1], 8 + len(content) + header[name]["data_offsets"][0]
        tensors[name] = np.frombuffer(data, types[name], math.prod(shape), start).reshape(shape)
    return tensors


def target_of(path: PathLike) -> PathLike:
    """Return where to save a model: a URL as it is, and of a path what links lead to."""
    return path if is_remote(path) else real(os.path.expanduser(local(path)))  # noqa: PTH111 (a Path fails on ~x)


def check_writable(path: PathLike) -> None:
    """Raise an error if a model cannot be saved at a path, before any work is done for it."""
    target = target_of(path)
    if is_remote(path):
        check_target(path)
    else:
        check_local(path, Path(target))
    names = names_in(target)
    if names and not is_model(target):
        raise ModelError(f"{path} is a folder with other content, not a pbos model; choose another path")
    if others := sorted(names - {TENSORS, CONFIG, CARD, ".DS_Store"}):
        raise ModelError(f"{path} contains {others[0]}, which is not part of a pbos model; choose another path")


def check_local(path: PathLike, target: Path) -> None:
    """Raise ModelError if no folder can be written at a path."""
    if not target.parent.is_dir():
        raise ModelError(f"cannot save to {path}: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise ModelError(f"cannot save to {path}: no permission to write in {target.parent}")
    if target.exists() and not target.is_dir():
        raise ModelError(f"{path} is a file; a pbos model is a folder, choose another path")


def is_model(folder: PathLike) -> bool:
    """Return whether a folder has a pbos model of any version, or what was uploaded of one."""
    try:
        with open_bytes(f"{url_of(folder)}/{CONFIG}") as stream:
            config = json.loads(stream.read() or '{"format": "pbos"}')
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == "pbos"


def folder_of(path: PathLike) -> Path:
    """Return the folder of a model; that of a remote one is fetched."""
    if not is_remote(path):
        return local(path).expanduser()
    from pbos import remote

    try:
        return remote.fetch(path, CONFIG, TENSORS)
    except FileNotFoundError as error:
        raise ModelError(f"no model at {path}: there is no {error.filename}") from None


def load_folder(path: PathLike) -> tuple[Tensors, dict[str, Any]]:
    """Map a folder into memory and check it; return its tensors and its config."""
    folder = folder_of(path)
    config = read_config(folder)
    tensors = map_tensors(folder / TENSORS)
    has_vectors = "vectors" in config or "subword_vectors" in tensors
    required = INDEX_LAYOUT | (MODEL_LAYOUT if has_vectors else {})
    missing = [name for name in required if name not in tensors]
    if missing:
        raise ModelError(f"{folder / TENSORS} has no tensor {missing[0]}; {FRESH_COPY}")
    check(folder, tensors, config)
    return tensors, config


def read_config(folder: Path) -> dict[str, Any]:
    """Read and check config.json."""
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{folder} is not a pbos model: it has no {CONFIG}") from None
    except ValueError as error:
        raise ModelError(f"{folder / CONFIG} is not valid JSON ({error}); {FRESH_COPY}") from None
    if not isinstance(config, dict) or config.get("format") != "pbos":
        raise ModelError(f'{folder} is not a pbos model: {CONFIG} does not say "format": "pbos"')
    version = config.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelError(f"{folder / CONFIG} has no valid format_version: {version!r}; {FRESH_COPY}")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"{folder} has model format {version}, this pbos reads up to {FORMAT_VERSION}; upgrade with "
            "pip install --upgrade pbos"
        )
    return config


def map_tensors(file: Path) -> Tensors:
    """Map a safetensors file into memory; return views of the known tensors. Nothing is copied."""
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size < 8:
                raise ModelError(f"{file} is truncated: {size} bytes; {FRESH_COPY}")
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise ModelError(f"{file.parent} is not a complete pbos model: it has no {TENSORS}") from None
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(size - 8, MAX_HEADER):
        raise ModelError(f"{file} has a header of impossible length {length}; {FRESH_COPY}")
    try:
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        entries = {
            name: (entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"]) for name, entry in header.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ModelError(f"{file} has a damaged header; {FRESH_COPY}") from None
    return {
        name: _tensor(file, data, 8 + length, size, name, *entry) for name, entry in entries.items() if name in LAYOUT
    }


def _tensor(
    file: Path, data: mmap.mmap, base: int, size: int, name: str, kind: str, shape: tuple[int, ...], *ends: int
) -> npt.NDArray[Any]:
    """Return one tensor of a mapped file, after checking that it is inside the file and has the size it claims."""
    kinds, n_dims = LAYOUT[name]
    if kind not in kinds or len(shape) != n_dims or not all(isinstance(n, int) and n >= 0 for n in (*shape, *ends)):
        expected = f"{'/'.join(kinds)} with {n_dims} dimensions"
        raise ModelError(f"{file}: tensor {name} has type {kind} and shape {list(shape)}, expected {expected}")
    dtype = np.dtype(NUMPY_TYPES[kind])
    count = int(np.prod(shape, dtype=object))
    if len(ends) != 2 or ends[1] - ends[0] != count * dtype.itemsize or base + ends[1] > size:
        raise ModelError(f"{file}: tensor {name} is not inside the file; {FRESH_COPY}")
    if (base + ends[0]) % dtype.itemsize:
        raise ModelError(f"{file}: tensor {name} is not aligned")
    return np.frombuffer(data, dtype, count, base + ends[0]).reshape(shape)


def check(folder: Path, tensors: Tensors, config: dict[str, Any]) -> None:
    """Check that the tensors fit each other and the config, at a cost that does not depend on their size.

    A damaged byte inside a tensor is found when the index is unpacked, or gives wrong numbers, but never makes the
    kernels read outside of the arrays.
    """
    index = index_of(tensors).arrays
    nodes = index.labels.size
    problems = {
        "the index arrays have inconsistent sizes": not (
            index.children.size == index.probs.size == index.rows.shape[0] == nodes > index.alphabet.size
            and 1 <= index.rows.shape[1] <= 4
        ),
        "the probabilities do not fit their levels": index.prob_levels.size
        != (256 if index.probs.dtype == np.uint8 else 0),
        f"{CONFIG} does not belong to {TENSORS}": config.get("subwords") != nodes - 1,
    }
    if "subword_vectors" in tensors:
        vectors, offsets = tensors["subword_vectors"], tensors["words.offsets"]
        (rows, dims), n_words, is_int8 = vectors.shape, offsets.size - 1, vectors.dtype == np.int8
        scales, norms, targets = (tensors.get(name) for name in ("subword_scales", "subword_norms", "target_vectors"))
        problems |= {
            "the subword vectors do not fit their scales": (scales is not None) != is_int8
            or (scales is not None and scales.size != rows),
            "the subword vectors do not fit their norms": norms is not None and (is_int8 or norms.size != rows),
            "the words do not fit their offsets": not (
                n_words >= 0 and offsets[0] == 0 and offsets[-1] == tensors["words.bytes"].size
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


def confidence_fits(tensors: Tensors, rows: int, dims: int) -> bool:
    """Return whether a model has a whole confidence that fits its vectors, or none."""
    names = [name for name in OPTIONAL_LAYOUT if name.startswith("confidence.")]
    shapes = [tensors[name].shape for name in names if name in tensors]
    n_evidence = shapes[0][-1] if shapes else 0
    n = n_evidence + 4  # features
    whole = [(rows, n_evidence), (dims,), (1,), (n,), (n,), (1 + n + n * (n + 1) // 2,), (CURVE,)]
    return shapes in ([], whole)


def damaged(folder: Path, problem: str) -> ModelError:
    """Return the error about a damaged model."""
    return ModelError(f"{folder} is damaged: {problem}; {FRESH_COPY}")
