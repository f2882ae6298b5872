"""Counting a text of any size: block by block, on all cores, within little memory, and again from where it stopped."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pbos.corpus.cooccurrences import Cooccurrences, Counting, merge
from pbos.corpus.sources import Source
from pbos.errors import InputError, warn
from pbos.files import lock, put_in_place, sibling
from pbos.threads import in_threads, thread_count

FAN_IN = 16  # runs of the same size that are merged into one
BLOCK_MEMORY = 512 << 20  # what counting one block needs at most, in bytes
SUM = "sum"  # the name of the folder with all counts, before it is moved to its place
UNKNOWN = "\ufffd"  # what bytes that are not UTF-8 become


def count_text(
    source: Source,
    counting: Counting,
    folder: Path,
    *,
    known: Cooccurrences | None = None,
    target: Path,
    threads: int | None = None,
    memory: int = 4 << 30,
    on_block: Callable[[int], None] = lambda size: None,
) -> Cooccurrences:
    """Count the co-occurrences of a text, and return them from the folder `target`.

    Each block of text becomes a run, a folder of its own; runs are merged when there are many. A run that is there
    already, from an earlier call that was interrupted, is not counted again. The result is the same byte for byte
    however often that happens, and for any number of threads.

    Args:
        source: The text.
        counting: How to count.
        folder: Where to keep runs, next to `target`; it is removed at the end.
        known: Co-occurrences to add to; blocks of text that they have counted are skipped.
        target: The folder to write.
        threads: The number of threads; None for one per core.
        memory: The most memory to use, in bytes; with less of it, fewer threads count.
        on_block: Called with the size of each block of text that is done.
    """
    workers = max(1, min(thread_count(threads), int(memory / (BLOCK_MEMORY * max(1, counting.window / 8)))))
    before = set() if known is None else set(known.blocks)
    digests: list[str] = []
    waiting: list[tuple[int, bytes, str]] = []
    n_before = n_unknown = 0
    with lock(folder, f"another process is counting into {folder}; wait for it, or stop it"):
        runs = Runs(folder, counting)
        if before.intersection(runs.digests.values()):  # they are merged already; removing them was interrupted
            runs.clear()

        def finish() -> None:
            nonlocal n_unknown
            n_unknown += sum(in_threads(lambda block: runs.count(*block), waiting, workers))
            for _, text, _ in waiting:
                on_block(len(text))
            waiting.clear()
            runs.compact(workers)

        for text in source.blocks():
            digest = digest_of(text)
            if digest in before:
                n_before += 1
                on_block(len(text))
                continue
            if runs.has(len(digests), digest):
                on_block(len(text))
            else:
                waiting.append((len(digests), text, digest))
            digests.append(digest)
            if len(waiting) == workers:
                finish()
        finish()
        if n_unknown:
            warn(f"{n_unknown:,} characters of the text are not UTF-8; convert it if these are many")
        if n_before:
            warn(f"text that was counted before is not counted again; this is {n_before:,} of its blocks")
        parts = [Cooccurrences.load(path) for path in runs.paths()]
        if [block for part in parts for block in part.blocks] != digests:
            raise InputError(f"{folder} has counts of another text; use the same again, or remove the folder")
        if known is not None:
            parts.insert(0, known)
        if not any(len(part) for part in parts):
            runs.clear()
            raise InputError("there are no words in the text")
        if digests:
            merge(parts, folder / SUM, workers)
            put_in_place(folder / SUM, target)
        del parts
        runs.clear()
    folder.rmdir()
    return Cooccurrences.load(target)


def digest_of(block: bytes) -> str:
    """Return a digest of a block of text."""
    return hashlib.blake2b(block, digest_size=16).hexdigest()


class Runs:
    """The co-occurrences of parts of a text, in folders named after the first and the last block that they cover."""

    def __init__(self, folder: Path, counting: Counting) -> None:
        self.folder, self.counting = folder, counting
        folder.mkdir(parents=True, exist_ok=True)
        for path in [*folder.glob(".*.tmp"), *folder.glob(SUM)]:  # that were being written
            shutil.rmtree(path)
        self.digests: dict[int, str] = {}
        for path in self.paths():
            first, last = span_of(path)
            run = Cooccurrences.load(path)
            if run.counting != counting:
                raise InputError(f"{folder} was counted with other settings; use the same again, or remove the folder")
            self.digests |= dict(zip(range(first, last + 1), run.blocks, strict=True))

    def clear(self) -> None:
        """Remove all runs, the last first, so that what is left is complete if this is interrupted."""
        for path in sorted(self.folder.iterdir(), reverse=True):
            remove(path)
        self.digests.clear()

    def paths(self) -> list[Path]:
        """Return the runs in order; those that a larger one covers, left by an interrupted merge, are removed."""
        found: list[Path] = []
        end = -1
        for path in sorted(self.folder.iterdir(), key=lambda path: (span_of(path)[0], -span_of(path)[1])):
            first, last = span_of(path)
            if first > end:
                found.append(path)
                end = last
            else:
                remove(path)
        return found

    def has(self, number: int, digest: str) -> bool:
        """Return whether a block has been counted; raise InputError if it was another text."""
        if number in self.digests and self.digests[number] != digest:
            raise InputError(f"{self.folder} has counts of another text; use the same again, or remove the folder")
        return number in self.digests

    def count(self, number: int, block: bytes, digest: str) -> int:
        """Count a block of text; return how many characters of it cannot be read."""
        text = block.decode("utf-8", "replace")
        Cooccurrences.of_block(text, self.counting, [digest]).save(self.folder / name_of(number, number))
        return text.count(UNKNOWN)

    def compact(self, threads: int) -> None:
        """Merge runs of the same size that follow each other, as soon as there are `FAN_IN`."""
        size = 1
        while some := [path for path in self.paths() if length(path) == size]:
            for first in range(0, len(some) - FAN_IN + 1, FAN_IN):
                group = some[first : first + FAN_IN]
                start, end = span_of(group[0])[0], span_of(group[-1])[1]
                if end - start + 1 == size * FAN_IN:  # none is missing in between
                    merge([Cooccurrences.load(path) for path in group], self.folder / name_of(start, end), threads)
                    for path in group:
                        remove(path)
            size *= FAN_IN


def remove(path: Path) -> None:
    """Remove a folder so that no part of it is left under its name if this is interrupted."""
    hidden = sibling(path)
    path.rename(hidden)
    shutil.rmtree(hidden)


def name_of(first: int, last: int) -> str:
    """Return the name of a run."""
    return f"{first:06}-{last:06}"


def span_of(path: Path) -> tuple[int, int]:
    """Return the first and the last block of a run."""
    with suppress(ValueError):
        first, last = map(int, path.name.split("-"))
        return first, last
    raise InputError(f"{path} does not belong to a folder of counts; remove it")


def length(path: Path) -> int:
    """Return how many blocks a run covers."""
    first, last = span_of(path)
    return last - first + 1
