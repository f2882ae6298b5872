"""Paths and URLs, and opening what is there, with any compression."""

from __future__ import annotations

import bz2
import errno
import hashlib
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast
from urllib.parse import unquote

from pbos.errors import FormatError, InputError, MissingExtraError, PbosError, harmless, redacted, warn
from pbos.files.remote import RemoteFile, state_in, store_of

PathLike = str | os.PathLike[str]
Line = tuple[int, str]  # its number, from 1, and its text

LOCAL_URL = re.compile(r"file:(?://|(?=/))")  # of the two slashes, a Path keeps one
REMOTE_URL = re.compile(r"(?!file:)([a-z][a-z0-9+.:-]+?):/+", re.IGNORECASE)
MAX_LINE = 16 << 20  # bytes of a line of words
BLOCK = 1 << 20  # bytes read at a time
PACKED = 1 << 11  # compressed bytes read at a time; they become 64 MB at most
FIRST = 8000  # bytes of a file in which a NUL says that it is no text, as for git
BOM = b"\xef\xbb\xbf"
ROOM, MOST_EXPANSION = 16 << 20, 300  # bytes that any file may become, and for each byte of it
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
CSV = {".csv": ",", ".tsv": "\t"}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def is_table(path: PathLike) -> bool:
    """Return whether the name of a file is that of a table: Parquet, Arrow (Feather), CSV or TSV."""
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


def text_of(path: PathLike) -> str:
    """Return a path or URL as text."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise InputError(f"expected a path (str or Path), got {type(path).__name__}")
    return text


def is_remote(path: PathLike) -> bool:
    """Return whether a path is a URL, except for those of local files."""
    return REMOTE_URL.match(text_of(path)) is not None


def is_hub(path: PathLike) -> bool:
    """Return whether a path is on the Hugging Face Hub, hf://."""
    return text_of(path).startswith("hf:/")


def url_of(path: PathLike) -> str:
    """Return a URL, without a slash at its end.

    >>> url_of(Path("S3://bucket/model/"))  # a Path drops slashes
    's3://bucket/model'
    """
    return REMOTE_URL.sub(lambda found: f"{found[1].lower()}://", text_of(path), count=1).rstrip("/")


def to_local_path(path: PathLike) -> Path:
    """Return the path of a local file or folder, which may be given as file:///path; other URLs are an error."""
    text = text_of(path)
    if not text or "\0" in text:
        raise InputError(f"{text!r} is not a valid name for a file or folder; choose another")
    if path == "-":
        raise InputError("'-' isn't supported here; use /dev/stdin or /dev/stdout, or ./- for a file named '-'")
    if is_remote(path):
        raise InputError(f"{url_of(path)}: must be a path on this machine, not a URL")
    return Path(unquote(LOCAL_URL.sub("", text, count=1)) if LOCAL_URL.match(text) else path)


def absolute(path: PathLike) -> Path:
    """Return a path from the root, without `.` and `..`; unlike Path.resolve, it does not follow links."""
    return Path(os.path.abspath(to_local_path(path)))  # noqa: PTH100


def resolve_links(path: PathLike) -> Path:
    """Return the path of what links lead to, which need not be there."""
    return Path(os.path.realpath(to_local_path(path)))


def everywhere(path: PathLike) -> str:
    """Return a path from the root, or a URL: what means the same to all processes."""
    return url_of(path) if is_remote(path) else str(absolute(path))


def public_name(path: str) -> str:
    """Return a path or a URL for files that others may read: instead of a query, which may be secret, a digest of it.

    >>> public_name("https://host/words?sig=1a2b")
    'https://host/words?*** 31625bd5f8e761cd'
    """
    shown, query = redacted(path), path.partition("?")[2]
    return f"{shown} {digest_of(query)}" if query and shown != path else shown


