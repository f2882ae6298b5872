"""Counting a text of any size: shard by shard, on any pool, within little memory, and again from where it stopped."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pbos import __version__
from pbos.corpus.cooccurrences import Cooccurrences, Counting, merge, read_info
from pbos.corpus.sources import Shard, Source, text_of
from pbos.errors import InputError, warn
from pbos.files.atomic import LOCK, check_owner, discard, lock, put_in_place, remove, staging_path, write_whole
from pbos.files.paths import resolve_links
from pbos.jobs.pools import Pool
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import thread_count

FAN_IN = 16  # runs of the same size that are merged into one
BLOCK_MEMORY = 512 << 20  # what counting one shard needs at most, in bytes, with windows of up to 8 words
SUM = "sum"  # the name of the folder with all counts, before it is moved to its place
RUN = "[0-9]*-[0-9]*"  # the names of folders with counts of some shards
HALF = ".*.tmp"  # the names of folders that were being written
VERSION = ".version"  # the name of the file with the version of pbos that counts
TEXT = ".text"  # the name of the folder with text that had to be unpacked
UNKNOWN = "\ufffd"  # what bytes that are not UTF-8 become


def count_text(
    source: Source,
    counting: Counting,
    folder: Path,
    *,
    target: Path,
    pool: Pool,
    add: bool = False,
    progress: bool | None = False,
) -> Cooccurrences:
    """Count the co-occurrences of a text, and return them from the folder `target`.

    Each shard of text becomes a run, a folder of its own; runs are merged when there are many. A run that is there
    already, from an earlier call that was interrupted, is not counted again. The result is the same byte for byte
    however often that happens, and for any pool.

    Args:
        source: The text.
        counting: How to count.
        folder: Where to keep runs, next to `target`; it is removed at the end.
        target: The folder to write. If it is there, it has counts of this text, or counts to add to.
        pool: Where to count; its workers share the folders.
        add: Add to what is in `target`; shards of text that it has are skipped.
        progress: Show a progress bar; None for "if stderr is a terminal".
    """
    before = read_info(target)[1] if target.exists() else []
    known = set(before)
    with only_here(folder):
        shards = source.shards(folder / TEXT, pool)
        digests = pool.map("read-text", digest_of_shard, shards)
        if before and not add and digests != before:
            raise InputError(f"{target} has counts of another text; use the same again, or another folder")
        runs = Runs(folder, counting)
        if known.intersection(runs.digests.values()):  # they are merged already; removing them was interrupted
            runs.clear()
        new = [one for one in zip(shards, digests, strict=True) if one[1] not in known]
        if add and len(new) < len(shards):
            n_before = len(shards) - len(new)
            warn(f"text that was counted before is not counted again; this is {n_before:,} of its blocks")
        runs.check([digest for _, digest in new])
        if new:
            runs.count([Job(number, *one) for number, one in enumerate(new)], pool, progress)
            runs.merge({folder / SUM: [target, *runs.paths()] if before else runs.paths()}, pool)
            if len(Cooccurrences.load(folder / SUM)):
                with staging_path(target) as temporary:
                    (folder / SUM).rename(temporary)
                    put_in_place(temporary, target)
        runs.clear()
    if not target.exists():
        raise InputError("there are no words in the text")
    return Cooccurrences.load(target)


# Parts of the job: each reads and writes files only, so that it can run on any worker, and again ----------------------


class Job(NamedTuple):
    """A shard to count."""

    number: int
    shard: Shard
    digest: str


def digest_of(block: bytes) -> str:
    """Return a digest of a block of text."""
    return hashlib.blake2b(block, digest_size=16).hexdigest()


def digest_of_shard(shard: Shard) -> str:
    """Return a digest of the text of a shard."""
    return digest_of(text_of(shard))


def count_shard(job: Job, folder: Path, counting: Counting) -> tuple[int, int]:
    """Count a shard of text into a run; return its size, and how many of its characters cannot be read."""
    block = text_of(job.shard)
    if digest_of(block) != job.digest:
        raise InputError(f"{job.shard[0].path} was changed while it was counted; count it again")
    text = block.decode("utf-8", "replace")
    target = folder / name_of(job.number, job.number)
    if not target.exists():
        Cooccurrences.of_block(text, counting, [job.digest]).save(target)
    return len(block), text.count(UNKNOWN) - block.count(UNKNOWN.encode())  # not those that the text itself has


def merge_runs(group: tuple[Path, list[Path]], threads: int) -> None:
    """Merge runs into one."""
    target, paths = group
    if not target.exists():
        merge([Cooccurrences.load(path) for path in paths], target, min(threads, thread_count(None)))


# Runs -----------------------------------------------------------------------------------------------------------------


@contextmanager
def only_here(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; at the end remove what is not a run, and the folder if it is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    with lock(resolve_links(folder), f"another process is counting into {folder}; wait for it, or stop it") as handle:
        check_owner(folder, handle)
        check_version(folder)
        try:
            yield
        finally:
            discard(folder / TEXT)
            if all(path.name in (LOCK, VERSION) for path in folder.iterdir()):
                (folder / VERSION).unlink(missing_ok=True)
                (folder / LOCK).unlink(missing_ok=True)
                with suppress(OSError):
                    folder.rmdir()


def check_version(folder: Path) -> None:
    """Raise InputError if another version of pbos has counted here, which may cut text into other words."""
    file = folder / VERSION
    found = file.read_text("utf-8", "replace") if file.exists() else "another version"
    if found != __version__ and any(not path.name.startswith(".") for path in folder.iterdir()):
        raise InputError(f"{folder} has counts of {found} of pbos; go on with that version, or choose another folder")
    if found != __version__:
        with write_whole(file) as stream:
            stream.write(__version__.encode())


class Runs:
    """The co-occurrences of parts of a text, in folders named after the first and the last shard that they cover."""

    def __init__(self, folder: Path, counting: Counting) -> None:
        self.folder, self.counting = folder, counting
        for path in [*folder.glob(HALF), *folder.glob(SUM)]:
            discard(path)
        self.digests: dict[int, str] = {}
        for path in self.paths():
            first, last = span_of(path)
            settings, blocks = read_info(path)
            if settings != counting:
                raise InputError(f"{folder} was counted with other settings; use the same again, or remove the folder")
            self.digests |= dict(zip(range(first, last + 1), blocks, strict=True))

    def check(self, digests: list[str]) -> None:
        """Raise InputError if the runs are not those of shards with these digests."""
        if any(digests[number : number + 1] != [digest] for number, digest in self.digests.items()):
            raise InputError(f"{self.folder} has counts of another text; use the same again, or remove the folder")

    def clear(self) -> None:
        """Remove all runs, and what was left of others when a worker was lost."""
        for path in [*self.folder.glob(SUM), *self.folder.glob(RUN)]:
            remove(path)
        for path in self.folder.glob(HALF):
            discard(path)
        self.digests.clear()

    def paths(self) -> list[Path]:
        """Return the runs in order; those that a larger one covers, left by an interrupted merge, are removed."""
        found: list[Path] = []
        end = -1
        names = [path for path in self.folder.iterdir() if not path.name.startswith(".")]  # glob would hide errors
        for path in sorted(names, key=lambda path: (span_of(path)[0], -span_of(path)[1])):
            first, last = span_of(path)
            if first > end:
                found.append(path)
                end = last
            else:
                remove(path)
        return found

    def count(self, jobs: list[Job], pool: Pool, progress: bool | None) -> None:
        """Count shards that have no run yet, and merge runs as they become many."""
        left = [job for job in jobs if job.number not in self.digests]
        size = sum(piece.stop - piece.start for job in left for piece in job.shard)
        function = partial(count_shard, folder=self.folder, counting=self.counting)
        memory, at_once = BLOCK_MEMORY * max(8, self.counting.window) // 8, FAN_IN * pool.size
        n_unknown = 0
        with progress_bar("counting", size, progress) as advance:
            for first in range(0, len(left), at_once):
                some = left[first : first + at_once]
                counted = pool.map("count-text", function, some, lambda one: advance(one[0]), memory)
                n_unknown += sum(unknown for _, unknown in counted)
                self.compact(pool)
        if n_unknown:
            warn(f"{n_unknown:,} characters of the text are not UTF-8; convert it if these are many")

    def compact(self, pool: Pool) -> None:
        """Merge runs of the same size that follow each other, as soon as there are `FAN_IN`."""
        size = 1
        while some := [path for path in self.paths() if length(path) >= size]:
            wide, groups = size * FAN_IN, dict[Path, list[Path]]()
            for path in some:
                start = span_of(path)[0] // wide * wide
                if length(path) == size:
                    groups.setdefault(self.folder / name_of(start, start + wide - 1), []).append(path)
            groups = {target: paths for target, paths in groups.items() if len(paths) == FAN_IN}
            self.merge(groups, pool)
            for path in itertools.chain.from_iterable(groups.values()):
                remove(path)
            size = wide

    def merge(self, groups: dict[Path, list[Path]], pool: Pool) -> None:
        """Merge groups of runs into one each; if there are few, with several threads."""
        threads = max(1, pool.size // max(1, len(groups)))
        pool.map("merge-counts", partial(merge_runs, threads=threads), groups.items())


def name_of(first: int, last: int) -> str:
    """Return the name of a run."""
    return f"{first:06}-{last:06}"


def span_of(path: Path) -> tuple[int, int]:
    """Return the first and the last shard of a run."""
    with suppress(ValueError):
        first, last = map(int, path.name.split("-"))
        return first, last
    raise InputError(f"{path} does not belong to a folder of counts; remove it")


def length(path: Path) -> int:
    """Return how many shards a run covers."""
    first, last = span_of(path)
    return last - first + 1
