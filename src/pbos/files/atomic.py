"""Writing files and folders completely or not at all, while other processes do the same; here, or behind URLs."""

from __future__ import annotations

import bz2
import ctypes
import errno
import gzip
import itertools
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, BinaryIO

from pbos.errors import InputError
from pbos.files.paths import (
    PathLike,
    is_hub,
    is_remote,
    resolve_links,
    suffix_of,
    to_local_path,
    url_of,
    zstandard,
)
from pbos.files.remote import store_of

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
HIDDEN = re.compile(r"\.(.+)\.[0-9a-f]{12}\.tmp", re.DOTALL)  # folders for what is not complete yet
NEW, OLD = "new", "old"  # names in a hidden folder; the latter with a number
CONTENT = re.compile(rf"{re.escape(LOCK)}|{NEW}|{OLD}\d*|\.{NEW}\.[0-9a-f]{{12}}\.tmp")
DESCRIPTOR = re.compile(r"/dev/(?:fd/(\d+)|(stdout|stderr))")
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_target(path: PathLike) -> None:
    """Raise an error if no file can be written at a path, before any work is done for it."""
    if suffix_of(path) == ".zst":
        zstandard()
    if is_remote(path):
        with store_of(url_of(path)) as (system, place):  # to find out, an empty file is written next to it
            probe = f"{place}.{secrets.token_hex(6)}.tmp"
            system.pipe_file(probe, b"")
            with suppress(Exception):  # some may write, but not remove
                system.rm_file(probe)
        return
    given, folder = to_local_path(path), resolve_links(path).parent
    if not folder.is_dir():
        raise InputError(f"{path} cannot be written: its folder does not exist")
    if not (given.is_dir() or is_special_file(given) or os.access(folder, os.W_OK)):
        raise InputError(f"{path} cannot be written: no permission to write in {folder}")


def save_array(stream: BinaryIO, array: Any) -> None:
    """Write an array as .npy. Unlike NumPy on a real file, this says so if the disk is full."""
    import numpy as np  # here, because most of what imports this file needs none

    np.save(SimpleNamespace(write=stream.write), array)


@contextmanager
def errors_about(target: Path, temporary: Path) -> Iterator[None]:
    """Make errors of the system name the file that was requested, not a temporary one."""
    try:
        yield
    except OSError as error:
        if str(error.filename).startswith(str(temporary)) or (error.filename is None and error.errno in DISK_IS_FULL):
            error.filename = str(target)
            del error.filename2  # with None there, the error would say "-> None"
        raise


@contextmanager
def staging_path(target: Path) -> Iterator[Path]:
    """Yield a new path for what will become a file or folder when it is complete; errors name the target.

    It is in a hidden folder next to the target, which is locked and removed at the end. Those that killed processes
    have left are not locked, and removed first. If the target is a link, it is not followed.
    """
    sweep(target.parent, target.name)
    folder = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    with errors_about(target, folder), lock(folder, mode=0o700) as handle:
        if handle is not None and [entry.name for entry in os.scandir(handle)] != [LOCK]:  # somebody put another there
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(target))
        try:
            yield folder / NEW
        finally:
            discard(folder, handle)


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes have left of a file or folder that they were writing, or of all (not on Windows)."""
    with suppress(OSError):
        for path in folder.iterdir() if sys.platform != "win32" else ():
            found = HIDDEN.fullmatch(path.name)
            if found and name in (None, found[1]):
                sweep_one(path, folder / found[1])


def sweep_one(folder: Path, target: Path) -> None:
    """Remove a hidden folder, if it is ours and the process that has made it is gone."""
    with suppress(OSError), ExitStack() as stack:
        handle = _open_folder(folder, stack, True)
        with suppress(OSError):
            folder.rmdir()  # killed before there was a lock: it is empty
        file = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW, dir_fd=handle)
        stack.callback(os.close, file)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        names = sorted(entry.name for entry in os.scandir(handle))
        is_same = os.path.samestat(os.fstat(file), (folder / LOCK).lstat())  # else it was swept, and made again
        if is_same and all(map(CONTENT.fullmatch, names)):  # else something else was given this name
            if names[-1].startswith(OLD) and not target.exists():
                os.rename(names[-1], target, src_dir_fd=handle)  # killed after moving it away: see `put_in_place`
            discard(folder, handle)


def _open_folder(folder: Path, stack: ExitStack, is_ours: bool = False) -> int:
    """Open a folder until the stack ends, but none that a link leads to or, on request, that another user owns."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    stack.callback(os.close, handle)
    if is_ours and os.fstat(handle).st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(folder))
    return handle


