"""Writing files and folders completely or not at all, while other processes do the same; here, or behind URLs."""

from __future__ import annotations

import bz2
import ctypes
import errno
import gzip
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

from pbos.errors import InputError
from pbos.files import PathLike, is_hub, is_remote, local, real, suffix_of, zstandard

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
HIDDEN = re.compile(r"\.(.+)\.[0-9a-f]{12}\.tmp", re.DOTALL)  # folders for what is not complete yet
NEW, OLD = "new", "old"  # names in a hidden folder
DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/(?:fd/(\d+)|(stdout|stderr))")
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check_target(path: PathLike) -> None:
    """Raise an error if no file can be written at a path, before any work is done for it."""
    if suffix_of(path) == ".zst":
        zstandard()
    if is_remote(path):
        from pbos import remote

        remote.check_writable(path)
        return
    given, folder = local(path), real(path).parent
    if not folder.is_dir():
        raise InputError(f"{path} cannot be written: its folder does not exist")
    if not (given.is_dir() or is_standing(given) or os.access(folder, os.W_OK)):
        raise InputError(f"{path} cannot be written: no permission to write in {folder}")


@contextmanager
def errors_about(target: Path, temporary: Path) -> Iterator[None]:
    """Make errors of the system name the file that was requested, not a temporary one."""
    try:
        yield
    except OSError as error:
        if str(error.filename).startswith(str(temporary)) or (error.filename is None and error.errno in DISK_IS_FULL):
            error.filename, error.filename2 = str(target), None
        raise


@contextmanager
def hidden(path: PathLike) -> Iterator[Path]:
    """Yield a new path for what will become a file or folder when it is complete; errors name the path that is given.

    It is in a hidden folder next to the target, which is removed at the end. The folder is locked until then: this
    tells it from those that killed processes have left, which are removed first.
    """
    target = real(path)
    sweep(target.parent, target.name)
    folder = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    with errors_about(local(path), folder), lock(folder):
        try:
            yield folder / NEW
        finally:
            discard(folder)


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes have left of a file or folder that they were writing, or of all (not on Windows)."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        for path in folder.iterdir():
            found = HIDDEN.fullmatch(path.name)
            if found and name in (None, found[1]):
                sweep_one(path, folder / found[1])


def sweep_one(folder: Path, target: Path) -> None:
    """Remove a hidden folder, if the process that has made it is gone."""
    with suppress(OSError):
        folder.rmdir()  # killed before there was a lock: it is empty
    with suppress(OSError):
        handle = os.open(folder / LOCK, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(handle), (folder / LOCK).stat()):
                return  # another process has swept it, and its owner has made it again
            if (folder / OLD).exists() and not target.exists():
                (folder / OLD).rename(target)  # killed after moving it away: see `put_in_place`
            discard(folder)
        finally:
            os.close(handle)


def discard(folder: Path) -> None:
    """Remove a hidden folder; its lock goes last, so that another process can do the rest if this one is killed."""
    with suppress(OSError):
        for path in sorted(folder.iterdir(), key=lambda path: path.name == LOCK):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        folder.rmdir()


def remove(folder: Path) -> None:
    """Remove a folder so that no part of it is left under its name if this is interrupted."""
    folder = real(folder)
    with hidden(folder) as temporary, suppress(FileNotFoundError):
        folder.rename(temporary)


@contextmanager
def write_whole(path: PathLike) -> Iterator[BinaryIO]:
    """Write a file that appears only when it is complete: a hidden one next to it, synced, then renamed.

    The suffix chooses the compression (.gz, .bz2, .xz, .zst). If the block raises, nothing is left behind. Links are
    followed. What is there and not a file, such as a pipe or a device, is written into. A remote file is written here,
    and uploaded when it is complete.
    """
    if is_remote(path):
        from pbos import remote

        with remote.uploaded(path) as temporary, write_whole(temporary) as stream:
            yield stream
        return
    given = local(path)
    if is_standing(given):
        with errors_about(given, given), open_standing(given) as raw, compressed(raw, suffix_of(given)) as stream:
            yield stream
        return
    target = real(path)
    with hidden(path) as temporary:
        with temporary.open("xb") as raw:
            with compressed(raw, suffix_of(given)) as stream:
                yield stream
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(target)
        sync(target.parent)


def is_standing(path: Path) -> bool:
    """Return whether there is something to write into, such as a pipe, and not a file to replace."""
    try:
        kind = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return not stat.S_ISREG(kind) or DESCRIPTOR.fullmatch(str(path)) is not None


