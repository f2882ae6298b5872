"""Where the large arrays of a job live: in memory, or in files of a folder that all workers of the job share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.lib.format import open_memmap

from pbos.errors import InputError
from pbos.files.atomic import (
    HIDDEN,
    LOCK,
    check_owner,
    errors_about,
    lock,
    remove,
    reserve,
    save_array,
    staging_path,
    sweep,
    sync,
    write_whole,
)
from pbos.files.paths import names_in, resolve_links
from pbos.jobs.pools import Pool
from pbos.jobs.threads import blocks

Array = npt.NDArray[Any]
Named = TypeVar("Named", bound=tuple[Array, ...])
JOB = "job.json"
_parsing = Lock()  # NumPy parses headers with Python's own parser, which fails at random on several threads (3.11)


class Mapped(np.ndarray):
    """An array in a file, mapped into memory; it is pickled as the name of its file, unlike its slices and copies."""

    path: str | None = None
    is_new = False  # filled here: other machines may not see that yet

    def __reduce__(self) -> Any:
        if self.path is None:
            return np.asarray(self).__reduce__()
        if self.is_new:
            sync(Path(self.path))
            self.is_new = False
        return mapped, (self.path, self.flags.writeable)


def mapped(path: str | Path, writeable: bool = True) -> Mapped:
    """Map the array in a .npy file into memory."""
    with _parsing:
        np.load(path, mmap_mode="r")  # fails if the file was cut short, to which the next line would add zeros
        found = np.load(path, mmap_mode="r+")  # not "r": kernels would be compiled again for read-only arrays
    array: Mapped = found.view(Mapped)
    array.path, array.flags.writeable = str(path), writeable
    return array


class Workspace:
    """Where the large arrays of a job live: in a folder, or in memory if it is None."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(exist_ok=True)

    def empty(self, name: str, shape: tuple[int, ...], dtype: Any, *, by_column: bool = False) -> Array:
        """Return a new array to fill; in a file, a matrix can be stored column by column."""
        if self.folder is None:
            return np.empty(shape, dtype)
        path = self.folder / f"{name}.npy"
        path.unlink(missing_ok=True)  # it may still be mapped elsewhere
        with errors_about(path, path):
            open_memmap(path, "w+", dtype, shape, by_column)
            with path.open("r+b") as stream:
                reserve(stream, path.stat().st_size)
        array = mapped(path)
        array.is_new = True
        return array

    def keep(self, name: str, array: Array) -> Array:
        """Return an array that is in a file, complete, if there is a folder."""
        if self.folder is None or getattr(array, "path", None):
            return array
        path = self.folder / f"{name}.npy"
        with staging_path(path) as temporary:
            with temporary.open("xb") as stream:
                save_array(stream, array)
            temporary.replace(path)
        return mapped(path, array.flags.writeable)

    def keep_all(self, name: str, arrays: Named) -> Named:
        """Return a named tuple of arrays that are kept."""
        return type(arrays)(*map(self.keep, (f"{name}.{field}" for field in arrays._fields), arrays))  # type: ignore[attr-defined]

    def forget(self, *arrays: Array) -> None:
        """Remove the files of arrays that are not needed any more."""
        for array in arrays:
            if path := getattr(array, "path", None):
                Path(path).unlink(missing_ok=True)

    def step(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return arrays and plain data that a function computes, or has computed in an earlier call."""
        if self.folder is None:
            return compute()
        record = self.folder / f"{name}.json"
        with suppress(OSError, ValueError, LookupError):  # not done yet, or damaged since
            return read_record(record)
        found = compute()
        arrays = {key for key, value in found.items() if isinstance(value, np.ndarray)}
        places = {key: Path(self.keep(f"{name}.{key}", found[key]).path).name for key in arrays}  # type: ignore[attr-defined]
        for file in places.values():
            sync(self.folder / file)  # before there is a record of it
        plain = {key: value for key, value in found.items() if key not in arrays}
        with write_whole(record) as stream:
            stream.write(json.dumps({"arrays": places, "plain": plain}).encode())
        return read_record(record)

    def inner(self, name: str) -> Workspace:
        """Return a workspace inside of this one."""
        return Workspace(None if self.folder is None else self.folder / name)


def read_record(file: Path) -> dict[str, Any]:
    """Return the arrays and plain data of a step."""
    saved = json.loads(file.read_bytes())
    return {**saved["plain"], **{key: mapped(file.with_name(name)) for key, name in saved["arrays"].items()}}


@contextmanager
def workspace(folder: Path | None, describe: Callable[[], dict[str, Any]]) -> Iterator[Workspace]:
    """Open the workspace of a job, which `describe` tells from others; its folder stays if it fails."""
    if folder is None:
        yield Workspace()
        return
    check_folder(folder)
    place = resolve_links(folder)
    sweep(place.parent, place.name)
    with lock(place, f"another process is working in {folder}; wait for it, or stop it") as handle:
        check_owner(folder, handle)
        job = json.dumps(describe(), indent=2).encode()
        if not (folder / JOB).exists():
            with write_whole(folder / JOB) as stream:
                stream.write(job)
        elif (folder / JOB).read_bytes() != job:
            raise InputError(f"{folder} has parts of another job; finish that one, or delete the folder")
        yield Workspace(folder)
        remove(place)
        if folder.is_symlink():
            folder.unlink()


def check_folder(folder: Path) -> None:
    """Raise InputError if a folder cannot be the workspace of a job."""
    if not (folder.is_dir() or os.access(folder.parent, os.W_OK)):
        raise InputError(f"cannot keep parts in {folder}: no permission to write in {folder.parent}")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose a folder for the parts")
    names = names_in(folder) - {LOCK}
    if JOB not in names and not all(map(HIDDEN.fullmatch, names)):  # killed before there was a job
        raise InputError(f"{folder} contains files other than the parts of a job; choose another folder for the parts")


class Slices:
    """A matrix whose columns are in several arrays, left to right; only its rows can be read."""

    def __init__(self, parts: list[Array]) -> None:
        self.parts = parts
        self.shape = parts[0].shape[0], sum(part.shape[1] for part in parts)

    def __getitem__(self, rows: Any) -> Array:
        return np.concatenate([part[rows] for part in self.parts], axis=1)

    def joined(self, work: Workspace) -> Array:
        """Return the matrix as one array."""
        whole = work.empty("joined", self.shape, np.float32)
        for some in blocks(self.shape[0]):
            whole[some] = self[some]
        return whole


def solve_slices(
    work: Workspace,
    shape: tuple[int, int],
    slices: list[slice],
    compute: Callable[[slice], dict[str, Any]],
    stage: str,
    pool: Pool,
    memory: int,
    on_slice: Callable[[int], None],
) -> tuple[Any, list[dict[str, Any]]]:
    """Fill a matrix some columns at a time; return it, and the plain data about each slice of its columns.

    In memory it is one array, in a folder a file per slice, left to right. `compute` returns some columns as "vectors",
    and plain data. `on_slice` is called with the number of columns that are done. The rest is as for `Threads.map`.
    """
    whole = np.empty(shape, np.float32) if work.folder is None else None

    def run(some: slice) -> dict[str, Any]:
        found = work.step(f"vectors.{some.start}-{some.stop}", partial(compute, some))
        return {**found, "columns": [some.start, some.stop]}

    def put(part: dict[str, Any]) -> None:
        first, last = part["columns"]
        if whole is not None:
            whole[:, first:last] = part.pop("vectors")
        on_slice(last - first)

    parts = pool.map(stage, run, slices, put, memory)
    return Slices([part.pop("vectors") for part in parts]) if whole is None else whole, parts