def user_cache(name: str) -> Path:
    """Return a folder for what was downloaded: in ~/.cache/pbos, or in the folder that PBOS_CACHE names."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "pbos")
    return Path(os.environ.get("PBOS_CACHE") or own, name).expanduser()


def digest_of(text: str) -> str:
    """Return a digest of a text, for the name of a folder in a cache."""
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()


# What is there --------------------------------------------------------------------------------------------------------


def info_of(path: PathLike) -> dict[str, Any]:
    """Return what a store says about the file or folder at a URL, such as its type and its size; nothing if none."""
    with suppress(FileNotFoundError), store_of(url_of(path)) as (system, place):
        return dict(system.info(place))
    return {}


def state_of(path: PathLike) -> list[Any]:
    """Return what changes when a file does: its size and the time of its last change, or what a store says of it."""
    if is_remote(path):
        with store_of(url_of(path)) as (system, place):
            return state_in(system.info(place))
    status = to_local_path(path).stat()
    return [status.st_size, status.st_mtime_ns]


def exists(path: PathLike) -> bool:
    """Return whether there is a file or folder at a path or URL."""
    return bool(info_of(path)) if is_remote(path) else to_local_path(path).exists()


def is_folder(path: PathLike) -> bool:
    """Return whether there is a folder at a path or URL."""
    return info_of(path).get("type") == "directory" if is_remote(path) else to_local_path(path).is_dir()


def names_in(path: PathLike) -> set[str]:
    """Return the names of what is in a folder; none if there is no such folder."""
    if is_remote(path):
        with store_of(url_of(path)) as (system, place), suppress(FileNotFoundError):
            return {PurePosixPath(name).name for name in system.ls(place, detail=False)}
        return set()
    return {entry.name for entry in to_local_path(path).iterdir()} if to_local_path(path).is_dir() else set()


def remove_file(path: PathLike) -> None:
    """Remove a file, if there is one."""
    if not is_remote(path):
        return to_local_path(path).unlink(missing_ok=True)
    with suppress(FileNotFoundError), store_of(url_of(path)) as (system, place):
        system.rm_file(place)


# Reading --------------------------------------------------------------------------------------------------------------


def read_lines(path: PathLike, *, encodings: tuple[str, ...] = ("UTF-8",), keep_blank: bool = False) -> list[Line]:
    """Read the lines of a text file, possibly compressed; they end in LF, CRLF or CR. Encodings are tried in order."""
    with open_bytes(path) as stream:
        data = stream.read().removeprefix(BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    check_text(path, data)
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
    r"""Yield the lines that start between two positions, without a byte order mark; they end in LF, CRLF or CR.

    >>> list(lines_between(io.BytesIO(b"one\ntwo\rthree\n"), 4, 9))
    [b'two\r', b'three\n']
    """
    read = cast(io.BufferedReader, stream).read1  # what is there, without waiting for more
    at = stream.seek(first - 1) if first else 0
    rest = b""
    while (block := read(BLOCK)) or rest:
        lines = (rest + block).splitlines(keepends=True)
        rest = b"" if not block or block.endswith(b"\n") else lines.pop()  # which may go on
        for line in lines:
            if end is not None and at >= end:
                return
            if at >= first:  # otherwise it is the end of the line before
                yield line.removeprefix(BOM)  # in any line: files with one may have been joined
            at += len(line)
        if len(rest) >= MAX_LINE:
            raise InputError(f"the line at byte {at} has over {MAX_LINE >> 20} MiB; expected one word per line")


def decoded_lines(lines: Iterable[bytes], place: str) -> Iterator[str]:
    """Yield lines as text; a warning names the place of what is not UTF-8."""
    bad = first = 0
    for number, line in enumerate(lines, 1):
        if b"\0" in line:
            raise InputError(f"{place} {number} is not UTF-8 text, but UTF-16 or binary; expected one word per line")
        try:
            yield line.decode()
        except UnicodeDecodeError:
            bad, first = bad + 1, first or number
            yield line.decode(errors="replace")
    if bad:
        what = "line is" if bad == 1 else "lines are"
        warn(f"{place} {first}: {bad:,} {what} not UTF-8; bad bytes became U+FFFD")


def words_of_lines(lines: Iterable[bytes], place: str) -> Iterator[str]:
    """Yield the words of lines: what is before the first tab."""
    return (line.strip().partition("\t")[0].rstrip() for line in decoded_lines(lines, place))


def check_text(path: PathLike, head: bytes) -> None:
    """Raise FormatError if a file starts as UTF-16 and binary files do."""
    if b"\0" in head[:FIRST]:
        raise FormatError(f"{path} is not UTF-8 text, but UTF-16 or binary; convert it to UTF-8 if it is text")


def open_file(path: PathLike) -> io.BufferedReader:
    """Open a file for reading bytes."""
    if is_remote(path):
        return io.BufferedReader(RemoteFile(url_of(path)), buffer_size=1 << 20)
    return to_local_path(path).open("rb")


@contextmanager
def open_bytes(path: PathLike) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; gz, bz2, xz and zst are recognized by content, not by name.

    Compressed data that is damaged or cut short raises FormatError, at the latest when the end is reached.
    """
    with open_file(path) as raw:
        if decompressor := compression(raw.peek(6)):
            chunks = decompress(path, raw, decompressor)
            with io.BufferedReader(_Decompressed(chunks), buffer_size=1 << 20) as stream:
                yield cast(BinaryIO, stream)
        else:
            yield raw


