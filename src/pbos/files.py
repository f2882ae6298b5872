"""Opening files with any compression, and writing them completely or not at all; here, or behind URLs."""

from __future__ import annotations

import bz2
import ctypes
import errno
import gzip
import io
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

from pbos.errors import FormatError, InputError, MissingExtraError, warn

if sys.platform != "win32":
    import fcntl

PathLike = str | os.PathLike[str]
Line = tuple[int, str]  # its number, from 1, and its text

LOCAL_URL = re.compile(r"file:(?://|(?=/))")  # of the two slashes, a Path keeps one
REMOTE_URL = re.compile(r"(?!file:)([a-z][a-z0-9+.:-]+?):/+")
LOCK = ".lock"
MAX_LINE = 16 << 20  # bytes of a line of words
HIDDEN = re.compile(r"\.(.+)\.[0-9a-f]{12}\.tmp", re.DOTALL)  # folders for what is not complete yet
NEW, OLD = "new", "old"  # names in a hidden folder
DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/(?:fd/(\d+)|(stdout|stderr))")
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BOM = b"\xef\xbb\xbf"
MAGIC = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
ROOM, MOST_EXPANSION = 16 << 20, 300  # bytes that any file may become, and for each byte of it
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
CSV = {".csv": ",", ".tsv": "\t"}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def is_table(path: PathLike) -> bool:
    """Return whether the name of a file is that of a table: Parquet, Arrow (Feather), CSV or TSV.

    >>> is_table("words.parquet"), is_table("words.csv.gz"), is_table("words.txt")
    (True, True, False)
    """
    return suffix_of(path) in PARQUET + ARROW or separator_of(path) is not None


def separator_of(path: PathLike) -> str | None:
    """Return what separates the columns of a CSV or TSV file, possibly compressed; None if it is something else."""
    return CSV.get(plain_suffix(path))


def plain_suffix(path: PathLike) -> str:
    """Return the suffix of a file in lower case, without that of its compression.

    >>> plain_suffix("vectors.vec.gz"), plain_suffix("WORDS.CSV"), plain_suffix("vectors")
    ('.vec', '.csv', '')
    """
    return suffix_of(Path(path).stem if suffix_of(path) in COMPRESSIONS else path)


def suffix_of(path: PathLike) -> str:
    """Return the last suffix of a file in lower case."""
    return Path(path).suffix.lower()


def is_remote(path: PathLike) -> bool:
    """Return whether a path is a URL, except for those of local files.

    >>> is_remote("s3://bucket/words.txt"), is_remote("file:///home/words.txt"), is_remote("words.txt")
    (True, False, False)
    """
    return REMOTE_URL.match(os.fspath(path)) is not None


def is_hub(path: PathLike) -> bool:
    """Return whether a path is on the Hugging Face Hub.

    >>> is_hub("hf://owner/name"), is_hub("https://host/name")
    (True, False)
    """
    return os.fspath(path).startswith("hf:/")


def url_of(path: PathLike) -> str:
    """Return a URL, without a slash at its end.

    >>> url_of(Path("s3://bucket/model/"))  # a Path drops slashes
    's3://bucket/model'
    """
    return REMOTE_URL.sub(r"\1://", os.fspath(path), count=1).rstrip("/")


def local(path: PathLike) -> Path:
    """Return the path of a local file or folder, which may be given as file:///path; other URLs are an error."""
    text = os.fspath(path)
    if not text or "\0" in text:
        raise InputError(f"{text!r} is not the name of a file or folder; give another one")
    if path == "-":
        raise InputError("- is no file here; write /dev/stdin, /dev/stdout, or ./- for a file of this name")
    if is_remote(path):
        raise InputError(f"{url_of(path)}: this has to be a path on this machine, not a URL")
    return Path(unquote(LOCAL_URL.sub("", text, count=1)) if LOCAL_URL.match(text) else path)


def absolute(path: PathLike) -> Path:
    """Return a path from the root, without `.` and `..`; unlike Path.resolve, it does not follow links."""
    return Path(os.path.abspath(local(path)))  # noqa: PTH100


def real(path: PathLike) -> Path:
    """Return the path of what links lead to, which need not be there."""
    return Path(os.path.realpath(local(path)))


def everywhere(path: PathLike) -> str:
    """Return a path from the root, or a URL: what means the same to all processes."""
    return url_of(path) if is_remote(path) else str(absolute(path))


