"""Counting a text of any size: shard by shard, on any pool, within little memory, and again from where it stopped."""

from __future__ import annotations

import hashlib
import itertools
import re
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pbos import __version__
from pbos.corpus.cooccurrences import Cooccurrences, Counting, merge
from pbos.corpus.sources import Shard, Source, text_of
from pbos.errors import InputError, warn
from pbos.files.atomic import put_in_place, remove, staging_path
from pbos.jobs.pools import Pool
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import blocks, thread_count
from pbos.jobs.workspace import workspace

SUM = "sum"  # the name of the folder with all counts, before it is moved to its place
RUN = re.compile(r"(\d{6,})-(\d{6,})")  # the name of a folder with counts of some shards
FAN_IN = 16  # runs of the same size that are merged into one
BLOCK_MEMORY = 512 << 20  # what counting one shard needs at most, in bytes, with windows of up to 8 words
UNKNOWN = "\ufffd"  # what bytes that are not UTF-8 become


def count_text(
    source: Source,
    counting: Counting,
    target: Path,
    pool: Pool,
    *,
    add: bool = False,
    temporary: bool = False,
    progress: bool | None = False,
) -> Cooccurrences:
    """Count the co-occurrences of a text, and return them from the folder `target`.

    Each shard of text becomes a run, a folder of its own in `TARGET.parts`; runs are merged when there are many. A run
    that is there already, from an earlier call that was interrupted, is not counted again. The result is the same byte
    for byte however often that happens, and for any pool, whose workers share these folders.

    Args:
        source: The text.
        counting: How to count.
        target: The folder to write. If it is there, it has counts of this text, or counts to add to.
        pool: Where to count.
        add: Add to what is in `target`; shards of text that it has are skipped.
        temporary: Whether `target` is not kept, so that the counts of a short text can stay in memory.
        progress: Show a progress bar; None for "if stderr is a terminal".
    """
    parts = folder_of_runs(target)
    with tempfile.TemporaryDirectory(dir=target.parent) if temporary else staging_path(parts) as unpacked:
        shards = source.shards(Path(unpacked), pool)
        if temporary and len(shards) == 1:
            counted, n_unknown = count_block(text_of(shards[0]), counting)
            warn_of_unknown(n_unknown)
            if not len(counted):
                raise InputError("there are no words in the text")
            return counted
        digests = pool.map("read-text", digest_of_shard, shards)
        before = Cooccurrences.load(target).blocks if target.exists() else []
        if before and not add and digests != before:
            raise InputError(f"{target} has counts of another text; use the same again, or another folder")
        known = set(before)
        new = [one for one in zip(shards, digests, strict=True) if one[1] not in known]
        if add and len(new) < len(shards):
            n_before = len(shards) - len(new)
            warn(f"text that was counted before is not counted again; this is {n_before:,} of its blocks")
        with workspace(parts, lambda: {"pbos": __version__, "counting": asdict(counting)}):
            runs = earlier_runs(parts, [digest for _, digest in new], known)
            jobs = [Job(number, *one) for number, one in enumerate(new)]
            runs = count_shards(jobs, runs, parts, counting, pool, progress)
            if runs:
                folders = [target] if before else []
                folders += [parts / run.name for run in runs]
                merge_folders(folders, parts / SUM, pool.size)
                if len(Cooccurrences.load(parts / SUM)):
                    with staging_path(target) as place:
                        (parts / SUM).rename(place)
                        put_in_place(place, target)
    if not target.exists():
        raise InputError("there are no words in the text")
    return Cooccurrences.load(target)


def folder_of_runs(target: Path) -> Path:
    """Return the folder for what is counted until it is complete."""
    return target.with_name(f"{target.name}.parts")


# Shards and runs ------------------------------------------------------------------------------------------------------


class Job(NamedTuple):
    """A shard to count."""

    number: int
    shard: Shard
    digest: str


class Run(NamedTuple):
    """The co-occurrences of shards that follow each other, in a folder."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the folder."""
        return f"{self.first:06}-{self.last:06}"

    @property
    def size(self) -> int:
        """How many shards the run covers."""
        return self.last - self.first + 1


