"""Fetches files from web servers, continuing where an earlier attempt stopped, and takes files out of archives."""

from __future__ import annotations

import hashlib
import json
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError

from pbos.errors import FormatError, InputError, harmless, repeats_secrets
from pbos.files.paths import check_expansion, damage_in, open_bytes
from pbos.jobs.progress import progress

CHUNK = 1 << 20
TIMEOUT = 60  # seconds without an answer


def download(url: str, folder: Path, size: int = 0) -> Path:
    """Copy a file on the web to a folder and return its path; a size of 0 is not known.

    A note of its version is next to it: an interrupted download is continued if the file is still the same.
    """
    part = folder / PurePosixPath(url).name
    note = part.with_name(f"{part.name}.version")
    version, total, done = "", 0, 0
    try:
        with suppress(FileNotFoundError, ValueError):
            done = part.stat().st_size
            version, total = json.loads(note.read_bytes())
        if total and done == total:  # but interrupted before it was used
            return part
        if not (version and done and receive_rest(url, part, version, total)):
            with ask(url) as answer:
                length = answer.headers.get("Content-Length", "")
                total = int(length) if length.isdecimal() else 0
                part.unlink(missing_ok=True)
                if size and total not in (0, size):
                    raise ConnectionError(f"it has {total:,} bytes, expected {size:,}: it is not the one we know")
                note.write_text(json.dumps([version_of(answer), total]))
                receive(answer, part, total, "xb")
        if total and part.stat().st_size != total:
            raise ConnectionError("the connection was lost")
        return part
    except (OSError, HTTPException) as error:  # what urllib raises
        why = str(getattr(error, "reason", None) or error or type(error).__name__).partition("\n")[0].rstrip(".")
        why = f"HTTP {error.code}: {why}" if isinstance(error, HTTPError) else why
        again = "; run it again to continue" if part.exists() and part.stat().st_size else ""
        message = f"{url} cannot be downloaded ({'no valid address' if repeats_secrets(why, url) else why}){again}"
        raise InputError(message) from harmless(error, url)


def ask(url: str, headers: dict[str, str] | None = None) -> Any:
    """Ask a web server for a file."""
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=TIMEOUT)


def version_of(answer: Any) -> str:
    """Return what a server calls this version of a file and, byte for byte, no other; "" if there is no such thing.

    It is an ETag that is not weak or, without one, the time of a change that is not of this very second.
    """
    tag, changed, sent = (answer.headers.get(name, "") for name in ("ETag", "Last-Modified", "Date"))
    if tag:
        return "" if tag.startswith("W/") else str(tag)
    with suppress(TypeError, ValueError):
        if parsedate_to_datetime(changed) < parsedate_to_datetime(sent):
            return str(changed)
    return ""


def receive_rest(url: str, part: Path, version: str, total: int) -> bool:
    """Append the rest of a file; return False if the server does not send this rest, of the same version."""
    done = part.stat().st_size
    try:
        with ask(url, {"Range": f"bytes={done}-", "If-Range": version}) as answer:
            same = version in (answer.headers.get("ETag"), answer.headers.get("Last-Modified"))
            sent = answer.headers.get("Content-Range", "")
            if not (answer.status == 206 and same and sent.startswith(f"bytes {done}-{total - 1}/")):
                return False
            receive(answer, part, total, "ab")
            return True
    except HTTPError as error:
        if error.code != 416:  # the file is shorter now
            raise
        return False


def receive(answer: Any, part: Path, total: int, mode: str) -> None:
    """Write what a server sends to a file."""
    with part.open(mode) as stream, progress("downloading", total or None) as advance:
        advance(stream.tell())
        while chunk := answer.read(CHUNK):
            stream.write(chunk)
            advance(len(chunk), note=f"{stream.tell() / 1e6:,.0f} MB")


def check_digest(file: Path, expected: str) -> None:
    """Raise FormatError if the digest of a file is not the one we know, such as "sha256:..."."""
    kind, _, known = expected.partition(":")
    digest = hashlib.new(kind)
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != known:
        raise FormatError(f"its {kind} is {digest.hexdigest()}, expected {known}")


def take_out(archive: Path, file: str, folder: Path) -> Path:
    """Copy one file of a zip or tar archive to a folder, without its path; `*` in its name stands for anything.

    The archive has no say in where the copy is: its name is the one that is asked for, with "file" in place of `*`.
    """
    target = folder / PurePosixPath(file.replace("*", "file")).name
    with damage_in(archive.name, "the archive is damaged"):
        for name, stream in files_in(archive):
            if PurePosixPath(name).match(file):
                with target.open("wb") as copy:
                    while chunk := stream.read(CHUNK):
                        check_expansion(archive.name, archive.stat().st_size, copy.tell() + len(chunk))
                        copy.write(chunk)
                return target
    raise FormatError(f"{archive.name} does not contain {file}")


def files_in(archive: Path) -> Iterator[tuple[str, Any]]:
    """Yield the name of each file in a zip or tar archive, and the file, open for reading."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for name in zipped.namelist():
                with zipped.open(name) as stream:
                    yield name, stream
    else:
        with open_bytes(archive) as raw, tarfile.open(fileobj=raw, mode="r|") as tar:
            yield from ((member.name, tar.extractfile(member)) for member in tar if member.isfile())