def user_cache(name: str) -> Path:
    """Return a folder for what was downloaded: in ~/.cache/pbos, or in the folder that PBOS_CACHE names."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "pbos")
    return Path(os.environ.get("PBOS_CACHE") or own, name).expanduser()


def exists(path: PathLike) -> bool:
    """Return whether there is a file or folder at a path or URL."""
    if is_remote(path):
        from pbos import remote

        return remote.exists(path)
    return local(path).exists()


def is_folder(path: PathLike) -> bool:
    """Return whether there is a folder at a path or URL."""
    if is_remote(path):
        from pbos import remote

        return remote.exists(path) and remote.is_folder(path)
    return local(path).is_dir()


def names_in(path: PathLike) -> set[str]:
    """Return the names of what is in a folder; none if there is no such folder."""
    if is_remote(path):
        from pbos import remote

        return remote.names_in(path)
    return {entry.name for entry in local(path).iterdir()} if local(path).is_dir() else set()


# Reading --------------------------------------------------------------------------------------------------------------


def read_lines(path: PathLike, *, encodings: tuple[str, ...] = ("UTF-8",), keep_blank: bool = False) -> list[Line]:
    """Read the lines of a text file, possibly compressed; they end in LF, CRLF or CR. Encodings are tried in order."""
    with open_bytes(path) as stream:
        data = stream.read().removeprefix(BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for encoding in encodings:
        try:
            text = data.decode(encoding)
            break
        except UnicodeDecodeError as error:
            at = error.start
    else:
        line = data.count(b"\n", 0, at) + 1
        raise FormatError(
            f"{path}, line {line}: the byte 0x{data[at]:02x} is not {' or '.join(encodings)}; convert the file to UTF-8"
        )
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if keep_blank or line.strip(" \t")]
    if not lines:
        raise FormatError(f"{path}: the file is empty")
    return lines


def lines_between(stream: BinaryIO, first: int = 0, end: int | None = None) -> Iterator[bytes]:
    r"""Yield the lines that start between two positions, without a byte order mark.

    >>> list(lines_between(io.BytesIO(b"one\ntwo\nthree\n"), 4, 9))
    [b'two\n', b'three\n']
    """
    at = 0
    if first:
        at = stream.seek(first - 1)
        at += len(stream.readline())
    while line := stream.readline(MAX_LINE):
        if end is not None and at >= end:
            return
        if len(line) == MAX_LINE:
            raise InputError(f"the line at byte {at} has over {MAX_LINE >> 20} MiB; expected one word per line")
        yield line.removeprefix(BOM)  # in any line: files with one may have been joined
        at += len(line)


def decoded_lines(lines: Iterable[bytes], place: str) -> Iterator[str]:
    """Yield lines as text; a warning names the place of what is not UTF-8."""
    bad = first = 0
    for number, line in enumerate(lines, 1):
        if b"\0" in line:
            raise InputError(f"{place} {number} is not UTF-8 text; expected one word per line")
        try:
            yield line.decode()
        except UnicodeDecodeError:
            bad, first = bad + 1, first or number
            yield line.decode(errors="replace")
    if bad:
        what = "line is" if bad == 1 else "lines are"
        warn(f"{place} {first}: {bad:,} {what} not UTF-8; U+FFFD replaces the bad bytes")


def open_file(path: PathLike) -> io.BufferedReader:
    """Open a file for reading bytes."""
    if is_remote(path):
        from pbos import remote

        return io.BufferedReader(remote.RemoteFile(path), buffer_size=1 << 20)
    return local(path).open("rb")


def size_of(path: PathLike) -> int | None:
    """Return the size of a file in bytes; None if it can only be read from its start, as from some servers."""
    with open_file(path) as stream:
        return stream.seek(0, os.SEEK_END) if stream.seekable() else None


def on_disk(path: PathLike) -> Path:
    """Return the path of a file that can be mapped; a remote one is fetched."""
    if is_remote(path):
        folder, name = os.path.split(path)
        return fetch(folder, name) / name
    return local(path)


def fetch(path: PathLike, *names: str) -> Path:
    """Return a local folder with copies of some files of a remote folder; they are copied once."""
    if is_hub(path):
        from pbos import hub

        return hub.fetch(path, *names)
    from pbos import remote

    return remote.fetch(path, *names)


@contextmanager
def open_bytes(path: PathLike) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; gz, bz2, xz and zst are recognized by content, not by name.

    Compressed data that is damaged or cut short raises FormatError, at the latest when the end is reached.
    """
    with open_file(path) as raw:
        kind = compression(raw.peek(6))
        if kind is None:
            yield raw
            return
        openers: dict[str, Any] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open, "zst": ZstdReader}
        counted = Counted(raw)
        with io.BufferedReader(Expanded(path, openers[kind](counted), counted), buffer_size=1 << 20) as stream:
            try:
                yield cast(BinaryIO, stream)
            except Exception as error:
                if not is_damage(error):
                    raise
                raise FormatError(
                    f"{path}: the compressed data is damaged or cut short ({error}); copy or download the file again"
                ) from error


