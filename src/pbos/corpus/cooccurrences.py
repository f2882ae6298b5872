"""How often words occur in which contexts: counts that add up, in memory or in a folder of mapped arrays."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.corpus.words import words_of
from pbos.errors import FormatError, InputError
from pbos.files import PathLike, local, write_whole_folder
from pbos.kernels import pairs
from pbos.threads import in_threads, thread_count

FORMAT = "pbos co-occurrences 1"
LEAST_TOKENS = 1_000_000  # a shorter block is thinned out as if it had so many, or nothing would be left of it
ENTRIES = 1 << 20  # of a matrix, worked on at a time
Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[Any]]  # a CSR matrix


@dataclass(frozen=True)
class Counting:
    """What decides how text is counted; only counts with the same settings can be added up.

    Attributes:
        cut: How words are found, one of `pbos.corpus.words.CUTS`.
        lowercase: Whether text is changed to lower case.
        window: How many words apart two words may be.
        thin: Words more frequent than this share of a text are thinned out: they stay with the probability
            sqrt(x) + x, where x is the share divided by that of the word.
        seed: Determines which of them stay.
    """

    cut: str = "words"
    lowercase: bool = True
    window: int = 5
    thin: float = 1e-4
    seed: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Cooccurrences:
    """How often words occur, and how often in which contexts.

    Of n words, context c is "near word c", n + c "just before word c", and 2 n + c "just after word c". A word at
    distance d in a line counts window + 1 - d as near, after frequent words were thinned out; before and after count
    once, in the whole text.

    Attributes:
        words: The words, sorted.
        counts: How often each occurs, int64 (n,).
        indptr: With `indices` and `data`, a sparse matrix (CSR) of words and contexts (n, 3 n), with sorted columns.
        indices: The columns.
        data: The counts.
        counting: How they were counted.
        blocks: Digests of the blocks of text that were counted.
    """

    words: list[str]
    counts: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.uint32]
    counting: Counting
    blocks: list[str] = field(default_factory=list)

    @classmethod
    def of_block(cls, text: str, counting: Counting, blocks: list[str]) -> Cooccurrences:
        """Count one block of text."""
        words, ids, line_ends = words_of(text, counting.cut, counting.lowercase)
        counts = np.bincount(ids, minlength=len(words))
        shares = counting.thin * max(ids.size, LEAST_TOKENS) / counts
        thinned, ends = ids.copy(), line_ends.copy()
        n_kept = pairs.thin_out(thinned, ends, np.sqrt(shares) + shares, np.uint64(counting.seed))
        indptr, indices, data = pairs.count_contexts(
            thinned[:n_kept], ends, ids, line_ends, len(words), counting.window
        )
        return cls(words, counts, indptr, indices, data, counting, blocks)

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Cooccurrences({len(self):,} words, {int(self.counts.sum()):,} tokens, {self.data.size:,} contexts)"

    def ranges(self) -> Iterator[slice]:
        """Yield ranges of rows with about `ENTRIES` entries each."""
        return ranges(self.indptr)

    def rows(self, some: slice) -> Rows:
        """Return some rows, with an `indptr` from 0."""
        indptr = self.indptr[some.start : some.stop + 1]
        entries = slice(indptr[0], indptr[-1])
        return indptr - indptr[0], np.asarray(self.indices[entries]), np.asarray(self.data[entries])

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Save to a folder, completely or not at all."""
        merge([self], path)

    @classmethod
    def load(cls, path: PathLike) -> Cooccurrences:
        """Open a folder; its arrays stay mapped, not in memory."""
        folder = local(path)
        try:
            info = json.loads((folder / "info.json").read_text("utf-8"))
            if info.pop("format") != FORMAT:
                raise ValueError("another format")
            words = (folder / "words.txt").read_text("utf-8").split("\n")[:-1]
            arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
            counting, blocks = Counting(**info["counting"]), list(info["blocks"])
        except FileNotFoundError as error:
            raise FormatError(f"{error.filename}: not there; expected a folder of co-occurrences") from None
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{folder}: not a folder of co-occurrences, or damaged ({error})") from None
        counts, indptr, indices, data = arrays.values()
        if not (len(words) == counts.size == indptr.size - 1 and indptr[-1] == indices.size == data.size):
            raise FormatError(f"{folder}: its files do not belong together; count again")
        return cls(words, counts, indptr, indices, data, counting, blocks)


