"""How often words occur in which contexts: counts that add up, in memory or in a folder of mapped arrays."""

from __future__ import annotations

import itertools
import json
import mmap
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError
from pbos.files.atomic import save_array, write_whole_folder
from pbos.files.paths import PathLike, damage_in, resolve_links, to_local_path
from pbos.jobs.threads import blocks, in_threads, thread_count
from pbos.kernels import text as kernels
from pbos.words.readonly import ReadOnlyList
from pbos.words.tokens import words_of

FORMAT = "pbos co-occurrences 1"
LEAST_TOKENS = 1_000_000  # a shorter block is subsampled as if it had so many, or nothing would be left of it
MOST_COLUMNS = 2**31 - 1  # of a matrix, whose columns are 32-bit numbers
ENTRIES = 1 << 20  # of a matrix, worked on at a time
ARRAYS = {"counts": np.int64, "indptr": np.int64, "indices": np.int32, "data": np.uint32}
Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[Any]]  # a CSR matrix


@dataclass(frozen=True)
class Counting:
    """What decides how text is counted; only counts with the same settings can be added up.

    Attributes:
        cut: How words are found: "words", "spaces" or "tokens", see `pbos.corpus.sources.Source`.
        lowercase: Whether text is changed to lower case.
        window: How many words apart two words may be; 0 to count words only, without contexts.
        thin: Words more frequent than this share of a text are subsampled: an occurrence is kept with probability
            sqrt(x) + x, where x is this share divided by that of the word.
        seed: Determines which occurrences are kept.
    """

    cut: str = "words"
    lowercase: bool = True
    window: int = 5
    thin: float = 1e-4
    seed: int = 0

    def stays(self, counts: npt.NDArray[np.int64], n_tokens: int) -> npt.NDArray[np.float64]:
        """Return the probability that an occurrence of each word of a text is kept; 1 or more for all of them."""
        shares = self.thin * max(n_tokens, LEAST_TOKENS) / np.maximum(counts, 1)
        return np.asarray(np.sqrt(shares) + shares)


