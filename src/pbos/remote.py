"""Files behind URLs: s3://, gs://, https:// and all others that fsspec knows (extra `remote`).

The rest of pbos works on local files. What is remote is read as a stream, fetched into a cache, or uploaded when it is
complete; `pbos.files` and `pbos.atomic` are where paths and URLs part. Any error is one sentence that names the URL.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from pbos.atomic import lock, sweep, write_whole_folder
from pbos.errors import InputError, MissingExtraError, PbosError
from pbos.files import PathLike, Readable, digest_of, url_of, user_cache

try:
    from fsspec.core import url_to_fs
except ImportError:
    raise MissingExtraError("a path that is a URL", "remote") from None

# what tells versions of a file apart, under the names that it has in S3, in other stores and in HTTP
FACTS = ("size", "ETag", "etag", "LastModified", "Last-Modified", "last_modified", "mtime", "modified", "created")


@contextmanager
def errors_about(url: str) -> Iterator[None]:
    """Turn whatever a file system raises into an error that names the URL."""
    try:
        yield
    except PbosError:
        raise
    except (ImportError, ValueError) as error:  # the library of a protocol is missing, or there is no such protocol
        raise InputError(f"{url}: {error}") from error
    except Exception as error:
        why: Any = error.__cause__ if isinstance(error.__cause__, OSError) else error  # no connection is "not found"
        known: dict[Any, int] = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}
        number = getattr(why, "errno", None) or known.get(type(why), errno.EIO)
        said = getattr(why, "strerror", None) or str(why)
        if said in url:  # some say nothing but the path
            said = os.strerror(number) if type(why) in known else type(why).__name__
        raise OSError(number, said.splitlines()[0], url) from error


def find(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, without what it remembers of earlier calls, and the path in it."""
    with errors_about(url):
        system, place = url_to_fs(url)
        system.invalidate_cache()
        return system, place


@contextmanager
def found(path: PathLike) -> Iterator[tuple[Any, str]]:
    """Yield what `find` returns; errors in the block name the URL."""
    url = url_of(path)
    with errors_about(url):
        yield find(url)


# Reading --------------------------------------------------------------------------------------------------------------


class RemoteFile(Readable):
    """A remote file, open for reading.

    Attributes:
        size: In bytes; 0 if it is not known, or the server sends files only from their start.
    """

    def __init__(self, path: PathLike) -> None:
        self.url = url_of(path)
        with found(path) as (system, place):
            self.file = system.open(place, "rb")
            if (getattr(self.file, "details", None) or {}).get("type") == "directory":
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self.size: int = (getattr(self.file, "size", 0) or 0) if self.file.seekable() else 0

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
        """Close the file."""
        if not self.closed:
            self.file.close()
        super().close()


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
    """Return a local folder with copies of some files of a remote folder.

    They are copied once. Later calls, also those of other processes, use the same copies until a file changes; then
    there is another folder, so that a file in use stays as it is.
    """
    url = url_of(path)
    title = re.sub(r"\W+", "-", PurePosixPath(url).name)
    home = user_cache("remote") / f"{title}-{digest_of(url)}"
    system, place = find(url)
    home.mkdir(parents=True, exist_ok=True)
    with lock(home):
        facts = facts_of(url, names)
        folder = home / digest_of(facts)
        if folder.is_dir():
            return folder
        sweep(home)
        with write_whole_folder(folder) as temporary:
            for name in names:
                with errors_about(f"{url}/{name}"):
                    system.get_file(f"{place}/{name}", str(temporary / name))
            if facts_of(url, names) != facts:
                raise OSError(errno.EBUSY, "changed while it was copied; try again", url)
        return folder


def facts_of(url: str, names: tuple[str, ...]) -> str:
    """Return what is known about files of a folder, which changes when they do."""
    facts = []
    for name in names:
        with found(f"{url}/{name}") as (system, place):
            info = system.info(place)
            facts.append((name, [info.get(fact) for fact in FACTS]))
    return repr(facts)


def state_of(path: PathLike) -> list[str]:
    """Return what is known about a file, which changes when it does."""
    with found(path) as (system, place):
        info = system.info(place)
        return [str(info.get(fact)) for fact in FACTS]


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
        local = Path(scratch, PurePosixPath(url_of(path)).name)
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
