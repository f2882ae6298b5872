"""The folder of a model or segmenter: `model.safetensors`, `config.json` and a card, `README.md`.

Saved completely or not at all. Loaded by mapping it into memory, after checks that every tensor is inside of its file
and has the type it should have; `pbos.layout` checks that they fit each other. Checksums (CRC-32) find damage
that leaves a valid model. Nothing in a folder is ever executed.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.errors import ModelError
from pbos.files.atomic import check_target, write_whole_folder
from pbos.files.cache import fetch
from pbos.files.paths import (
    PathLike,
    exists,
    is_hub,
    is_remote,
    names_in,
    open_file,
    resolve_links,
    to_local_path,
    url_of,
)
from pbos.settings import INCLUDED, MAX_DIMS

DATA = Path(__file__).parents[1] / "data"
FORMAT_VERSION = 1
TENSORS, CONFIG, CARD = "model.safetensors", "config.json", "README.md"
NUMPY_TYPES = {"I64": "<i8", "F32": "<f4", "U32": "<u4", "F16": "<f2", "U16": "<u2", "I8": "|i1", "U8": "|u1"}
TYPE_NAMES = {np.dtype(kind): name for name, kind in NUMPY_TYPES.items()}
FILE_ORDER = list(NUMPY_TYPES)  # of tensors, as the safetensors library has it
MAX_HEADER = 1 << 20  # ours is under 3 kB
MAX_CONFIG = 16 << 20  # ours is under 2 kB, but people may add notes
CHECKED_AT_LOAD = 256 << 20  # bytes of vectors whose checksums cost little time; more are checked by verify
CHECKSUM = "checksum"
FRESH_COPY = "get a fresh copy of the model"
Tensors = dict[str, npt.NDArray[Any]]
Layout = dict[str, tuple[tuple[str, ...], int]]
"""For each tensor, by name: the types that it may have, and the number of its dimensions."""


def save_folder(path: PathLike, tensors: Tensors, config: dict[str, Any], card: str) -> None:
    """Write a folder, completely or not at all; in its file, the tensors of large types are first.

    An existing model there stays until the new one is complete. Any other folder with content is never replaced.
    """
    target = check_writable(path)
    try:
        content = plain({"format": "pbos", "format_version": FORMAT_VERSION, **config})
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelError(f"cannot save to {path}: info must be plain data, as in JSON ({error})") from None
    arrays = [(name, np.ascontiguousarray(one, one.dtype.newbyteorder("<"))) for name, one in tensors.items()]
    arrays.sort(key=lambda named: (FILE_ORDER.index(TYPE_NAMES[named[1].dtype]), named[0]))
    entries: dict[str, Any] = {"__metadata__": {"format": "pbos"} | {name: crc(array) for name, array in arrays}}
    size = 0
    for name, array in arrays:
        ends = [size, size := size + array.nbytes]
        entries[name] = {"dtype": TYPE_NAMES[array.dtype], "shape": [*array.shape], "data_offsets": ends}
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # so that tensors are aligned
    content[CHECKSUM] = checksum(content, header)
    with write_whole_folder(target, last=CONFIG) as temporary:
        with (temporary / TENSORS).open("xb") as stream:
            stream.write(len(header).to_bytes(8, "little") + header)
            for _, array in arrays:
                stream.write(array.data)
        (temporary / CONFIG).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (temporary / CARD).write_text(card, encoding="utf-8")


def plain(data: dict[str, Any]) -> dict[str, Any]:
    """Return data as JSON has it; raise TypeError, ValueError or RecursionError if it cannot have it, such as NaN."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False).encode()  # which refuses lone surrogates
    return dict(json.loads(text))


# Checksums: the header has one of each tensor, and the config has one of itself and the header, so that the two files
# belong together. They are for accidents: whoever changes a file on purpose can compute them again.


def crc(array: npt.NDArray[Any]) -> str:
    """Return the checksum of a tensor."""
    return f"{zlib.crc32(array.data):08x}"


def checksum(config: dict[str, Any], header: bytes) -> str:
    """Return the checksum of a config, which may contain it, and the header of its tensors."""
    content = json.dumps({name: value for name, value in config.items() if name != CHECKSUM}, sort_keys=True)
    return f"{zlib.crc32(header, zlib.crc32(content.encode())):08x}"