@dataclass(frozen=True, eq=False, repr=False)
class Cooccurrences:
    """How often words occur, and how often in which contexts.

    Of n words, context c is "near word c", n + c "just before word c", and 2 n + c "just after word c". A word at
    distance d in a line counts window + 1 - d as near, after frequent words were subsampled; before and after count
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
        # What happens to a word depends on its position and the seed.
        salt = mixed(np.array([counting.seed], np.uint64))
        draws = (mixed(np.arange(ids.size, dtype=np.uint64) + salt) >> np.uint64(11)) / 2.0**53
        stays = draws < counting.stays(counts, ids.size)[ids]
        ends = np.concatenate([[0], np.cumsum(stays)])[line_ends]
        indptr, indices, data = kernels.count_contexts(ids[stays], ends, ids, line_ends, len(words), counting.window)
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
        text, ends = self.lines.tobytes(), np.flatnonzero(self.lines == kernels.END)
        starts = np.concatenate([[0], ends + 1])
        found = zip(starts[places].tolist(), ends[places].tolist(), strict=True)
        return [text[start:end].decode("utf-8", "replace") for start, end in found]

    def rows(self, rows: slice) -> Rows:
        """Return a range of rows, with an `indptr` from 0."""
        indptr = read(self.indptr, slice(rows.start, rows.stop + 1))
        entries = slice(int(indptr[0]), int(indptr[-1]))
        return indptr - indptr[0], read(self.indices, entries), read(self.data, entries)

    def save(self, path: PathLike) -> None:
        """Save to a folder, completely or not at all."""
        merge([self], path)

    @classmethod
    def load(cls, path: PathLike) -> Cooccurrences:
        """Open a folder; its arrays stay mapped, not in memory."""
        folder = to_local_path(path)
        try:
            with damage_in(folder, "not a folder of co-occurrences, or damaged"):
                info = json.loads((folder / "info.json").read_text("utf-8"))
                if info["format"] != FORMAT:
                    raise ValueError("another format")
                kinds = {one.name: type(one.default) for one in fields(Counting)}
                if {name: type(value) for name, value in info["counting"].items()} != kinds:
                    raise ValueError("other settings")
                words = folder / "words.txt"
                coded = np.memmap(words, np.uint8, "r") if words.stat().st_size else np.zeros(0, np.uint8)
                arrays: Any = [np.lib.format.open_memmap(folder / f"{name}.npy", mode="r") for name in ARRAYS]
                if [(array.ndim, array.dtype) for array in arrays] != [(1, np.dtype(kind)) for kind in ARRAYS.values()]:
                    raise ValueError("arrays of other types or shapes")
                digests = [str(digest) for digest in info["blocks"]]
                counts, indptr, indices, data = arrays
                loaded = cls(coded, counts, indptr, indices, data, Counting(**info["counting"]), digests)
        except FileNotFoundError as error:
            raise FormatError(
                f"{folder} is not a folder of co-occurrences: it has no {Path(error.filename).name}; to read the texts "
                "in a folder, pass a pattern such as 'texts/*.txt'"
            ) from None
        n_words, ends = len(loaded), read(indptr)
        parts = (read(indices, entries) for entries in blocks(indices.size, ENTRIES))
        if not (  # otherwise kernels would read beyond the arrays
            bytes(coded[-1:]) in (b"", b"\n")
            and np.count_nonzero(read(coded) == kernels.END) == n_words == ends.size - 1
            and 0 == ends[0] <= ends[-1] == indices.size == data.size
            and (ends[1:] >= ends[:-1]).all()
            and read(counts).min(initial=0) >= 0
            and all(part.min() >= 0 and part.max() < 3 * n_words for part in parts)
        ):
            raise FormatError(f"{folder}: its files do not belong together; count again")
        return loaded


def mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64 bits that look random for each number, always the same (the finalizer of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def read(array: npt.NDArray[Any], part: slice = slice(None)) -> npt.NDArray[Any]:
    """Return part of an array; of a mapped one a copy, so that its pages do not pile up in this process."""
    if not isinstance(array, np.memmap):
        return array[part]
    copy = np.array(array[part])
    mapped: Any = array._mmap  # type: ignore[attr-defined]
    if hasattr(mapped, "madvise"):  # not on Windows
        mapped.madvise(mmap.MADV_DONTNEED)
    return copy


def merge(parts: list[Cooccurrences], path: PathLike, threads: int | None = None) -> None:
    """Add up co-occurrences into a folder, a few rows at a time; the result does not depend on how text was divided."""
    if len({part.counting for part in parts}) > 1:
        raise InputError("co-occurrences counted with different settings cannot be added up")
    words = reduce(kernels.join_lists, (read(part.lines) for part in parts), np.zeros(0, np.uint8))
    n_words = kernels.count_sorted(words)
    if n_words < 0:
        raise FormatError(f"{path} cannot be made: the words of its parts are not sorted; count them again")
    if 3 * n_words > MOST_COLUMNS:
        raise InputError(f"{n_words:,} distinct words are too many; count fewer texts, or cut them into fewer words")
    numbers = [kernels.find_places(read(part.lines), len(part), words) for part in parts]
    counts, most_entries = np.zeros(n_words, np.int64), np.zeros(n_words + 1, np.int64)
    for part, new in zip(parts, numbers, strict=True):
        counts[new] += read(part.counts)
        most_entries[new + 1] += np.diff(read(part.indptr))
    indptr = np.zeros(n_words + 1, np.int64)
    with write_whole_folder(resolve_links(path)) as folder:
        with (folder / "indices.npy").open("xb") as indices, (folder / "data.npy").open("xb") as data:
            streams = {"indices": indices, "data": data}
            for name, stream in streams.items():  # the header has a fixed size; it gets the length at the end
                write_header(stream, ARRAYS[name], 0)
            ranges = row_ranges(np.cumsum(most_entries))
            at_once = min(thread_count(threads), thread_count(None))  # a worker may have fewer cores
            for some in blocks(len(ranges), at_once):
                sums = in_threads(partial(add_rows, parts, numbers, n_words), ranges[some], at_once)
                for rows, (ends, columns, values) in zip(ranges[some], sums, strict=True):
                    indptr[rows.start + 1 : rows.stop + 1] = indptr[rows.start] + ends[1:]
                    indices.write(columns.data)
                    data.write(values.data)
            for name, stream in streams.items():
                stream.seek(0)
                write_header(stream, ARRAYS[name], int(indptr[-1]))
        for name, array in (("counts", counts), ("indptr", indptr)):
            with (folder / f"{name}.npy").open("xb") as stream:
                save_array(stream, array)
        (folder / "words.txt").write_bytes(words.data)
        digests = [digest for part in parts for digest in part.blocks]
        info = {"format": FORMAT, "counting": asdict(parts[0].counting), "blocks": digests}
        (folder / "info.json").write_text(json.dumps(info, indent=1) + "\n", "utf-8")


def add_rows(parts: list[Cooccurrences], numbers: list[npt.NDArray[np.int32]], n_words: int, rows: slice) -> Rows:
    """Return the sums of a range of rows; `numbers` are the words' new numbers, which rise with those in each part."""
    sums: list[Rows] = []
    for part, new in zip(parts, numbers, strict=True):
        old = slice(*np.searchsorted(new, np.array((rows.start, rows.stop), np.int32)).tolist())
        indptr, columns, values = part.rows(old)
        sizes = np.zeros(rows.stop - rows.start + 1, np.int64)
        sizes[new[old] - rows.start + 1] = np.diff(indptr)
        kinds = columns // len(part)
        sums.append((np.cumsum(sizes), kinds * n_words + new[columns - kinds * len(part)], values))
    while len(sums) > 1:
        sums = [reduce(kernels.add_counts, sums[first : first + 2]) for first in range(0, len(sums), 2)]
    return sums[0]


def row_ranges(indptr: npt.NDArray[np.int64]) -> list[slice]:
    """Return ranges of the rows of a CSR matrix, with about `ENTRIES` entries each."""
    ends = np.searchsorted(indptr, np.arange(ENTRIES, int(indptr[-1]) + ENTRIES, ENTRIES), "left")
    bounds = np.unique(np.concatenate([[0], ends, [indptr.size - 1]]).clip(0, indptr.size - 1))
    return [slice(first, last) for first, last in itertools.pairwise(bounds.tolist())]


def write_header(stream: BinaryIO, dtype: Any, size: int) -> None:
    """Write the header of a .npy file, which has a fixed size, for a list of numbers."""
    header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(stream, header)