def discard(folder: Path, handle: int | None = None) -> None:
    """Remove a folder that is ours; its lock goes last, so that another process can do the rest if this one is killed.

    It is emptied by descriptor (`handle`, if it is open), as somebody may put another in its place. Links are removed,
    not followed.
    """
    with suppress(OSError), ExitStack() as stack:
        if sys.platform == "win32":
            shutil.rmtree(folder)
            return
        if handle is None:
            handle = _open_folder(folder, stack, True)
        for _, folders, files, inner in os.fwalk(".", topdown=False, dir_fd=handle):
            for name in folders:
                try:
                    os.rmdir(name, dir_fd=inner)
                except NotADirectoryError:  # a link to one
                    os.unlink(name, dir_fd=inner)
            for name in sorted(files, key=lambda name: name == LOCK):
                os.unlink(name, dir_fd=inner)
        folder.rmdir()


def remove(folder: Path) -> None:
    """Remove a folder so that no part of it is left under its name if this is interrupted; of a link, only the link."""
    with staging_path(folder) as temporary, suppress(FileNotFoundError):
        folder.rename(temporary)


@contextmanager
def write_whole(path: PathLike) -> Iterator[BinaryIO]:
    """Write a file that appears only when it is complete: a hidden one next to it, synced, then renamed.

    The suffix chooses the compression (.gz, .bz2, .xz, .zst). Links are followed. A pipe or a device is written into. A
    remote file is uploaded when it is complete.
    """
    if is_remote(path):
        with uploaded(path) as temporary, write_whole(temporary) as stream:
            yield stream
        return
    given = to_local_path(path)
    if is_special_file(given):
        descriptor = DESCRIPTOR.fullmatch(str(given))
        number = int(descriptor[1] or {"stdout": 1, "stderr": 2}[descriptor[2]]) if descriptor else None
        raw = given.open("wb") if number is None else os.fdopen(os.dup(number), "wb")
        with errors_about(given, given), raw, compressed(raw, suffix_of(given)) as stream:
            yield stream
        return
    target = resolve_links(path)
    with errors_about(given, target), staging_path(target) as temporary:
        with temporary.open("xb") as raw:
            keep_mode(raw.fileno(), target)
            with compressed(raw, suffix_of(given)) as stream:
                yield stream
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(target)
        sync(target.parent)


def is_special_file(path: Path) -> bool:
    """Return whether there is something to write into, such as a pipe, and not a file to replace."""
    with suppress(FileNotFoundError, NotADirectoryError):
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return not stat.S_ISREG(kind) or DESCRIPTOR.fullmatch(str(path)) is not None
    return False


def compressed(raw: BinaryIO, suffix: str) -> AbstractContextManager[BinaryIO]:
    """Wrap an open file so that what is written is compressed as the suffix says."""
    compressors: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        ".gz": lambda: gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0),  # no name, no time: reproducible
        ".bz2": lambda: bz2.open(raw, "wb"),
        ".xz": lambda: lzma.open(raw, "wb"),
        ".zst": lambda: zstandard().ZstdCompressor(write_checksum=True).stream_writer(raw, closefd=False),
    }
    return compressors.get(suffix, lambda: nullcontext(raw))()


@contextmanager
def write_whole_folder(path: PathLike, last: str = "") -> Iterator[Path]:
    """Fill a folder that appears only when it is complete: a hidden one next to it, synced, then renamed.

    A folder that already exists stays until then. A link to a folder is an error. A remote folder is uploaded when it
    is complete; the file `last`, without which it is of no use, comes last.
    """
    if is_hub(path):
        from pbos.files import hub

        with hub.uploaded(path) as temporary:
            yield temporary
        return
    if is_remote(path):
        with uploaded(path, last) as temporary:
            temporary.mkdir()
            yield temporary
        return
    target = to_local_path(path)
    with staging_path(target) as temporary:
        temporary.mkdir()
        yield temporary
        put_in_place(temporary, target)


@contextmanager
def uploaded(path: PathLike, last: str = "") -> Iterator[Path]:
    """Yield the path of a local file or folder to make; it is uploaded when the block is done.

    A file appears at its URL when it is complete, if that is what the store does. A folder does not: the file `last` is
    empty until all others are there.
    """
    check_target(path)
    with tempfile.TemporaryDirectory(prefix="pbos-") as scratch:
        local = Path(scratch, f"new{PurePosixPath(url_of(path)).suffix}")
        yield local
        with store_of(url_of(path)) as (system, place):
            if local.is_file():
                system.put_file(str(local), place)
                return
            with suppress(OSError):  # some stores have folders that have to be made, in others this fails
                system.mkdir(place, create_parents=False)
            system.pipe_file(f"{place}/{last}", b"")
            for file in sorted(local.iterdir(), key=lambda file: file.name == last):
                system.put_file(str(file), f"{place}/{file.name}")


