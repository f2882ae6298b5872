"""Subwords: counting them, and the one index that knows their probabilities and which of them own a vector."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, ModelError
from pbos.kernels import counting, lattice, trie
from pbos.kernels.machine import LINE
from pbos.kernels.trie import BLOCK, NO_ROW, WINDOW, IndexArrays, Nodes
from pbos.text import BOUNDARIES, Codes, encode
from pbos.threads import in_threads, thread_count

PARTS = 8  # in which sums over words are made; the same for any number of threads, and so is their sum
PROB_RANGE = 1e-12  # the least level of probability, as a share of the largest; nothing less probable is ever chosen


@dataclass(frozen=True)
class SubwordIndex:
    """Every known subword, as a trie in level order (see `kernels.trie`).

    Two sets live in one index: the subwords with a probability (`probs > 0`) and those that own a vector (`rows >= 0`,
    the row of the vector, which several may share). Node 0 is the empty string and is neither.

    Attributes:
        arrays: All there is to it, packed, as model files hold it.
    """

    arrays: IndexArrays

    def __post_init__(self) -> None:
        # One kernel signature serves fresh and memory-mapped indexes alike if all of them are read-only.
        for array in self.arrays:
            array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return SubwordIndex, (self.arrays,)

    @classmethod
    def of(
        cls,
        children: npt.NDArray[np.int64],
        code_points: npt.NDArray[np.uint32],
        probs: npt.NDArray[np.float32],
        rows: npt.NDArray[np.int32],
    ) -> SubwordIndex:
        """Pack the nodes of a trie, which are in level order.

        Args:
            children: How many children each node has.
            code_points: The last character of each node; every one of them is also a child of the root.
            probs: The probability of each node; 0 for none.
            rows: The row of its vector; -1 for none.
        """
        alphabet = code_points[1 : 1 + children[0]]
        labels = np.searchsorted(alphabet, code_points)
        labels[0] = 0
        return cls.of_letters(alphabet, labels, np.concatenate([[0], children[1:]]), probs, rows)

    @classmethod
    def of_letters(
        cls,
        alphabet: npt.NDArray[np.unsignedinteger[Any]],
        labels: npt.NDArray[np.integer[Any]],
        children: npt.NDArray[np.integer[Any]],
        probs: npt.NDArray[np.float32],
        rows: npt.NDArray[np.int32],
    ) -> SubwordIndex:
        """Pack the nodes of a trie as `of` does, with letters for code points; the root has no label and no children.

        Args:
            alphabet: The characters, as code points in ascending order.
            labels: The number in the alphabet of each node's last character; 0 for the root.
            children: How many children each node has; 0 for the root.
            probs: The probability of each node; 0 for none.
            rows: The row of its vector; -1 for none.
        """
        first_child = 1 + alphabet.size + np.cumsum(children, dtype=np.int64) - children
        arrays = IndexArrays(
            alphabet=alphabet.astype(np.uint32),
            labels=narrow(labels),
            children=narrow(children),
            blocks=first_child[::BLOCK].astype(np.uint32),
            probs=probs.astype(np.float32),
            prob_levels=np.zeros(0, np.float32),
            rows=pack_rows(rows),
        )
        return cls(arrays)

    def __len__(self) -> int:
        return self.arrays.labels.size - 1

    @cached_property
    def nodes(self) -> Nodes:
        """The index as the kernels walk it: unpacked at the first use, 32 bytes a node."""
        return self.unpacked(np.ones(int(self.rows.max()) + 1, np.float32))

    def unpacked(self, lengths: npt.NDArray[np.float32]) -> Nodes:
        """Unpack the index for the kernels.

        Args:
            lengths: Those of the vectors, by row.
        """
        alphabet, labels, children, _, *probs, rows = self.arrays
        n_letters = alphabet.size
        damaged = ModelError("the model's subword index is damaged; get a fresh copy of the model")
        if alphabet.max(initial=0) > sys.maxunicode:
            raise damaged
        letters = np.full(int(alphabet.max(initial=0)) + 1, n_letters, np.int32)
        letters[alphabet] = np.arange(n_letters)
        window = 0
        if n_letters > WINDOW:
            if labels.max() >= n_letters:
                raise damaged
            window = busiest_window(np.bincount(labels[1:], minlength=n_letters))
        letter_bits = np.zeros((n_letters + 1, 2), np.uint64)
        place = np.arange(min(WINDOW, n_letters))
        letter_bits[window + place, place // 64] = np.uint64(1) << (place % 64).astype(np.uint64)
        letter_bits[-1, 1] = trie.NOTHING
        space = np.zeros(4 * (labels.size + 4), np.uint64)
        space = space[-space.ctypes.data % LINE // space.itemsize :]  # so that no record lies in two lines
        records = space[: 4 * (labels.size + 2)].reshape(-1, 4)
        if not trie.unpack(letter_bits, window, labels, children, *probs, rows, lengths, records):
            raise damaged
        return letters, letter_bits, records, labels

    @property
    def alphabet(self) -> npt.NDArray[np.uint32]:
        """The characters, as code points in ascending order; they are the nodes 1 to n."""
        return self.arrays.alphabet

    @property
    def code_points(self) -> npt.NDArray[np.uint32]:
        """The last character of every node, unpacked; 0 for the root."""
        last = self.alphabet.take(self.arrays.labels[1:], mode="clip")
        return np.concatenate([np.zeros(1, np.uint32), last])

    @property
    def probs(self) -> npt.NDArray[np.float32]:
        """The probability of every node, unpacked; 0 for none."""
        probs, levels = self.arrays.probs, self.arrays.prob_levels
        return levels[probs] if levels.size else probs

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The row of every node's vector, unpacked; -1 for none."""
        return unpack_rows(self.arrays.rows)

    def with_probs(self, probs: npt.NDArray[np.float32]) -> SubwordIndex:
        """Return the index with other probabilities, held exactly."""
        exact = probs.astype(np.float32)
        return SubwordIndex(self.arrays._replace(probs=exact, prob_levels=np.zeros(0, np.float32)))

    def with_rows(self, rows: npt.NDArray[np.int32]) -> SubwordIndex:
        """Return the index with other rows."""
        return SubwordIndex(self.arrays._replace(rows=pack_rows(rows)))

    def with_prob_levels(self) -> SubwordIndex:
        """Return the index with its probabilities rounded to 255 levels of equal ratio, a byte a node.

        A probability changes by 6 % at most; one below PROB_RANGE of the largest becomes the least level.
        """
        if self.arrays.prob_levels.size:
            return self
        probs = self.probs.astype(np.float64)
        largest = probs.max() or 1.0
        smallest = max(probs.min(initial=largest, where=probs > 0), PROB_RANGE * largest)
        levels = np.geomspace(smallest, largest, 255)
        between = np.sqrt(levels[:-1] * levels[1:])
        numbers = np.where(probs > 0, 1 + np.searchsorted(between, probs), 0).astype(np.uint8)
        prob_levels = np.concatenate([[0], levels]).astype(np.float32)
        return SubwordIndex(self.arrays._replace(probs=numbers, prob_levels=prob_levels))

    def find(self, subword: str) -> int:
        """Return the node of a subword, or -1."""
        return int(trie.follow(self.nodes, encode([subword]).codes))

    def subword(self, node: int) -> str:
        """Return the string of a node, read off its path to the root."""
        codes = []
        while node > 0:
            codes.append(chr(self.alphabet[self.arrays.labels[node]]))
            node = self._parent(node)
        return "".join(reversed(codes))

    def _parent(self, node: int) -> int:
        block = int(np.searchsorted(self.arrays.blocks, node, side="right")) - 1
        if block < 0:
            return 0
        first = block * BLOCK
        ends = int(self.arrays.blocks[block]) + np.cumsum(self.arrays.children[first : first + BLOCK], dtype=np.int64)
        return first + int(np.searchsorted(ends, node, side="right"))

    def owners(self) -> npt.NDArray[np.int64]:
        """Return the nodes that own a vector, alone or with others."""
        return np.flatnonzero(self.arrays.rows.any(axis=1))

    def strings(self) -> Iterator[str]:
        """Yield the string of every node but the root, in node order."""
        strings = [""] * (len(self) + 1)
        for node, (parent, code) in enumerate(zip(self.parents().tolist(), self.code_points.tolist(), strict=True)):
            if node:
                strings[node] = strings[parent] + chr(code)
                yield strings[node]

    def parents(self) -> npt.NDArray[np.int64]:
        """Return the parent of every node; the root is its own."""
        children = self.arrays.children.astype(np.int64)
        children[0] = self.alphabet.size
        return np.concatenate([[0], np.repeat(np.arange(children.size), children)])

    def holders(self, words: Codes) -> npt.NDArray[np.int32]:
        """Return for each node the number of words that hold it."""
        holders: npt.NDArray[np.int32] = lattice.count_holders(self.nodes, *words)
        return holders

    def pruned(self, keep: npt.NDArray[np.bool_]) -> SubwordIndex:
        """Return the index of the kept nodes only, and of their prefixes and characters, which lose what they had.

        The rows that are left are numbered anew, in the same order.
        """
        parents = self.parents()
        needed = keep.copy()
        needed[0] = True
        while not needed[parents[needed]].all():
            needed[parents[needed]] = True
        needed[1 + np.unique(self.arrays.labels[1:][needed[1:]]).astype(np.int64)] = True
        new_id = np.cumsum(needed) - 1
        rows = np.where(keep, self.rows, NO_ROW)[needed]
        left, numbers = np.unique(rows[rows >= 0], return_inverse=True)
        rows[rows >= 0] = np.arange(left.size)[numbers]
        index = SubwordIndex.of(
            children=count_children(new_id[parents[needed]]),
            code_points=self.code_points[needed],
            probs=np.where(keep, self.probs, np.float32(0))[needed],
            rows=rows,
        )
        if self.arrays.prob_levels.size:  # then they stay what they are
            probs = np.where(keep, self.arrays.probs, 0)[needed]
            index = SubwordIndex(index.arrays._replace(probs=probs, prob_levels=self.arrays.prob_levels))
        return index