ARRAYS = {"counts": np.int64, "indptr": np.int64, "indices": np.int32, "data": np.uint32}


def merge(parts: list[Cooccurrences], path: PathLike, threads: int | None = None) -> None:
    """Add up co-occurrences into a folder, a few rows at a time; the result does not depend on how text was divided."""
    if len({part.counting for part in parts}) > 1:
        raise InputError("co-occurrences that were counted with different settings cannot be added up")
    words = sorted(set().union(*(part.words for part in parts)))
    places = {word: place for place, word in enumerate(words)}
    numbers = [np.fromiter(map(places.__getitem__, part.words), np.int32, len(part)) for part in parts]
    counts, sizes = np.zeros(len(words), np.int64), np.zeros(len(words), np.int64)
    for part, new in zip(parts, numbers, strict=True):
        counts[new] += part.counts
        sizes[new] += np.diff(part.indptr)
    some = list(ranges(np.concatenate([[0], np.cumsum(sizes)])))
    with write_whole_folder(local(path)) as folder:
        writers = {name: ArrayWriter(folder / f"{name}.npy", dtype) for name, dtype in ARRAYS.items()}
        writers["counts"].add(counts)
        writers["indptr"].add(np.zeros(1, np.int64))
        n_entries = 0
        at_once = thread_count(threads)
        for first in range(0, len(some), at_once):
            group = some[first : first + at_once]
            for indptr, indices, data in in_threads(lambda rows: added_rows(parts, numbers, rows), group, threads):
                writers["indptr"].add(indptr[1:] + n_entries)
                writers["indices"].add(indices)
                writers["data"].add(data)
                n_entries += data.size
        for writer in writers.values():
            writer.close()
        (folder / "words.txt").write_text("".join(f"{word}\n" for word in words), "utf-8", newline="\n")
        blocks = [block for part in parts for block in part.blocks]
        info = {"format": FORMAT, "counting": asdict(parts[0].counting), "blocks": blocks}
        (folder / "info.json").write_text(json.dumps(info, indent=1) + "\n", "utf-8")


def added_rows(parts: list[Cooccurrences], numbers: list[npt.NDArray[np.int32]], rows: slice) -> Rows:
    """Return the sums of some rows; `numbers` are the rows' new numbers in each part, which rise with the old ones."""
    if len(parts) == 1:
        return parts[0].rows(rows)
    n_words = 1 + max(int(new[-1]) for new in numbers if new.size)
    starts = np.zeros((len(parts), rows.stop - rows.start), np.int64)
    ends = np.zeros_like(starts)
    indices, data = [], []
    size = 0
    for at, (part, new) in enumerate(zip(parts, numbers, strict=True)):
        old = slice(*np.searchsorted(new, (rows.start, rows.stop)).tolist())
        indptr, columns, values = part.rows(old)
        starts[at, new[old] - rows.start] = indptr[:-1] + size
        ends[at, new[old] - rows.start] = indptr[1:] + size
        kinds, old_words = np.divmod(columns, len(part))
        indices.append(kinds * n_words + new[old_words])
        data.append(values)
        size += values.size
    found: Rows = pairs.add_rows(starts, ends, np.concatenate(indices), np.concatenate(data), 3 * n_words)
    return found


def ranges(indptr: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Yield ranges of the rows of a CSR matrix, with about `ENTRIES` entries each."""
    ends = np.searchsorted(indptr, np.arange(ENTRIES, int(indptr[-1]) + ENTRIES, ENTRIES), "left")
    bounds = np.unique(np.concatenate([[0], ends, [indptr.size - 1]]).clip(0, indptr.size - 1))
    return (slice(int(first), int(last)) for first, last in itertools.pairwise(bounds))


class ArrayWriter:
    """Writes a .npy file piece by piece; its header, which has a fixed size, gets the length at the end."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.size = 0
        self.stream: BinaryIO = path.open("xb")
        self._write_header()

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.size,)}
        np.lib.format.write_array_header_1_0(self.stream, header)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Append values."""
        self.stream.write(np.ascontiguousarray(values, self.dtype).data)
        self.size += values.size

    def close(self) -> None:
        """Complete the file."""
        self.stream.seek(0)
        self._write_header()
        self.stream.close()