# Where models are -----------------------------------------------------------------------------------------------------


def resolve_model(path: PathLike | None) -> PathLike:
    """Return where a model is: None, and the names of models that come with pbos, stand for their folders.

    >>> resolve_model("russian").name
    'russian'
    """
    name = "english" if path is None else path
    included = isinstance(name, str) and name in INCLUDED
    return DATA / name if included and (path is None or not exists(name)) else name


def target_of(path: PathLike) -> PathLike:
    """Return where to save a model: a URL as it is, and of a path what links lead to."""
    return path if is_remote(path) else resolve_links(os.path.expanduser(to_local_path(path)))  # noqa: PTH111 (a Path fails on ~x)


def check_writable(path: PathLike) -> PathLike:
    """Raise an error if a model cannot be saved at a path, before any work is done for it; else return `target_of`.

    What was checked is what has to be written, as somebody may put a link in the place of the path meanwhile.
    """
    target = target_of(path)
    if is_hub(path):  # where nothing is lost, as all that was there stays in the history
        from pbos.files import hub

        hub.create(path)
        return target
    if is_remote(path):
        check_target(path)
    elif not (folder := Path(target)).parent.is_dir():
        raise ModelError(f"cannot save to {path}: the folder {folder.parent} does not exist")
    elif not os.access(folder.parent, os.W_OK):
        raise ModelError(f"cannot save to {path}: no permission to write in {folder.parent}")
    elif folder.exists() and not folder.is_dir():
        raise ModelError(f"{path} is a file, but a pbos model is a folder; choose another path")
    names = names_in(target)
    if names and not is_model(target):
        raise ModelError(f"{path} is a folder with something other than a pbos model in it; choose another path")
    if others := sorted(names - {TENSORS, CONFIG, CARD, ".DS_Store"}):
        raise ModelError(f"{path} contains {others[0]}, which is not part of a pbos model; choose another path")
    return target


def is_model(folder: PathLike) -> bool:
    """Return whether a folder has a pbos model of any version, or what was uploaded of one."""
    try:
        remote = is_remote(folder)
        stream = open_file(f"{url_of(folder)}/{CONFIG}") if remote else open_regular(to_local_path(folder) / CONFIG)
        with stream:
            config = json.loads(stream.read(MAX_CONFIG) or '{"format": "pbos"}')
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("format") == "pbos"


def folder_of(path: PathLike) -> Path:
    """Return the folder of a model; that of a remote one is fetched."""
    if not is_remote(path):
        return to_local_path(path).expanduser()
    try:
        return fetch(path, CONFIG, TENSORS)
    except FileNotFoundError as error:
        raise ModelError(f"no model at {path}: there is no {error.filename}") from None


# Loading --------------------------------------------------------------------------------------------------------------


def load_folder(folder: Path, layout: Layout, verify: bool = False) -> tuple[Tensors, dict[str, Any]]:
    """Map a folder into memory; return its tensors and its config: of the same one, even if another takes its place.

    Tensors that are not in the layout are ignored. With `verify`, the checksums of large tensors are checked too.
    """
    while True:
        if not folder.is_dir():
            makes = "give its folder" if folder.name in (TENSORS, CONFIG) else "make one with pbos train"
            hint = f"; this is a file, and a model is a folder: {makes}" if folder.is_file() else ""
            raise ModelError(f"no model folder at {folder}{hint}")
        before, missing = folder.stat(), ""
        try:
            with open_regular(folder / CONFIG) as stream:
                config = read_config(folder, stream)
            with open_regular(folder / TENSORS) as stream:
                tensors, header, checksums = map_tensors(folder / TENSORS, stream, layout)
        except FileNotFoundError as error:
            missing = Path(error.filename).name
        now = folder.stat()
        if (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns):
            break  # otherwise it has been replaced meanwhile
    if missing:
        whole = "" if missing == CONFIG else "complete "
        hint = "; train one on these word vectors with pbos train" if (folder / "vectors.npy").exists() else ""
        raise ModelError(f"{folder} is not a {whole}pbos model: it has no {missing}{hint}")
    if CHECKSUM in config and config[CHECKSUM] != checksum(config, header):  # models of older versions have none
        raise damaged(folder, f"the checksum says that {CONFIG} has changed, or does not belong to {TENSORS}")
    for name, array in tensors.items():
        is_checked = name in checksums and (verify or array.nbytes <= CHECKED_AT_LOAD)
        if is_checked and crc(array) != checksums[name]:
            raise damaged(folder, f"the checksum of {name} is wrong")
    return tensors, config