def busiest_window(counts: npt.NDArray[np.int64]) -> int:
    """Return the first of the WINDOW letters side by side that the most nodes end with; there are more letters."""
    sums = np.concatenate([[0], np.cumsum(counts)])
    return int(np.argmax(sums[WINDOW:] - sums[:-WINDOW]))


class Level(NamedTuple):
    """All subwords of one length, in order."""

    labels: npt.NDArray[Any]  # the letter that is last
    sums: npt.NDArray[np.float64]  # of the counts of words, over its occurrences
    holders: npt.NDArray[np.int32]  # how many words hold it
    owned: npt.NDArray[np.bool_]  # whether a target does
    parents_children: npt.NDArray[np.int32]  # how many children each subword of the level before has


def count_children(parents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many children each node has; the root, its own parent, is not a child."""
    return np.bincount(parents[1:], minlength=parents.size)


def narrow(numbers: npt.NDArray[np.integer[Any]]) -> npt.NDArray[Any]:
    """Hold numbers from 0 on in as few bytes as the largest needs."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def pack_rows(rows: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """Hold each row + 1 as the bytes that the largest needs, lowest first.

    >>> pack_rows(np.array([-1, 0, 299])).tolist()
    [[0, 0], [1, 0], [44, 1]]
    """
    numbers = (rows + 1).astype("<u4")
    width = max((int(numbers.max(initial=0)).bit_length() + 7) // 8, 1)
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, 4)[:, :width])


def unpack_rows(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
    """Undo `pack_rows`."""
    numbers = np.zeros((len(packed), 4), np.uint8)
    numbers[:, : packed.shape[1]] = packed
    return numbers.view("<u4")[:, 0].astype(np.int32) - 1


def count_subwords(
    words: Codes,
    counts: npt.NDArray[np.float64],
    is_target: npt.NDArray[np.bool_],
    *,
    min_len: int = 1,
    max_len: int | None = None,
    min_holders: int = 1,
    boundaries: bool = False,
) -> SubwordIndex:
    """Count the substrings of words and index them.

    Args:
        words: Each word once, as it is to be cut, with marks if there are to be any.
        counts: How often each word occurs; gives the subword probabilities.
        is_target: Which words have a vector; their substrings of min_len to max_len own one.
        min_len: The shortest subword that may own a vector.
        max_len: The longest subword; None for no limit.
        min_holders: A subword needs at least this many words that hold it to have a probability; single characters
            always have one, so that every word can be spelled.
        boundaries: Whether the words are written with boundary marks.

    >>> index = count_subwords(encode(["aba"]), np.array([1.0]), np.array([True]))
    >>> {subword: round(6 * p) for subword, p in zip(index.strings(), index.probs[1:].tolist())}
    {'a': 2, 'b': 1, 'ab': 1, 'ba': 1, 'aba': 1}
    """
    alphabet, text = as_text(words)
    levels = list(levels_of(text, alphabet.size, words.offsets, counts, is_target, max_len))
    if levels:
        for level in levels[: min_len - 1]:
            level.owned[:] = False
        if boundaries:
            disown_marks(levels, np.isin(alphabet, [ord(mark) for mark in BOUNDARIES]))
        for level in levels[1:] if min_holders > 1 else ():
            level.sums[level.holders < min_holders] = 0

    owned = np.concatenate([[False], *(level.owned for level in levels)])
    childless = np.zeros(levels[-1].labels.size if levels else 1, np.int32)
    children = np.concatenate([*(level.parents_children for level in levels), childless])
    children[0] = 0
    return SubwordIndex.of_letters(
        alphabet,
        np.concatenate([np.zeros(1, np.uint8), *(level.labels for level in levels)]),
        children,
        probabilities(np.concatenate([[0.0], *(level.sums for level in levels)])),
        np.where(owned, np.cumsum(owned, dtype=np.int32) - 1, np.int32(NO_ROW)),
    )


def disown_marks(levels: list[Level], is_mark: npt.NDArray[np.bool_]) -> None:
    """Let no subword of marks alone own a vector, also not the two of nothing between them: they say nothing."""
    levels[0].owned[is_mark] = False
    for pairs in levels[1:2]:
        first = np.repeat(is_mark, pairs.parents_children)
        pairs.owned[first & is_mark[pairs.labels]] = False


def as_text(words: Codes) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
    """Return the characters of words, ascending, and the words in letters from 1 on, a 0 before each and at the end."""
    seen = np.zeros(int(words.codes.max(initial=0)) + 1, np.bool_)
    seen[words.codes] = True
    alphabet = np.flatnonzero(seen)
    numbers = np.cumsum(seen).astype(np.min_scalar_type(alphabet.size))
    return alphabet.astype(np.uint32), counting.lay_out(*words, numbers)


def levels_of(
    text: npt.NDArray[Any],
    n_letters: int,
    offsets: npt.NDArray[np.int64],
    counts: npt.NDArray[np.float64],
    is_target: npt.NDArray[np.bool_],
    max_len: int | None,
) -> Iterator[Level]:
    """Yield all substrings of words, up to a length, level by level (see `kernels.counting`)."""
    if text.size > counting.MAX_PLACES or offsets.size - 1 > counting.MAX_WORDS:
        most = f"{counting.MAX_WORDS:,} words and {counting.MAX_PLACES:,} characters"
        raise InputError(
            f"{offsets.size - 1:,} words of {offsets[-1]:,} characters are too many; at most {most} will do"
        )
    starts, ends, spans = counting.single_letters(text, n_letters, offsets, is_target)
    longer = np.empty_like(spans)
    n_nodes, parent_goes_on, length = n_letters, np.ones(1, np.bool_), 1
    while n_nodes and (max_len is None or length <= max_len):
        *level, parent_goes_on, n_nodes, ends = counting.next_level(
            text, counts, length, n_nodes, parent_goes_on, starts, ends, spans, longer
        )
        yield Level(*level)
        spans, longer, length = longer, spans, length + 1


def probabilities(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Normalise occurrence sums over all subwords; what was seen keeps a probability that float32 can hold."""
    total = sums[1:].sum()
    if total <= 0:
        return np.zeros(sums.size, np.float32)
    probs = np.where(sums > 0, np.maximum(sums / total, np.finfo(np.float32).tiny), 0)
    probs[0] = 0
    return probs.astype(np.float32)


def reestimated(
    index: SubwordIndex,
    words: Codes,
    counts: npt.NDArray[np.float64],
    *,
    rounds: int,
    unseen_char_prob: float,
    threads: int | None = None,
) -> SubwordIndex:
    """Fit the subword probabilities to words by EM: no round makes the words less probable than they were.

    A round counts every subword as often as it is expected as a piece of the words, over all their segmentations, and
    turns these counts into the new probabilities. A subword without a probability gets none; one that has one keeps at
    least what float32 can hold.

    Args:
        index: The subwords, with the probabilities to start from.
        words: The words.
        counts: How often each word occurs.
        rounds: How often to do so.
        unseen_char_prob: The probability of a single character never seen.
        threads: How many threads to use; None for one a core. The result is the same to the byte for any number.
    """
    bounds = np.linspace(0, words.offsets.size - 1, PARTS + 1).astype(int).tolist()
    workers = min(thread_count(threads), PARTS)

    def part_sums(part: int) -> npt.NDArray[np.float64]:
        first, last = bounds[part], bounds[part + 1]
        sums: npt.NDArray[np.float64] = lattice.expected_counts(
            index.nodes, unseen_char_prob, *words.part(first, last), counts[first:last]
        )
        return sums

    for _ in range(rounds):
        sums = np.zeros(len(index) + 1)
        for first in range(0, PARTS, workers):  # as many parts at a time as threads: each holds a number for every node
            for partial in in_threads(part_sums, range(first, min(first + workers, PARTS)), threads):
                sums += partial
        sums = np.where(index.probs > 0, np.maximum(sums, np.finfo(np.float64).tiny), 0)
        index = index.with_probs(probabilities(sums))
    return index
