"""Remote files, copied into a cache: what is mapped has to be here."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path, PurePosixPath

from pbos.errors import redacted
from pbos.files.atomic import lock, sweep, write_whole_folder
from pbos.files.paths import PathLike, digest_of, is_hub, is_remote, state_of, to_local_path, url_of, user_cache
from pbos.files.remote import store_of

FILE = "file"  # the name of the copy of a single file


def on_disk(path: PathLike) -> Path:
    """Return the path of a file that can be mapped; a remote one is fetched."""
    if not is_remote(path):
        return to_local_path(path)
    if is_hub(path):
        folder, name = os.path.split(path)
        return fetch(folder, name) / name
    return fetch(path) / FILE


def fetch(path: PathLike, *names: str) -> Path:
    """Return a local folder with copies of some files of a remote folder or, without names, of a file as `FILE`.

    They are copied once. Later calls, also those of other processes, use the same copies until a file changes; then
    there is another folder, so that a file in use stays as it is. Where nothing but its size tells versions of a file
    apart, they are copied each time.
    """
    if is_hub(path):
        from pbos.files import hub

        return hub.fetch(path, *names)
    url = url_of(path)
    sources = {name: f"{url}/{name}" for name in names} or {FILE: url}
    title = re.sub(r"\W+", "-", PurePosixPath(redacted(url)).name)[:50]
    home = user_cache("remote") / f"{title}-{digest_of(url)}"
    states = [state_of(source) for source in sources.values()]
    folder = home / digest_of(repr([*sources, *states]))
    is_known = all(any(versions) for _, *versions in states)
    if is_known and folder.is_dir():
        return folder  # without a lock: the cache may be of another user
    home.mkdir(parents=True, exist_ok=True)
    with lock(home):
        if is_known and folder.is_dir():
            return folder  # another process has copied them meanwhile
        sweep(home)
        with write_whole_folder(folder) as temporary:
            for name, source in sources.items():
                with store_of(source) as (system, place):
                    system.get_file(place, str(temporary / name))
            if [state_of(source) for source in sources.values()] != states:
                raise OSError(errno.EBUSY, "changed while it was copied; try again", redacted(url))
    return folder
