"""Opening files whatever their compression, and writing them whole or not at all."""

from __future__ import annotations

import bz2
import ctypes
import gzip
import io
import lzma
import os
import secrets
import shutil
import sys
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from pbos.errors import FormatError, MissingExtraError, PbosWarning

MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")


def is_table(path: str | os.PathLike[str]) -> bool:
    """Tell by its name whether a file is a table: Parquet or Arrow (Feather).

    >>> is_table("words.parquet"), is_table("words.txt")
    (True, False)
    """
    return Path(path).suffix in PARQUET + ARROW


def compression(head: bytes) -> str | None:
    """Name the compression a file's first bytes announce: gz, bz2, xz, zst or None."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def zstandard() -> Any:
    """Import the zstandard library, or say which extra brings it."""
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("reading or writing .zst files", "zstd") from None
    return zstandard


@contextmanager
def open_bytes(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; gz, bz2, xz and zst are recognised by content, not by name.

    Compressed data that is damaged or cut short raises a FormatError, at the latest when the end is reached.
    """
    with Path(path).open("rb") as raw:
        kind = compression(raw.peek(6))
        if kind is None:
            yield raw
            return
        stream: IO[bytes]
        if kind == "gz":
            stream = cast(IO[bytes], gzip.open(raw))
        elif kind == "bz2":
            stream = bz2.open(raw)
        elif kind == "xz":
            stream = lzma.open(raw)
        else:
            stream = cast(IO[bytes], ZstdReader(raw))
        with io.BufferedReader(cast(io.RawIOBase, stream), buffer_size=1 << 20) as buffered, damage_named(path):
            yield cast(BinaryIO, buffered)


class ZstdReader(io.RawIOBase):
    """Decompress zst frames; unlike the library's own reader, it raises EOFError where the last frame is cut short."""

    def __init__(self, raw: BinaryIO) -> None:
        self.chunks = self.decompress(raw)
        self.left = memoryview(b"")

    def decompress(self, raw: BinaryIO) -> Iterator[bytes]:
        """Yield the content, one chunk for each piece of compressed data."""
        decompressor, library = None, zstandard()
        while data := raw.read(1 << 17):
            while data:
                decompressor = decompressor or library.ZstdDecompressor().decompressobj()
                yield decompressor.decompress(data)
                data = decompressor.unused_data if decompressor.eof else b""
                if decompressor.eof:
                    decompressor = None
        if decompressor is not None:
            raise EOFError("zst data ended in the middle of a frame")

    def readable(self) -> bool:
        """Say yes, as io.BufferedReader asks."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the chunk at hand goes."""
        while not self.left:
            try:
                self.left = memoryview(next(self.chunks))
            except StopIteration:
                return 0
        size = min(len(buffer), len(self.left))
        buffer[:size] = self.left[:size]
        self.left = self.left[size:]
        return size


@contextmanager
def damage_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever a decompressor raises on bad data into one FormatError that names the file."""
    try:
        yield
    except Exception as error:
        damaged = (
            isinstance(error, (EOFError, zlib.error, lzma.LZMAError))
            or (isinstance(error, OSError) and error.errno is None)  # gzip and bz2; a disk's error has a number
            or type(error).__name__ == "ZstdError"  # by name: the library is optional
        )
        if not damaged:
            raise
        raise FormatError(
            f"{path}: the compressed data is damaged or cut short ({error}); copy or fetch the file again"
        ) from error


def warn(message: str) -> None:
    """Warn with a PbosWarning that points at the first line of code outside pbos."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "pbos":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, PbosWarning, stacklevel=level)


def sibling(target: Path) -> Path:
    """Return a new, hidden name beside a file or folder, for what is not whole yet."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")


@contextmanager
def write_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write a file that appears only when whole: a temporary sibling, synced, then renamed.

    The suffix chooses the compression (.gz, .bz2, .xz, .zst). When the block raises, nothing is left behind.
    """
    target = Path(path)
    temporary = sibling(target)
    try:
        with temporary.open("xb") as raw:
            with compressed(raw, target.suffix) as stream:
                yield stream
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


@contextmanager
def compressed(raw: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    """Wrap an open file so that what is written is compressed as the suffix says."""
    stream: Any
    if suffix == ".gz":
        stream = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)  # no name, no time: same bytes each run
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
def write_whole_folder(target: Path) -> Iterator[Path]:
    """Fill a folder that appears only when whole: a temporary sibling, synced, then put in place in one step.

    A folder that is already there stays until then. When the block raises, nothing is left behind.
    """
    temporary = sibling(target)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.iterdir():
            sync(file)
        sync(temporary)
        put_in_place(temporary, target)
        sync(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # what was there before, or what failed


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename a folder to its place in one step; if a folder is there, exchange the two."""
    if target.exists() and any(target.iterdir()):
        if exchange(temporary, target):
            return
        # Without an exchange there is a moment in which the old folder has moved away and the new one is not there yet.
        old = temporary.with_suffix(".old")
        target.rename(old)
        temporary.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        if target.exists() and sys.platform == "win32":
            target.rmdir()  # POSIX renames over an empty folder
        temporary.rename(target)


def exchange(first: Path, second: Path) -> bool:
    """Swap two folders atomically; False where the system cannot."""
    if sys.platform == "win32":
        return False
    libc: Any = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    if hasattr(libc, "renameat2"):  # Linux; 2 = RENAME_EXCHANGE, -100 = relative to the working folder
        return bool(libc.renameat2(-100, names[0], -100, names[1], 2) == 0)
    if hasattr(libc, "renamex_np"):  # macOS; 2 = RENAME_SWAP
        return bool(libc.renamex_np(names[0], names[1], 2) == 0)
    return False


def sync(path: Path) -> None:
    """Have the system write a file or a folder's entries to disk (folders: where it knows how)."""
    if path.is_dir() and sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
