"""Subwords: counting them, and the one index that knows their probabilities and which of them own a vector."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import ModelError
from pbos.kernels import lattice, trie
from pbos.kernels.machine import LINE
from pbos.kernels.trie import BLOCK, NO_ROW, WINDOW, IndexArrays, Nodes
from pbos.text import BOUNDARIES, Codes, encode
from pbos.threads import in_threads, thread_count

PARTS = 8  # in which sums over words are made; the same for any number of threads, and so is their sum
PROB_RANGE = 1e-12  # the least level of probability, as a share of the largest; nothing less probable is ever chosen
Array = npt.NDArray[np.generic]


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
        children = np.concatenate([[0], children[1:]])
        first_child = 1 + alphabet.size + np.cumsum(children) - children
        labels = np.searchsorted(alphabet, code_points)
        labels[0] = 0
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
        alphabet, labels, rows = self.alphabet, self.arrays.labels, self.rows
        n_letters = alphabet.size
        damaged = ModelError("the model's subword index is damaged; get a fresh copy of the model")
        if alphabet.max(initial=0) > sys.maxunicode or (labels[1:] >= n_letters).any():
            raise damaged
        letters = np.full(int(alphabet.max(initial=0)) + 1, n_letters, np.int32)
        letters[alphabet] = np.arange(n_letters)
        window = busiest_window(np.bincount(labels[1:], minlength=n_letters))
        letter_bits = np.zeros((n_letters + 1, 2), np.uint64)
        place = np.arange(min(WINDOW, n_letters))
        letter_bits[window + place, place // 64] = np.uint64(1) << (place % 64).astype(np.uint64)
        letter_bits[-1, 1] = trie.NOTHING
        # At most 1, also in a damaged file, whose infinities would never end a sum; NaN is no probability.
        probs = np.nan_to_num(self.probs, nan=0.0, posinf=1.0).clip(0, 1).astype(np.float32, copy=False)
        space = np.zeros(4 * (labels.size + 4), np.uint64)
        space = space[-space.ctypes.data % LINE // space.itemsize :]  # so that no record lies in two lines
        records = space[: 4 * (labels.size + 2)].reshape(-1, 4)
        bits = probs.view(np.uint32), rows, lengths.view(np.uint32)
        if not trie.unpack(letter_bits, window, labels, self.arrays.children, *bits, records):
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
    """Return the first of the WINDOW letters side by side that the most nodes end with."""
    sums = np.concatenate([[0], np.cumsum(counts)])
    return int(np.argmax(sums[WINDOW:] - sums[:-WINDOW])) if counts.size > WINDOW else 0


def count_children(parents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many children each node has; the root, its own parent, is not a child."""
    return np.bincount(parents[1:], minlength=parents.size)


def narrow(numbers: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
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
    boundaries: bool = False,
) -> SubwordIndex:
    """Count the substrings of words and index them.

    Args:
        words: Each word once, as it is to be cut, with marks if there are to be any.
        counts: How often each word occurs; gives the subword probabilities.
        is_target: Which words have a vector; their substrings of min_len to max_len own one.
        min_len: The shortest subword that may own a vector.
        max_len: The longest subword; None for no limit.
        boundaries: Whether the words are written with boundary marks.

    >>> index = count_subwords(encode(["aba"]), np.array([1.0]), np.array([True]))
    >>> {subword: round(6 * p) for subword, p in zip(index.strings(), index.probs[1:].tolist())}
    {'a': 2, 'b': 1, 'ab': 1, 'ba': 1, 'aba': 1}
    """
    limit = max_len if max_len is not None else int(np.diff(words.offsets).max(initial=1))
    parents, labels, depths, sums, holders = trie.count_substrings(*words, counts, is_target, limit)

    order = level_order(parents, labels, depths)
    new_id = np.empty(order.size, np.int64)
    new_id[order] = np.arange(order.size)
    depths, holders, labels = depths[order], holders[order], labels[order]

    owns = (holders > 0) & (depths >= min_len)
    if boundaries:  # a mark alone says nothing about the word
        owns &= ~((depths == 1) & np.isin(labels, [ord(mark) for mark in BOUNDARIES]))
    owns[0] = False
    rows = np.where(owns, np.cumsum(owns) - 1, NO_ROW).astype(np.int32)
    return SubwordIndex.of(count_children(new_id[parents[order]]), labels, probabilities(sums[order]), rows)


def level_order(parents: Array, labels: Array, depths: Array) -> npt.NDArray[np.int64]:
    """Return the nodes by depth, then by parent (in this very order), then by label."""
    by_depth = np.argsort(depths, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(depths.astype(np.int64)))[:-1])
    new_id = np.zeros(parents.size, np.int64)
    done = 0
    for level in levels:
        keys = (new_id[parents[level]] << trie.CODE_BITS) | labels[level].astype(np.int64)
        new_id[level[np.argsort(keys, kind="stable")]] = np.arange(done, done + level.size)
        done += level.size
    order = np.empty(parents.size, np.int64)
    order[new_id] = np.arange(parents.size)
    return order


def probabilities(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Normalise occurrence sums over all subwords; what was seen keeps a probability that float32 can hold."""
    total = sums[1:].sum()
    if total <= 0:
        return np.zeros(sums.size, np.float32)
    probs = np.where(sums > 0, np.maximum(sums / total, np.finfo(np.float32).tiny), 0)
    probs[0] = 0
    return probs.astype(np.float32)


def common(index: SubwordIndex, words: Codes, min_count: int) -> SubwordIndex:
    """Take the probability from subwords that fewer than min_count words hold; what is left shares it.

    Single characters keep theirs, so that every word that could be spelled still can.
    """
    keep = index.holders(words) >= min_count
    keep[: index.alphabet.size + 1] = True
    return index.with_probs(probabilities(np.where(keep, index.probs, 0).astype(np.float64)))


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
