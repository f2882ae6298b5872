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
from pbos.jobs.threads import blocks
from pbos.jobs.workspace import workspace

SUM = "sum"  # the name of the folder with all counts, before it is moved to its place
RUN = re.compile(r"(\d{6,})-(\d{6,})")  # the name of a folder with counts of some shards
FAN_IN = 16  # runs of the same size that are merged into one
BLOCK_MEMORY = 512 << 20  # what counting one shard needs at most, in bytes, with windows of up to 8 words
UNKNOWN = "\ufffd"  # what bytes that are not UTF-8 become


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
    found: Cooccurrences | None
    unpacking = tempfile.TemporaryDirectory(dir=target.parent) if temporary else staging_path(folder_of_runs(target))
    with unpacking as unpacked:
        shards = source.shards(Path(unpacked), pool)
        if temporary and len(shards) == 1:
            found, n_unknown = count_block(text_of(shards[0]), counting)
        else:
            n_unknown = count_shards(shards, counting, target, pool, add, progress)
            found = Cooccurrences.load(target) if target.exists() else None
    if n_unknown:
        warn(f"{n_unknown:,} characters of the text are not UTF-8; if that is a lot, convert it to UTF-8")
    if not found:
        raise InputError("there are no words in the text")
    return found


def folder_of_runs(target: Path) -> Path:
    """Return the folder for what is counted until it is complete."""
    return target.with_name(f"{target.name}.parts")


def count_shards(
    shards: list[Shard], counting: Counting, target: Path, pool: Pool, add: bool, progress: bool | None
) -> int:
    """Count shards into a folder; return how many of their characters cannot be read."""
    digests = pool.map("read-text", digest_of_shard, shards)
    before = Cooccurrences.load(target).blocks if target.exists() else []
    if before and not add and digests != before:
        raise InputError(f"{target} has counts of a different text; use the same text again, or another folder")
    known = set(before)
    new = [one for one in zip(shards, digests, strict=True) if one[1] not in known]
    if add and len(new) < len(shards):
        warn(f"skipped {len(shards) - len(new):,} of {len(shards):,} blocks of text, which were counted before")
    jobs, folder, n_unknown = [Job(number, *one) for number, one in enumerate(new)], folder_of_runs(target), 0
    with workspace(folder, lambda: {"pbos": __version__, "counting": asdict(counting)}):
        runs = earlier_runs(folder, [job.digest for job in jobs], known)
        done = {number for run in runs for number in range(run.first, run.last + 1)}
        left = [job for job in jobs if job.number not in done]
        size = sum(piece.stop - piece.start for job in left for piece in job.shard)
        memory = BLOCK_MEMORY * max(8, counting.window) // 8
        count = partial(count_shard, folder=folder, counting=counting)
        with progress_bar("counting", size, progress) as advance:
            for some in blocks(len(left), FAN_IN * pool.size):
                counted = pool.map("count-text", count, left[some], lambda one: advance(one[0]), memory)
                n_unknown += sum(unknown for _, unknown in counted)
                runs = merge_many({*runs, *(Run(job.number, job.number) for job in left[some])}, folder, pool)
        if runs:
            folders = [target] * bool(before) + [folder / run.name for run in runs]
            merge(list(map(Cooccurrences.load, folders)), folder / SUM, pool.size)
            if len(Cooccurrences.load(folder / SUM)):
                with staging_path(target) as place:
                    (folder / SUM).rename(place)
                    put_in_place(place, target)
    return n_unknown


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
            raise InputError(f"{folder} has counts of a different text; use the same text again, or delete the folder")
        else:
            runs.append(run)
    return runs


def merge_many(runs: set[Run], folder: Path, pool: Pool) -> list[Run]:
    """Merge runs of the same size that follow each other, as soon as there are `FAN_IN`; return the runs."""
    size, end = 1, max(run.last for run in runs) + 1
    while size * FAN_IN <= end:
        starts = range(0, end, size * FAN_IN)
        groups = [[Run(at, at + size - 1) for at in range(start, start + size * FAN_IN, size)] for start in starts]
        full = [group for group in groups if runs.issuperset(group)]
        threads = max(1, pool.size // max(1, len(full)))
        runs.update(pool.map("merge-counts", partial(merge_runs, folder=folder, threads=threads), full))
        for run in itertools.chain(*full):
            runs.remove(run)
            remove(folder / run.name)
        size *= FAN_IN
    return sorted(runs)


def digest_of_shard(shard: Shard) -> str:
    """Return a digest of the text of a shard."""
    return digest_of(text_of(shard))


def digest_of(block: bytes) -> str:
    """Return a digest of a block of text."""
    return hashlib.blake2b(block, digest_size=16).hexdigest()


def count_shard(job: Job, folder: Path, counting: Counting) -> tuple[int, int]:
    """Count a shard of text into a run; return its size, and how many of its characters cannot be read."""
    block = text_of(job.shard)
    counted, n_unknown = count_block(block, counting)
    if counted.blocks != [job.digest]:
        raise InputError(f"{job.shard[0].path} changed while it was being counted; count it again")
    counted.save(folder / Run(job.number, job.number).name)
    return len(block), n_unknown


def count_block(block: bytes, counting: Counting) -> tuple[Cooccurrences, int]:
    """Count a block of text; also return how many of its characters cannot be read."""
    text = block.decode("utf-8", "replace")
    n_unknown = text.count(UNKNOWN) - block.count(UNKNOWN.encode())  # not those that the text itself has
    return Cooccurrences.of_block(text, counting, [digest_of(block)]), n_unknown


def merge_runs(runs: list[Run], folder: Path, threads: int) -> Run:
    """Merge runs into one."""
    merged = Run(runs[0].first, runs[-1].last)
    merge([Cooccurrences.load(folder / run.name) for run in runs], folder / merged.name, threads)
    return merged