@contextmanager
def lock(folder: Path, busy: str | None = None, mode: int = 0o777) -> Iterator[int | None]:
    """Make a folder, if it is not there, keep other processes out of it, and yield it, open (None on Windows).

    If another process is in there, wait for it or, if `busy` is given, raise InputError with this message. The lock is
    on a file in the folder, because folders of other machines cannot be locked. A link to a folder is an error.
    """
    if sys.platform == "win32":
        folder.mkdir(exist_ok=True)
        yield None
        return
    with ExitStack() as stack:
        while True:
            stack.close()
            with suppress(FileExistsError):
                folder.mkdir(mode)
            with suppress(FileNotFoundError), errors_about(folder / LOCK, Path(LOCK)):  # somebody has just removed it
                handle = _open_folder(folder, stack)
                file = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666, dir_fd=handle)
                stack.callback(os.close, file)
                with suppress(OSError):  # some disks have no locks
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
                    except BlockingIOError:
                        raise InputError(busy) from None
                if os.path.samestat(os.fstat(file), (folder / LOCK).lstat()):
                    break
        yield handle


def check_owner(folder: Path, handle: int | None) -> None:
    """Raise InputError if another user owns an open folder, and so may put links into it (not on Windows)."""
    if handle is None or (owner := os.fstat(handle).st_uid) == os.geteuid():
        return
    with tempfile.TemporaryFile(dir=folder) as probe:  # some network disks have owners of their own
        if os.fstat(probe.fileno()).st_uid != owner:
            raise InputError(f"{folder} belongs to another user; choose another folder, or remove it")


def keep_mode(new: int, target: Path) -> None:
    """Give an open new file or folder the mode of what it replaces (not on Windows).

    To replace what another user owns gives nobody more rights than a new file does, and another group has only the
    rights that all have.
    """
    with suppress(OSError, AttributeError):  # there is nothing, or the disk or the system has no modes
        before, now = target.stat(), os.fstat(new)
        mode = before.st_mode & 0o777 | now.st_mode & 0o7000
        if before.st_uid != now.st_uid:
            mode &= now.st_mode
        if before.st_gid != now.st_gid:
            mode &= ~0o070 | mode << 3
        os.fchmod(new, mode)


def put_in_place(temporary: Path, target: Path) -> None:
    """Sync a folder and rename it to its final name; if there is a folder of that name, exchange the two.

    Other processes may do the same at the same time: the last one wins. Without an exchange (Windows, some network
    disks) there is no folder of that name for a moment.
    """
    for file in temporary.iterdir():
        sync(file, target / file.name)
    sync(temporary, target)
    for moved in itertools.count():
        try:
            temporary.rename(target)
            break
        except OSError as error:  # there is another one with content
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if exchange(temporary, target):
            break
        with suppress(FileNotFoundError):  # another process has just moved it
            target.rename(temporary.with_name(f"{OLD}{moved}"))
    sync(target.parent)


def exchange(first: Path, second: Path) -> bool:
    """Swap two folders atomically; return False if the system cannot."""
    libc: Any = None if sys.platform == "win32" else ctypes.CDLL(None)
    names = os.fsencode(first), os.fsencode(second)
    if hasattr(libc, "renameat2"):  # Linux; 2 = RENAME_EXCHANGE, -100 = relative to the working folder
        return bool(libc.renameat2(-100, names[0], -100, names[1], 2) == 0)
    # macOS; 2 = RENAME_SWAP
    return hasattr(libc, "renamex_np") and bool(libc.renamex_np(names[0], names[1], 2) == 0)


def reserve(stream: BinaryIO, size: int) -> None:
    """Make a file as large as it will be; a full disk is an error now, not a crash when the mapped file is filled."""
    if hasattr(os, "posix_fallocate") and size:
        os.posix_fallocate(stream.fileno(), 0, size)
    else:
        stream.truncate(size)


def sync(path: Path, replaced: Path | None = None) -> None:
    """Sync a file, or the entries of a folder if the system can; give it the mode of what it will replace."""
    is_folder = path.is_dir()
    with ExitStack() as stack, suppress(OSError) if is_folder else nullcontext():
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)  # Windows syncs only what may be written
        stack.callback(os.close, handle)
        if replaced is not None:
            keep_mode(handle, replaced)
        os.fsync(handle)
