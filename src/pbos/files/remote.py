"""Files behind URLs: s3://, gs://, https:// and all others that fsspec knows (extra `remote`)."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pbos.errors import InputError, MissingExtraError, PbosError, harmless, redacted, repeats_secrets

# what tells versions of a file apart, under the names that it has in S3, in other stores and in HTTP
VERSIONS = (
    *("ETag", "etag", "Content-MD5", "Digest", "sha"),
    *("LastModified", "Last-Modified", "last_modified", "mtime", "modified", "modify", "created"),
)


@contextmanager
def store_of(url: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of a URL, without what it remembers of earlier calls, and the path in it.

    Errors in the block name the URL.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError("reading from or writing to a URL", "remote") from None
    with errors_of_store(url):
        system, place = url_to_fs(url)
        system.invalidate_cache()
        yield system, place


@contextmanager
def errors_of_store(url: str) -> Iterator[None]:
    """Turn whatever a file system raises into one sentence that names the URL, without what may be secret in it."""

    def without_secrets(said: str) -> str:
        said = redacted(said).partition("\n")[0]
        return "it cannot be opened" if repeats_secrets(said, url) else said

    try:
        yield
    except PbosError:
        raise
    except (ImportError, ValueError) as error:  # the library of a protocol is missing, or there is no such protocol
        raise InputError(f"{url}: {without_secrets(str(error))}") from harmless(error, url)
    except Exception as error:
        why: Any = error.__cause__ if isinstance(error.__cause__, OSError) else error  # no connection is "not found"
        known: dict[Any, int] = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}
        number = getattr(why, "errno", None) or known.get(type(why), errno.EIO)
        said = getattr(why, "strerror", None) or str(why)
        if said in url:  # some say nothing but the path
            said = os.strerror(number) if type(why) in known else type(why).__name__
        raise OSError(number, without_secrets(said), redacted(url)) from harmless(error, url)


def state_in(info: dict[str, Any]) -> list[str]:
    """Return of what a store says about a file what changes when the file does: its size and other facts."""
    return [str(info.get(fact) or "") for fact in ("size", *VERSIONS)]


class RemoteFile(io.RawIOBase):
    """A remote file, open for reading."""

    def __init__(self, url: str) -> None:
        self.url, self.state = url, list[str]()
        with store_of(url) as (system, place):
            self.file = system.open(place, "rb")
            details = getattr(self.file, "details", None) or {}
            if details.get("type") == "directory":
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if self.file.seekable():  # otherwise it is sent at once
                self.state = state_in(details)
                if not any(self.state[1:]):
                    self.state = state_in(system.info(place))

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return whether the server sends parts of the file."""
        return bool(self.file.seekable())

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        with errors_of_store(self.url):
            data = self.file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to another place in the file."""
        with errors_of_store(self.url):
            return int(self.file.seek(offset, whence))

    def close(self) -> None:
        """Close the file; an error if parts of it may be of different versions."""
        if self.closed:
            return
        self.file.close()
        super().close()
        if not self.state or sys.is_finalizing() or not isinstance(sys.exc_info()[1], Exception | None):
            return  # Ctrl-C waits for no server
        now = self.state
        with suppress(OSError, PbosError), store_of(self.url) as (system, place):
            now = state_in(system.info(place))
        if any(now) and now != self.state:
            raise OSError(errno.EBUSY, "changed while it was read; try again", redacted(self.url))