def is_damage(error: Exception) -> bool:
    """Return whether an error is one that decompressors raise on bad data."""
    if isinstance(error, OSError):
        return error.errno is None  # from gzip and bz2; errors of a disk have a number
    return isinstance(error, (EOFError, zlib.error, lzma.LZMAError)) or type(error).__name__ == "ZstdError"


def compression(head: bytes) -> str | None:
    """Return the compression that the first bytes of a file indicate: gz, bz2, xz, zst or None."""
    return next((name for magic, name in MAGIC.items() if head.startswith(magic)), None)


def zstandard() -> Any:
    """Return the zstandard library."""
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("reading or writing .zst files", "zstd") from None
    return zstandard


def check_expansion(path: PathLike, packed: int, unpacked: int) -> None:
    """Raise FormatError if compressed data becomes so large that it must be meant to fill the memory or the disk."""
    if unpacked > ROOM + MOST_EXPANSION * packed:
        raise FormatError(
            f"{path}: {packed:,} compressed bytes became over {unpacked:,}, which no text or vectors do; "
            "if you trust the file, decompress it yourself"
        )


class Counted(io.RawIOBase):
    """Counts the bytes read from a file."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw, self.count = raw, 0

    def readable(self) -> bool:
        """Return True, as decompressors require."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read some bytes."""
        data = self.raw.read(size)
        self.count += len(data)
        return data


class Expanded(io.RawIOBase):
    """Reads what a decompressor yields, as long as it is not suspiciously much."""

    def __init__(self, path: PathLike, unpacked: BinaryIO, packed: Counted) -> None:
        self.path, self.unpacked, self.packed, self.count = path, unpacked, packed, 0

    def readable(self) -> bool:
        """Return True, as io.BufferedReader requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer."""
        size = self.unpacked.readinto(buffer)  # type: ignore[attr-defined]
        self.count += size
        check_expansion(self.path, self.packed.count, self.count)
        return int(size)


class ZstdReader(io.RawIOBase):
    """Decompresses zst frames; unlike the library's own reader, raises EOFError if the last frame is cut short."""

    def __init__(self, raw: BinaryIO) -> None:
        self.chunks = self.decompress(raw)
        self.left = memoryview(b"")

    def decompress(self, raw: BinaryIO) -> Iterator[bytes]:
        """Yield the content in chunks that are not empty."""
        decompressor, library = None, zstandard()
        while data := raw.read(1 << 11):  # at most 64 MB, as a block of 128 kB takes at least four bytes
            while data:
                decompressor = decompressor or library.ZstdDecompressor().decompressobj()
                if chunk := decompressor.decompress(data):
                    yield chunk
                data = decompressor.unused_data if decompressor.eof else b""
                if decompressor.eof:
                    decompressor = None
        if decompressor is not None:
            raise EOFError("zst data ended in the middle of a frame")

    def readable(self) -> bool:
        """Return True, as io.BufferedReader requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer from the current chunk."""
        self.left = self.left or memoryview(next(self.chunks, b""))
        size = min(len(buffer), len(self.left))
        buffer[:size] = self.left[:size]
        self.left = self.left[size:]
        return size


# Writing --------------------------------------------------------------------------------------------------------------


def check_target(path: PathLike) -> None:
    """Raise an error if no file can be written at a path, before any work is done for it."""
    if is_remote(path):
        from pbos import remote

        remote.check_writable(path)
        return
    given, folder = local(path), real(path).parent
    if given.is_dir() or is_standing(given):
        return
    if not folder.is_dir():
        raise InputError(f"{path} cannot be written: its folder does not exist")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: no permission to write in {folder}")


@contextmanager
def errors_about(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Make errors of the system name the file that was requested, not a temporary one."""
    try:
        yield
    except OSError as error:
        is_ours = temporary is None or str(error.filename).startswith(str(temporary))
        if is_ours or (error.filename is None and error.errno in DISK_IS_FULL):
            error.filename, error.filename2 = str(target), None
        raise


@contextmanager
def hidden(target: Path, given: Path | None = None) -> Iterator[Path]:
    """Yield a new path for what will become a file or folder when it is complete; errors name the path that was given.

    It is in a hidden folder next to the target, which is removed at the end. The folder is locked until then: this
    tells it from those that killed processes have left, which are removed first.
    """
    sweep(target.parent, target.name)
    folder = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    with errors_about(given or target, folder), lock(folder):
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
    given, target = local(path), real(path)
    if is_standing(given):
        with errors_about(given, given), open_standing(given) as raw, compressed(raw, suffix_of(given)) as stream:
            yield stream
        return
    with hidden(target, given) as temporary:
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
    except FileNotFoundError:
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
    with hidden(target, local(path)) as temporary:
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
