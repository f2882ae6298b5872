"""The Hugging Face Hub, hf://owner/name (extra `hub`), with the cache, token and settings of huggingface_hub."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from pbos import __version__
from pbos.errors import InputError, MissingExtraError, ModelError, harmless
from pbos.files.paths import PathLike, url_of

try:
    from huggingface_hub import HfApi, errors
    from huggingface_hub.utils import tqdm
except ImportError:
    raise MissingExtraError("a path at hf://", "hub") from None

URL = re.compile(r"hf://(?:(dataset|space|model)s/)?([^/@?]+/[^/@?]+)(?:@(refs/[^/]+/[^/]+|[^/]+))?(?:/(.+))?")
LOG_IN = "log in with: hf auth login"
REFUSED = f": no permission; {LOG_IN}, with a token that has access to {{repo}}"
NETWORK_ERRORS = (errors.HfHubHTTPError.__mro__[1], errors.OfflineModeIsEnabled)  # the first depends on the version
PROBLEMS: dict[Any, str] = {  # the first that fits
    errors.GatedRepoError: f" is gated; request access at {{hub}}/{{repo}}, then {LOG_IN}",
    errors.RepositoryNotFoundError: f": no such repository, or it is private; check the name, or {LOG_IN}",
    errors.RevisionNotFoundError: ": the repository has no revision {revision}",
    errors.LocalEntryNotFoundError: " is not in the cache, and the Hugging Face Hub cannot be reached ({said})",
    errors.HfHubHTTPError: REFUSED,
    NETWORK_ERRORS: ": the Hugging Face Hub cannot be reached ({said})",
    (AttributeError, LookupError, TypeError, ValueError): ": unexpected response from the Hugging Face Hub ({said})",
}


class ProgressBar(tqdm):  # type: ignore[misc]
    """The progress bar of huggingface_hub, on a terminal only."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"disable": None, **options})


class Place(NamedTuple):
    """A folder of a repository."""

    url: str
    kind: str | None  # of repository; None for a model
    repo: str  # owner/name
    revision: str | None  # None for the default branch
    folder: str  # "" for the whole repository


def hub_place(path: PathLike) -> Place:
    """Return what a URL means, in the syntax of huggingface_hub.

    >>> hub_place("hf://owner/name@v1/german")
    Place(url='hf://owner/name@v1/german', kind=None, repo='owner/name', revision='v1', folder='german')
    """
    url = url_of(path)
    match = URL.fullmatch(url)
    names = [name for group in match.groups("x")[2:] for name in re.split(r"[/\\]", unquote(group))] if match else []
    if match is None or not {"", ".", ".."}.isdisjoint(names):  # which would lead out of the cache
        raise InputError(
            f"{url} is not a repository on the Hugging Face Hub; use hf://owner/name or hf://owner/name@revision"
        )
    kind, repo, revision, folder = match.groups()
    return Place(url, kind, repo, revision and unquote(revision), folder or "")


def fetch(path: PathLike, *names: str) -> Path:
    """Return a folder in the cache of huggingface_hub with some files of a folder, all of the same commit."""
    place = hub_place(path)
    patterns = [escape(f"{place.folder}/{name}".lstrip("/")) for name in names]
    with errors_about(place):
        snapshot = api().snapshot_download(
            place.repo,
            repo_type=place.kind,
            revision=place.revision,
            allow_patterns=patterns,
            tqdm_class=ProgressBar,
        )
    folder = Path(snapshot, place.folder)
    for name in names:
        if not (folder / name).exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{place.url}/{name}")
    return folder


def create(path: PathLike, private: bool | None = None) -> None:
    """Make a repository and the branch of a URL, unless they are there; an error if one may not write to it."""
    place = hub_place(path)
    with errors_about(place):
        api().create_repo(place.repo, repo_type=place.kind, private=private, exist_ok=True)
        if place.revision:
            api().create_branch(place.repo, repo_type=place.kind, branch=place.revision, exist_ok=True)


@contextmanager
def uploaded(path: PathLike) -> Iterator[Path]:
    """Yield a folder to fill; its files are uploaded in one commit when the block is done."""
    place = hub_place(path)
    with tempfile.TemporaryDirectory(prefix="pbos-") as scratch:
        yield Path(scratch)
        with errors_about(place):
            api().upload_folder(
                repo_id=place.repo,
                folder_path=scratch,
                path_in_repo=place.folder,
                commit_message="Upload with pbos",
                repo_type=place.kind,
                revision=place.revision,
            )


def api() -> HfApi:
    """Return the client of huggingface_hub, which finds server and token by itself."""
    return HfApi(library_name="pbos", library_version=__version__)


@contextmanager
def errors_about(place: Place) -> Iterator[None]:
    """Turn the errors of huggingface_hub, which have several lines, into one sentence."""
    try:
        yield
    except Exception as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        if isinstance(error, errors.HFValidationError):
            raise InputError(f"{place.url}: {said}") from harmless(error)
        problem = next((PROBLEMS[kind] for kind in PROBLEMS if isinstance(error, kind)), None)
        if problem is None:
            raise
        if problem == REFUSED and getattr(getattr(error, "response", None), "status_code", None) not in (401, 403):
            problem = ": {said}"
        sentence = problem.format(said=said, hub=api().endpoint, repo=place.repo, revision=place.revision)
        raise ModelError(f"{place.url}{sentence}") from harmless(error)