@contextmanager
def damage_in(path: PathLike, problem: str) -> Iterator[None]:
    """Make a FormatError of any error that damaged bytes cause in other libraries, which can be nearly any."""
    try:
        yield
    except (PbosError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # the disk, not the content
            raise
        why = str(error).partition("\n")[0].rstrip(":")  # tarfile says more than a line
        raise FormatError(f"{path}: {problem} ({why}); copy or download it again") from harmless(error)


def compression(head: bytes) -> Callable[[], Any] | None:
    """Return what makes a decompressor for a file with these first bytes; None if it is not compressed."""
    return next((decompressor for magic, decompressor in DECOMPRESSORS.items() if head.startswith(magic)), None)


def zstandard() -> Any:
    """Return the zstandard library."""
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("reading or writing .zst files", "zstd") from None
    return zstandard


DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {  # by the first bytes of a file: gz, bz2, xz, zst
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lzma.LZMADecompressor,
    b"\x28\xb5\x2f\xfd": lambda: zstandard().ZstdDecompressor().decompressobj(),
}


def check_expansion(path: PathLike, packed: int, unpacked: int) -> None:
    """Raise FormatError if compressed data becomes so large that it must be meant to fill the memory or the disk."""
    if unpacked > ROOM + MOST_EXPANSION * packed:
        raise FormatError(
            f"{path}: {packed:,} compressed bytes expand to over {unpacked:,}, more than text or vectors ever do; "
            "if you trust the file, decompress it yourself"
        )


class _Decompressed(io.RawIOBase):  # for io.BufferedReader
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks, self.left = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.left = self.left or memoryview(next(self.chunks, b""))
        size = min(len(buffer), len(self.left))
        buffer[:size], self.left = self.left[:size], self.left[size:]
        return size


def decompress(path: PathLike, raw: BinaryIO, new_decompressor: Callable[[], Any]) -> Iterator[bytes]:
    """Yield what a compressed file contains, in chunks that are not empty; it may have several parts, one by one."""
    part, more, packed, unpacked = None, False, 0, 0
    with damage_in(path, "the compressed data is damaged or cut short"):
        while data := raw.read(PACKED):
            packed += len(data)
            while more or (data := data if part else data.lstrip(b"\0")):  # zeros may follow a part
                part = part or new_decompressor()
                # 50 bytes of bz2 may be 45 MB: ask it, and xz, for one block at a time
                chunk = part.decompress(data, BLOCK) if hasattr(part, "needs_input") else part.decompress(data)
                unpacked += len(chunk)
                check_expansion(path, packed, unpacked)
                if chunk:
                    yield chunk
                data, part = (part.unused_data, None) if part.eof else (b"", part)
                more = not getattr(part, "needs_input", True)
        if part:
            raise EOFError("its end is missing")