def earlier_runs(folder: Path, digests: list[str], known: set[str]) -> list[Run]:
    """Return the runs that an interrupted call has left, in order; remove those that were merged already."""
    names = (RUN.fullmatch(path.name) for path in folder.iterdir())
    found = [Run(int(name[1]), int(name[2])) for name in names if name]
    runs: list[Run] = []
    for run in sorted(found, key=lambda run: (run.first, -run.last)):
        blocks = Cooccurrences.load(folder / run.name).blocks
        if (runs and run.first <= runs[-1].last) or known.issuperset(blocks):
            remove(folder / run.name)
        elif blocks != digests[run.first : run.last + 1]:
            raise InputError(f"{folder} has counts of another text; use the same again, or remove the folder")
        else:
            runs.append(run)
    return runs


def count_shards(
    jobs: list[Job], runs: list[Run], folder: Path, counting: Counting, pool: Pool, progress: bool | None
) -> list[Run]:
    """Count the shards that no run covers yet, and merge runs as they become many; return the runs."""
    done = {number for run in runs for number in range(run.first, run.last + 1)}
    left = [job for job in jobs if job.number not in done]
    size = sum(piece.stop - piece.start for job in left for piece in job.shard)
    count, memory = partial(count_shard, folder=folder, counting=counting), BLOCK_MEMORY * max(8, counting.window) // 8
    n_unknown = 0
    with progress_bar("counting", size, progress) as advance:
        for some in blocks(len(left), FAN_IN * pool.size):
            counted = pool.map("count-text", count, left[some], lambda one: advance(one[0]), memory)
            n_unknown += sum(unknown for _, unknown in counted)
            runs = merge_many([*runs, *(Run(job.number, job.number) for job in left[some])], folder, pool)
    warn_of_unknown(n_unknown)
    return runs


def merge_many(runs: list[Run], folder: Path, pool: Pool) -> list[Run]:
    """Merge runs of the same size that follow each other, as soon as there are `FAN_IN`; return the runs."""
    size = 1
    while any(run.size >= size for run in runs):
        groups: dict[int, list[Run]] = {}
        for run in sorted(runs):
            if run.size == size:
                groups.setdefault(run.first // (size * FAN_IN), []).append(run)
        full = [group for group in groups.values() if len(group) == FAN_IN]
        threads = max(1, pool.size // max(1, len(full)))
        merged = pool.map("merge-counts", partial(merge_runs, folder=folder, threads=threads), full)
        for run in itertools.chain(*full):
            runs.remove(run)
            remove(folder / run.name)
        runs += merged
        size *= FAN_IN
    return sorted(runs)


# On any worker: each reads and writes files only, so that it can run again --------------------------------------------


def digest_of_shard(shard: Shard) -> str:
    """Return a digest of the text of a shard."""
    return digest_of(text_of(shard))


def count_shard(job: Job, folder: Path, counting: Counting) -> tuple[int, int]:
    """Count a shard of text into a run; return its size, and how many of its characters cannot be read."""
    block = text_of(job.shard)
    if digest_of(block) != job.digest:
        raise InputError(f"{job.shard[0].path} was changed while it was counted; count it again")
    counted, n_unknown = count_block(block, counting)
    counted.save(folder / Run(job.number, job.number).name)
    return len(block), n_unknown


def merge_runs(runs: list[Run], folder: Path, threads: int) -> Run:
    """Merge runs into one."""
    merged = Run(runs[0].first, runs[-1].last)
    merge_folders([folder / run.name for run in runs], folder / merged.name, threads)
    return merged


def merge_folders(folders: list[Path], target: Path, threads: int) -> None:
    """Merge the co-occurrences of folders into another one."""
    merge([Cooccurrences.load(folder) for folder in folders], target, min(threads, thread_count(None)))


def count_block(block: bytes, counting: Counting) -> tuple[Cooccurrences, int]:
    """Count a block of text; also return how many of its characters cannot be read."""
    text = block.decode("utf-8", "replace")
    n_unknown = text.count(UNKNOWN) - block.count(UNKNOWN.encode())  # not those that the text itself has
    return Cooccurrences.of_block(text, counting, [digest_of(block)]), n_unknown


def digest_of(block: bytes) -> str:
    """Return a digest of a block of text."""
    return hashlib.blake2b(block, digest_size=16).hexdigest()


def warn_of_unknown(n_unknown: int) -> None:
    """Warn if some of a text cannot be read."""
    if n_unknown:
        warn(f"{n_unknown:,} characters of the text are not UTF-8; convert it if these are many")
