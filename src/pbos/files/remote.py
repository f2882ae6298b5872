"""Files behind URLs: s3://, gs://, https:// and all others that fsspec knows (extra `remote`).

The rest of pbos works on local files. What is remote is read as a stream, fetched into a cache, or uploaded when it is
complete; `paths.py` and `atomic.py` are where paths and URLs part. Any error is one sentence that names the URL,
without what may be secret in it.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from pbos.errors import InputError, MissingExtraError, PbosError, harmless, redacted, repeats_secrets
from pbos.files.atomic import lock, sweep, write_whole_folder
from pbos.files.paths import PathLike, digest_of, url_of, user_cache

try:
    from fsspec.core import url_to_fs
except ImportError:
    raise MissingExtraError("a path that is a URL", "remote") from None

# what tells versions of a file apart, under the names that it has in S3, in other stores and in HTTP
VERSIONS = (
    *("ETag", "etag", "Content-MD5", "Digest", "sha"),
    *("LastModified", "Last-Modified", "last_modified", "mtime", "modified", "modify", "created"),
)
FILE = "file"  # the name of the copy of a single file


@contextmanager
def errors_about(url: str) -> Iterator[None]:
    """Turn whatever a file system raises into an error that names the URL."""
    try:
        yield
    except PbosError:
        raise
    except (ImportError, ValueError) as error:  # the library of a protocol is missing, or there is no such protocol
        raise InputError(f"{url}: {without_secrets(str(error), url)}") from harmless(error, url)
    except Exception as error:
        why: Any = error.__cause__ if isinstance(error.__cause__, OSError) else error  # no connection is "not found"
        known: dict[Any, int] = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}
        number = getattr(why, "errno", None) or known.get(type(why), errno.EIO)
        said = getattr(why, "strerror", None) or str(why)
        if said in url:  # some say nothing but the path
            said = os.strerror(number) if type(why) in known else type(why).__name__
        raise OSError(number, without_secrets(said, url), redacted(url)) from harmless(error, url)


def without_secrets(said: str, url: str) -> str:
    """Return the first line of what a library says about a URL, unless it repeats a part that may be secret."""
    said = redacted(said).partition("\n")[0]
    return "it cannot be opened" if repeats_secrets(said, url) else said


@contextmanager
def found(path: PathLike) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL, without what it remembers of earlier calls, and the path in it.

    Errors in the block name the URL.
    """
    url = url_of(path)
    with errors_about(url):
        system, place = url_to_fs(url)
        system.invalidate_cache()
        yield system, place


# Reading --------------------------------------------------------------------------------------------------------------


class RemoteFile(io.RawIOBase):
    """A remote file, open for reading.

    Attributes:
        size: In bytes; 0 if it is not known, or the server sends files only from their start.
    """

    def __init__(self, path: PathLike) -> None:
        self.url, self.facts = url_of(path), list[Any]()
        with found(path) as (system, place):
            self.file = system.open(place, "rb")
            details = getattr(self.file, "details", None) or {}
            if details.get("type") == "directory":
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if self.file.seekable():  # otherwise it is sent at once
                self.facts = facts_in(details)
                if not any(self.facts[1:]):
                    self.facts = facts_in(system.info(place))
        self.size: int = (getattr(self.file, "size", 0) or 0) if self.file.seekable() else 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return whether the server sends parts of the file."""
        return bool(self.file.seekable())

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        with errors_about(self.url):
            data = self.file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another place in the file."""
        with errors_about(self.url):
            return int(self.file.seek(offset, whence))

    def close(self) -> None:
        """Close the file; an error if parts of it may be of different versions."""
        if self.closed:
            return
        self.file.close()
        super().close()
        if not self.facts or sys.is_finalizing() or not isinstance(sys.exc_info()[1], Exception | None):
            return  # Ctrl-C waits for no server
        now = self.facts
        with suppress(OSError, PbosError):
            now = facts_about(self.url)
        if any(now) and now != self.facts:
            raise OSError(errno.EBUSY, "changed while it was read; try again", redacted(self.url))


def read_range(path: PathLike, start: int, stop: int) -> bytes:
    """Return some bytes of a file."""
    with found(path) as (system, place):
        return bytes(system.cat_file(place, start=start, end=stop))