def open_regular(file: Path) -> BinaryIO:
    """Open a regular file; from a pipe, nothing may ever come."""
    stream = open(file, "rb", opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NONBLOCK", 0)))
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise ModelError(f"{file} is not a regular file, but a pipe or a device; {FRESH_COPY}")
    return stream


def read_config(folder: Path, stream: BinaryIO) -> dict[str, Any]:
    """Read and check config.json."""
    try:
        config = json.loads(stream.read(MAX_CONFIG))  # more would not be ours
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{folder / CONFIG} is not valid JSON ({error}); {FRESH_COPY}") from None
    if not isinstance(config, dict) or config.get("format") != "pbos":
        raise ModelError(f'{folder} is not a pbos model: {CONFIG} does not say "format": "pbos"')
    version = config.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelError(f"{folder / CONFIG} has no valid format_version: {version!r:.40}; {FRESH_COPY}")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"{folder} has model format {version}, but this version of pbos reads up to {FORMAT_VERSION}; upgrade with "
            "pip install --upgrade pbos"
        )
    if not isinstance(config.get("info", {}), dict):
        raise ModelError(f"{folder / CONFIG} has an info that is not an object; {FRESH_COPY}")
    return config


def map_tensors(file: Path, stream: BinaryIO, layout: Layout) -> tuple[Tensors, bytes, dict[str, Any]]:
    """Map a safetensors file into memory; return its tensors, which are views, its header and their checksums."""
    size = os.fstat(stream.fileno()).st_size
    length = int.from_bytes(stream.read(8), "little")
    if not 2 <= length <= min(size - 8, MAX_HEADER):
        raise ModelError(f"{file} has a header of impossible length {length}; {FRESH_COPY}")
    content, start = stream.read(length), 8 + length
    try:
        header = json.loads(content)
        checksums = dict(header.pop("__metadata__", {}))
        entries = {
            name: (entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"])
            for name, entry in header.items()
            if name in layout
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ModelError(f"{file} has a damaged header; {FRESH_COPY}") from None
    data, tensors = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), {}
    for name, (kind, shape, *ends) in entries.items():
        check_type(f"{file}: tensor {name}", kind, shape, layout[name])
        dtype = np.dtype(NUMPY_TYPES[kind])
        are_places = [type(end) for end in ends] == [int, int] and 0 <= ends[0] <= ends[1] <= size - start
        is_aligned = are_places and (start + ends[0]) % dtype.itemsize == 0
        if not is_aligned or ends[1] - ends[0] != math.prod(shape) * dtype.itemsize:
            raise ModelError(f"{file}: tensor {name} is not inside the file, or not aligned; {FRESH_COPY}")
        tensors[name] = np.frombuffer(data, dtype, math.prod(shape), start + ends[0]).reshape(shape)
    return tensors, content, checksums


def check_type(tensor: str, kind: str | None, shape: tuple[int, ...], expected: tuple[tuple[str, ...], int]) -> None:
    """Raise ModelError if a tensor has not the type and the number of dimensions that it should have, or no columns."""
    kinds, n_dims = expected
    if kind not in kinds or len(shape) != n_dims or not all(type(n) is int and n >= 0 for n in shape):
        right = f"{'/'.join(kinds)} with {n_dims} dimensions"
        raise ModelError(f"{tensor} has type {kind!s:.20} and shape {[*shape]!s:.40}, expected {right}")
    if not all(1 <= n <= MAX_DIMS for n in shape[1:]):  # 0 would allow any number of rows
        raise ModelError(f"{tensor} has shape {[*shape]!s:.40}, expected 1 to {MAX_DIMS:,} columns")


def damaged(folder: Path, problem: str) -> ModelError:
    """Return the error about a damaged model."""
    return ModelError(f"{folder} is damaged: {problem}; {FRESH_COPY}")
