"""Subwords: counting them, and the one index that knows their probabilities and which of them own a vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.kernels import lattice, trie
from pbos.text import BOUNDARIES, Codes, encode

NO_ROW = -1
PARTS = 8  # in which sums over words are made; the same for any number of threads, and so is their sum
Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class SubwordIndex:
    """Every known subword, as a trie in level order (see `kernels.trie`).

    Two sets live in one index: the subwords with a probability (`probs > 0`) and those that own a vector (`rows >= 0`,
    the row of the vector; rows ascend with the nodes). Node 0 is the empty string and is neither.
    """

    first_child: npt.NDArray[np.uint32]  # (n_nodes + 1,)
    labels: npt.NDArray[np.uint32]  # (n_nodes,)
    probs: npt.NDArray[np.float32]  # (n_nodes,)
    rows: npt.NDArray[np.int32]  # (n_nodes,)

    def __post_init__(self) -> None:
        # One kernel signature serves fresh and memory-mapped indexes alike if all of them are read-only.
        for array in self.arrays:
            array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return SubwordIndex, self.arrays

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """The four arrays, in the order the kernels take them."""
        return self.first_child, self.labels, self.probs, self.rows

    def __len__(self) -> int:
        return self.labels.size - 1

    def find(self, subword: str) -> int:
        """Return the node of a subword, or -1."""
        node = 0
        for code in encode([subword]).codes:
            node = int(trie.child(self.first_child, self.labels, node, code))
            if node < 0:
                break
        return node

    def subword(self, node: int) -> str:
        """Return the string of a node, read off its path to the root."""
        codes = []
        while node > 0:
            codes.append(chr(self.labels[node]))
            node = int(np.searchsorted(self.first_child, node, side="right")) - 1
        return "".join(reversed(codes))

    def owners(self) -> npt.NDArray[np.int64]:
        """Return the nodes that own a vector; entry i owns row i."""
        return np.flatnonzero(self.rows >= 0)

    def strings(self) -> Iterator[str]:
        """Yield the string of every node but the root, in node order."""
        strings = [""] * self.labels.size
        for node, (parent, label) in enumerate(zip(self.parents().tolist(), self.labels.tolist(), strict=True)):
            if node:
                strings[node] = strings[parent] + chr(label)
                yield strings[node]

    def parents(self) -> npt.NDArray[np.int64]:
        """Return the parent of every node; the root is its own."""
        children = self.first_child[1:] - self.first_child[:-1]
        return np.concatenate([[0], np.repeat(np.arange(self.labels.size), children)])

    def holders(self, words: Codes) -> npt.NDArray[np.int32]:
        """Return for each node the number of words that hold it."""
        holders: npt.NDArray[np.int32] = trie.count_holders(self.first_child, self.labels, *words)
        return holders

    def pruned(self, keep: npt.NDArray[np.bool_]) -> SubwordIndex:
        """Return the index of the kept nodes only; a kept node's parent must be kept too."""
        keep = keep.copy()
        keep[0] = True
        new_id = np.cumsum(keep) - 1
        parents = new_id[self.parents()[keep]]
        rows = np.where(self.rows[keep] >= 0, np.cumsum(self.rows[keep] >= 0) - 1, NO_ROW)
        return SubwordIndex(
            first_child=children_offsets(parents),
            labels=self.labels[keep],
            probs=self.probs[keep],
            rows=rows.astype(np.int32),
        )


def children_offsets(parents: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Turn the parents of nodes in level order into `first_child`; the root's own entry is not a child."""
    counts = np.bincount(parents[1:], minlength=parents.size)
    return np.concatenate([[1], 1 + np.cumsum(counts)]).astype(np.uint32)


def count_subwords(
    words: list[str],
    counts: npt.NDArray[np.float64],
    is_target: npt.NDArray[np.bool_],
    *,
    min_len: int = 1,
    max_len: int | None = None,
    boundaries: bool = False,
) -> SubwordIndex:
    """Count the substrings of words and index them.

    Args:
        words: Each word once.
        counts: How often each word occurs; gives the subword probabilities.
        is_target: Which words have a vector; their substrings of min_len to max_len own one.
        min_len: The shortest subword that may own a vector.
        max_len: The longest subword; None for no limit.
        boundaries: Whether the words are written with boundary marks.

    >>> index = count_subwords(["aba"], np.array([1.0]), np.array([True]))
    >>> {subword: round(6 * p) for subword, p in zip(index.strings(), index.probs[1:].tolist())}
    {'a': 2, 'b': 1, 'ab': 1, 'ba': 1, 'aba': 1}
    """
    codes, offsets = encode(words, boundaries)
    limit = max_len if max_len is not None else int(np.diff(offsets).max(initial=1))
    parents, labels, depths, sums, holders = trie.count_substrings(codes, offsets, counts, is_target, limit)

    order = level_order(parents, labels, depths)
    new_id = np.empty(order.size, np.int64)
    new_id[order] = np.arange(order.size)
    depths, holders, labels = depths[order], holders[order], labels[order]

    owns = (holders > 0) & (depths >= min_len)
    if boundaries:  # a mark alone says nothing about the word
        owns &= ~((depths == 1) & np.isin(labels, [ord(mark) for mark in BOUNDARIES]))
    owns[0] = False
    rows = np.where(owns, np.cumsum(owns) - 1, NO_ROW).astype(np.int32)
    return SubwordIndex(children_offsets(new_id[parents[order]]), labels, probabilities(sums[order]), rows)


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
    """Return the index of the subwords that at least min_count words hold, and of all single characters.

    Single characters stay, so that every word that could be spelled still can. What is left shares the probability.
    """
    keep = index.holders(words) >= min_count
    characters = int(index.first_child[1])  # the children of the root are the nodes 1 to here
    keep[:characters] = True
    if keep.sum() == characters < keep.size:
        raise InputError(
            f"min_count {min_count} would leave single characters only; no longer subword is in that many words"
        )
    kept = index.pruned(keep)
    return replace(kept, probs=probabilities(kept.probs.astype(np.float64)))


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
    from pbos.weights import in_threads, slice_codes, thread_count  # which builds on this file

    bounds = np.linspace(0, words.offsets.size - 1, PARTS + 1).astype(int).tolist()
    workers = min(thread_count(threads), PARTS)
    for _ in range(rounds):
        possible = index.probs > 0

        def part_sums(part: int, index: SubwordIndex = index) -> npt.NDArray[np.float64]:
            first, last = bounds[part], bounds[part + 1]
            chunk = slice_codes(words, first, last)
            sums: npt.NDArray[np.float64] = lattice.expected_counts(
                index.first_child, index.labels, index.probs, unseen_char_prob, *chunk, counts[first:last]
            )
            return sums

        sums = np.zeros(possible.size)
        for first in range(0, PARTS, workers):  # as many parts at a time as threads: each holds a number for every node
            for partial in in_threads(part_sums, range(first, min(first + workers, PARTS)), threads):
                sums += partial
        sums = np.where(possible, np.maximum(sums, np.finfo(np.float64).tiny), 0)
        index = replace(index, probs=probabilities(sums))
    return index