def open_standing(path: Path) -> BinaryIO:
    """Open a pipe, a device or an open descriptor for writing."""
    if found := DESCRIPTOR.fullmatch(str(path)):
        number = int(found[1] or {"stdout": 1, "stderr": 2}[found[2]])
        return os.fdopen(os.dup(number), "wb")
    return path.open("wb")


@contextmanager
def compressed(raw: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    """Wrap an open file so that what is written is compressed as the suffix says."""
    stream: Any
    if suffix == ".gz":
        stream = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)  # no name, no time: reproducible
    elif suffix == ".bz2":
        stream = bz2.open(raw, "wb")
    elif suffix == ".xz":
        stream = lzma.open(raw, "wb")
    elif suffix == ".zst":
        stream = zstandard().ZstdCompressor(write_checksum=True).stream_writer(raw, closefd=False)
    else:
        yield raw
        return
    with stream:
        yield stream


@contextmanager
def write_whole_folder(path: PathLike, last: str = "") -> Iterator[Path]:
    """Fill a folder that appears only when it is complete: a hidden one next to it, synced, then renamed.

    A folder that already exists stays until then. If the block raises, nothing is left behind. A remote folder is
    filled here, then uploaded; the file `last`, without which it is of no use, is uploaded last.
    """
    if is_hub(path):
        from pbos import hub

        with hub.uploaded(path) as temporary:
            yield temporary
        return
    if is_remote(path):
        from pbos import remote

        with remote.uploaded(path, last) as temporary:
            temporary.mkdir()
            yield temporary
        return
    target = real(path)
    with hidden(path) as temporary:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)
        put_in_place(temporary, target)


@contextmanager
def lock(folder: Path, busy: str | None = None) -> Iterator[None]:
    """Make a folder, if it is not there, and keep other processes out of it (not on Windows).

    If another process is in there, wait for it or, if `busy` is given, raise InputError with this message. What is
    locked is a file in the folder, because folders of other machines cannot be.
    """
    handle = None
    while handle is None:
        with nullcontext() if folder.is_symlink() else suppress(FileExistsError):  # another process may just remove it
            folder.mkdir(exist_ok=True)
        if sys.platform == "win32":
            break
        handle = locked(folder / LOCK, busy)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def locked(file: Path, busy: str | None) -> int | None:
    """Open and lock a file; return None if another process has just removed it."""
    handle = None
    try:
        handle = os.open(file, os.O_RDWR | os.O_CREAT)
        with suppress(OSError) if busy is None else nullcontext():  # some disks have no locks
            fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        if os.path.samestat(os.fstat(handle), file.stat()):
            found, handle = handle, None
            return found
    except FileNotFoundError:
        pass
    except BlockingIOError:
        raise InputError(busy) from None
    finally:
        if handle is not None:
            os.close(handle)
    return None


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename a folder to its final name; if there is a folder of that name, exchange the two.

    Other processes may do the same at the same time: the last one wins. Without an exchange (Windows, some network
    disks) there is no folder of that name for a moment.
    """
    while not (renamed(temporary, target) or exchange(temporary, target)):
        old = temporary.with_name(OLD)
        shutil.rmtree(old, ignore_errors=True)
        with suppress(FileNotFoundError):  # another process has just moved it
            target.rename(old)
    sync(target.parent)


def renamed(folder: Path, target: Path) -> bool:
    """Rename a folder; return False if there is another one with content."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def exchange(first: Path, second: Path) -> bool:
    """Swap two folders atomically; return False if the system cannot."""
    if sys.platform == "win32":
        return False
    libc: Any = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    if hasattr(libc, "renameat2"):  # Linux; 2 = RENAME_EXCHANGE, -100 = relative to the working folder
        return bool(libc.renameat2(-100, names[0], -100, names[1], 2) == 0)
    if hasattr(libc, "renamex_np"):  # macOS; 2 = RENAME_SWAP
        return bool(libc.renamex_np(names[0], names[1], 2) == 0)
    return False


def reserve(stream: BinaryIO, size: int) -> None:
    """Make a file as large as it will be; a full disk is an error now, not a crash when the mapped file is filled."""
    if hasattr(os, "posix_fallocate") and size:
        os.posix_fallocate(stream.fileno(), 0, size)
    else:
        stream.truncate(size)


def sync(path: Path) -> None:
    """Write a file or the entries of a folder to disk (not all systems can sync folders)."""
    is_folder = path.is_dir()
    if is_folder and sys.platform == "win32":
        return
    with suppress(PermissionError) if is_folder else nullcontext():
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)  # Windows syncs only what may be written
        try:
            os.fsync(handle)
        except OSError as error:
            if not is_folder or error.errno != errno.EINVAL:
                raise
        finally:
            os.close(handle)