def info_of(path: PathLike) -> dict[str, Any]:
    """Return what a store says about a file or folder, such as its type and its size; nothing if there is none."""
    with suppress(FileNotFoundError), found(path) as (system, place):
        return dict(system.info(place))
    return {}


def files_like(pattern: PathLike) -> list[str]:
    """Return the URLs of the files that a pattern such as s3://bucket/*.txt matches, sorted."""
    with found(pattern) as (system, place):
        matches = system.glob(place, detail=True)
        return sorted(system.unstrip_protocol(name) for name, info in matches.items() if info["type"] == "file")


def names_in(path: PathLike) -> set[str]:
    """Return the names of what is in a folder; none if there is no such folder."""
    with found(path) as (system, place), suppress(FileNotFoundError):
        return {PurePosixPath(name).name for name in system.ls(place, detail=False)}
    return set()


# The cache ------------------------------------------------------------------------------------------------------------


def fetch(path: PathLike, *names: str) -> Path:
    """Return a local folder with copies of some files of a remote folder or, without names, of a file as `FILE`.

    They are copied once. Later calls, also those of other processes, use the same copies until a file changes; then
    there is another folder, so that a file in use stays as it is. Where nothing but its size tells versions of a file
    apart, they are copied each time.
    """
    url = url_of(path)
    sources = {name: f"{url}/{name}" for name in names} or {FILE: url}
    title = re.sub(r"\W+", "-", PurePosixPath(redacted(url)).name)[:50]
    home = user_cache("remote") / f"{title}-{digest_of(url)}"
    with found(url):  # an error about its protocol names all of it
        pass
    folder, is_known = version_in(home, sources)
    if is_known and folder.is_dir():
        return folder  # without a lock: the cache may be of another user
    home.mkdir(parents=True, exist_ok=True)
    with lock(home):
        folder, is_known = version_in(home, sources)
        if is_known and folder.is_dir():
            return folder
        sweep(home)
        with write_whole_folder(folder) as temporary:
            for name, source in sources.items():
                with found(source) as (system, place):
                    system.get_file(place, str(temporary / name))
            if version_in(home, sources)[0] != folder:
                raise OSError(errno.EBUSY, "changed while it was copied; try again", redacted(url))
        return folder


def version_in(home: Path, sources: dict[str, str]) -> tuple[Path, bool]:
    """Return where to keep this version of some files, and whether another one would be elsewhere."""
    facts = {name: facts_about(source) for name, source in sources.items()}
    return home / digest_of(repr([*facts.items()])), all(any(versions) for _, *versions in facts.values())


def facts_about(path: PathLike) -> list[Any]:
    """Return of what a store says about a file what changes when the file does."""
    with found(path) as (system, place):
        return facts_in(system.info(place))


def facts_in(info: dict[str, Any]) -> list[Any]:
    """Return of what a store says about a file what changes when the file does: its size and other facts."""
    return [info.get(fact) for fact in ("size", *VERSIONS)]


# Writing --------------------------------------------------------------------------------------------------------------


def check_writable(path: PathLike) -> None:
    """Raise an error if nothing can be written at a URL; to find out, an empty file is written next to it."""
    with found(path) as (system, place):
        probe = f"{place}.{secrets.token_hex(6)}.tmp"
        system.pipe_file(probe, b"")
        with suppress(Exception):  # some may write, but not remove
            system.rm_file(probe)


def remove(path: PathLike) -> None:
    """Remove a file, if there is one."""
    with suppress(FileNotFoundError), found(path) as (system, place):
        system.rm_file(place)


@contextmanager
def uploaded(path: PathLike, last: str = "") -> Iterator[Path]:
    """Yield the path of a local file or folder to make; it is uploaded when the block is done.

    A file appears at its URL when it is complete, if that is what the store does. A folder does not: the file `last` is
    empty until all others are there.
    """
    check_writable(path)
    with tempfile.TemporaryDirectory(prefix="pbos-") as scratch:
        local = Path(scratch, f"new{PurePosixPath(url_of(path)).suffix}")
        yield local
        with found(path) as (system, place):
            if local.is_file():
                system.put_file(str(local), place)
                return
            with suppress(OSError):  # some stores have folders that have to be made, in others this fails
                system.mkdir(place, create_parents=False)
            system.pipe_file(f"{place}/{last}", b"")
            for file in sorted(local.iterdir(), key=lambda file: file.name == last):
                system.put_file(str(file), f"{place}/{file.name}")
