"""How often words occur in which contexts: counts that add up, in memory or in a folder of mapped arrays."""

from __future__ import annotations

import itertools
import json
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.corpus.words import words_of
from pbos.errors import FormatError, InputError
from pbos.files.atomic import write_whole_folder
from pbos.files.paths import PathLike, damage_in, resolve_links, to_local_path
from pbos.jobs.threads import in_threads, thread_count
from pbos.kernels.text import END, add_counts, count_contexts, count_sorted, find_places, join_lists, renumber, thin_out
from pbos.words.readonly import ReadOnlyList

FORMAT = "pbos co-occurrences 1"
LEAST_TOKENS = 1_000_000  # a shorter block is thinned out as if it had so many, or nothing would be left of it
MOST_COLUMNS = 2**31 - 1  # of a matrix, whose columns are 32-bit numbers
ENTRIES = 1 << 20  # of a matrix, worked on at a time
Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[Any]]  # a CSR matrix


@dataclass(frozen=True)
class Counting:
    """What decides how text is counted; only counts with the same settings can be added up.

    Attributes:
        cut: How words are found, one of `pbos.corpus.words.CUTS`.
        lowercase: Whether text is changed to lower case.
        window: How many words apart two words may be; 0 to count words only, without contexts.
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
        lines: The words, sorted, as UTF-8 with a newline after each.
        counts: How often each occurs, int64 (n,).
        indptr: With `indices` and `data`, a sparse matrix (CSR) of words and contexts (n, 3 n), with sorted columns.
        indices: The columns.
        data: The counts.
        counting: How they were counted.
        blocks: Digests of the blocks of text that were counted.
    """

    lines: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    data: npt.NDArray[np.uint32]
    counting: Counting
    blocks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", ReadOnlyList(self.blocks))

    @classmethod
    def of_block(cls, text: str, counting: Counting, blocks: list[str]) -> Cooccurrences:
        """Count one block of text."""
        words, ids, line_ends = words_of(text, counting.cut, counting.lowercase)
        coded = np.frombuffer(bytearray("".join(f"{word}\n" for word in words), "utf-8"), np.uint8)
        counts = np.bincount(ids, minlength=len(words))
        if not counting.window:
            nothing = np.zeros(0, np.int32), np.zeros(0, np.uint32)
            return cls(coded, counts, np.zeros(len(words) + 1, np.int64), *nothing, counting, blocks)
        shares = counting.thin * max(ids.size, LEAST_TOKENS) / counts
        thinned, ends = ids.copy(), line_ends.copy()
        n_kept = thin_out(thinned, ends, np.sqrt(shares) + shares, np.uint64(counting.seed))
        indptr, indices, data = count_contexts(thinned[:n_kept], ends, ids, line_ends, len(words), counting.window)
        return cls(coded, counts, indptr, indices, data, counting, blocks)

    def __len__(self) -> int:
        return self.counts.size

    def __repr__(self) -> str:
        return f"Cooccurrences({len(self):,} words, {int(self.counts.sum()):,} tokens, {self.data.size:,} contexts)"

    @cached_property
    def words(self) -> list[str]:
        """The words, sorted."""
        return ReadOnlyList(self.words_at(np.arange(len(self))))

    def words_at(self, places: npt.NDArray[np.int64]) -> list[str]:
        """Return some of the words."""
        text, ends = self.lines.tobytes(), np.flatnonzero(self.lines == END)
        starts = np.concatenate([[0], ends + 1])
        found = zip(starts[places].tolist(), ends[places].tolist(), strict=True)
        return [text[start:end].decode("utf-8", "replace") for start, end in found]

    def rows(self, some: slice) -> Rows:
        """Return some rows, with an `indptr` from 0."""
        indptr = some_of(self.indptr, slice(some.start, some.stop + 1))
        entries = slice(int(indptr[0]), int(indptr[-1]))
        return indptr - indptr[0], some_of(self.indices, entries), some_of(self.data, entries)

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Save to a folder, completely or not at all."""
        merge([self], path)

    @classmethod
    def load(cls, path: PathLike) -> Cooccurrences:
        """Open a folder; its arrays stay mapped, not in memory."""
        folder = to_local_path(path)
        counting, blocks = read_info(folder)
        with errors_of(folder):
            words = folder / "words.txt"
            coded = np.memmap(words, np.uint8, "r") if words.stat().st_size else np.zeros(0, np.uint8)
            arrays: Any = [np.lib.format.open_memmap(folder / f"{name}.npy", mode="r") for name in ARRAYS]
            if [(array.ndim, array.dtype) for array in arrays] != [(1, np.dtype(dtype)) for dtype in ARRAYS.values()]:
                raise ValueError("arrays of other types or shapes")
            counts, indptr, indices, data = arrays
            loaded = cls(coded, counts, indptr, indices, data, counting, blocks)
        if not loaded.fits():
            raise FormatError(f"{folder}: its files do not belong together; count again")
        return loaded

    def fits(self) -> bool:
        """Return whether the arrays of a folder belong together, so that no kernel leaves them."""
        ends = bytes(self.lines[-1:]) in (b"", b"\n") and np.count_nonzero(some_of(self.lines) == END)
        indptr = some_of(self.indptr)
        if not (ends == len(self) == indptr.size - 1 and indptr[-1] == self.indices.size == self.data.size):
            return False
        if indptr[0] or (indptr[1:] < indptr[:-1]).any() or some_of(self.counts).min(initial=0) < 0:
            return False
        parts = (some_of(self.indices, slice(at, at + ENTRIES)) for at in range(0, self.indices.size, ENTRIES))
        return all(part.min() >= 0 and part.max() < 3 * len(self) for part in parts)


ARRAYS = {"counts": np.int64, "indptr": np.int64, "indices": np.int32, "data": np.uint32}


def some_of(array: npt.NDArray[Any], some: slice = slice(None)) -> npt.NDArray[Any]:
    """Return part of an array; of a mapped one a copy, so that its pages do not pile up in this process."""
    if not isinstance(array, np.memmap):
        return array[some]
    copy = np.array(array[some])
    mapped: Any = array._mmap  # type: ignore[attr-defined]
    if hasattr(mapped, "madvise"):  # not on Windows
        mapped.madvise(mmap.MADV_DONTNEED)
    return copy


@contextmanager
def errors_of(folder: Path) -> Iterator[None]:
    """Turn errors about what a folder has into FormatError."""
    try:
        with damage_in(folder, "not a folder of co-occurrences, or damaged"):
            yield
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise FormatError(
            f"{folder} is not a folder of co-occurrences: it has no {missing}; to read the texts in a folder, "
            "pass a pattern such as 'texts/*.txt'"
        ) from None


def read_info(folder: Path) -> tuple[Counting, list[str]]:
    """Return how the co-occurrences of a folder were counted, and the digests of their blocks."""
    with errors_of(folder):
        info = json.loads((folder / "info.json").read_text("utf-8"))
        if info["format"] != FORMAT:
            raise ValueError("another format")
        kinds = {one.name: type(one.default) for one in fields(Counting)}
        if {name: type(value) for name, value in info["counting"].items()} != kinds:
            raise ValueError("other settings")
        return Counting(**info["counting"]), [str(block) for block in info["blocks"]]


def merge(parts: list[Cooccurrences], path: PathLike, threads: int | None = None) -> None:
    """Add up co-occurrences into a folder, a few rows at a time; the result does not depend on how text was divided."""
    if len({part.counting for part in parts}) > 1:
        raise InputError("co-occurrences that were counted with different settings cannot be added up")
    words = reduce(join_lists, (some_of(part.lines) for part in parts), np.zeros(0, np.uint8))
    n_words = count_sorted(words)
    if n_words < 0:
        raise FormatError(f"{path} cannot be made: the words of its parts are not sorted; count them again")
    if 3 * n_words > MOST_COLUMNS:
        raise InputError(f"{n_words:,} distinct words are too many; count texts apart, or cut them into fewer words")
    numbers = [find_places(some_of(part.lines), len(part), words) for part in parts]
    counts, sizes = np.zeros(n_words, np.int64), np.zeros(n_words, np.int64)
    for part, new in zip(parts, numbers, strict=True):
        counts[new] += some_of(part.counts)
        sizes[new] += np.diff(some_of(part.indptr))
    some = list(ranges(np.concatenate([[0], np.cumsum(sizes)])))
    with write_whole_folder(resolve_links(path)) as folder:
        writers = {name: ArrayWriter(folder / f"{name}.npy", dtype) for name, dtype in ARRAYS.items()}
        writers["counts"].add(counts)
        writers["indptr"].add(np.zeros(1, np.int64))
        n_entries = 0
        at_once = thread_count(threads)
        for first in range(0, len(some), at_once):
            group = some[first : first + at_once]
            for indptr, indices, data in in_threads(
                lambda rows: added_rows(parts, numbers, n_words, rows), group, threads
            ):
                writers["indptr"].add(indptr[1:] + n_entries)
                writers["indices"].add(indices)
                writers["data"].add(data)
                n_entries += data.size
        for writer in writers.values():
            writer.close()
        (folder / "words.txt").write_bytes(words.data)
        blocks = [block for part in parts for block in part.blocks]
        info = {"format": FORMAT, "counting": asdict(parts[0].counting), "blocks": blocks}
        (folder / "info.json").write_text(json.dumps(info, indent=1) + "\n", "utf-8")


def added_rows(parts: list[Cooccurrences], numbers: list[npt.NDArray[np.int32]], n_words: int, rows: slice) -> Rows:
    """Return the sums of some rows; `numbers` are the words' new numbers in each part, which rise with the old ones."""
    added: list[Rows] = []
    for part, new in zip(parts, numbers, strict=True):
        old = slice(*np.searchsorted(new, np.array((rows.start, rows.stop), np.int32)).tolist())
        indptr, columns, values = part.rows(old)
        sizes = np.zeros(rows.stop - rows.start + 1, np.int64)
        sizes[new[old] - rows.start + 1] = np.diff(indptr)
        added.append((np.cumsum(sizes), renumber(columns, new, n_words), values))
    while len(added) > 1:
        added = [reduce(add_counts, added[first : first + 2]) for first in range(0, len(added), 2)]
    return added[0]


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
