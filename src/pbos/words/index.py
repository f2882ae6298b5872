"""The index of known subwords: their probabilities, and which of them have a vector."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import ModelError
from pbos.kernels import trie
from pbos.kernels.machine import LINE
from pbos.kernels.trie import NO_ROW, WINDOW, IndexArrays, Nodes
from pbos.words.text import LEFT, RIGHT

NO_LEVELS = np.zeros(0, np.float32)
PROB_RANGE = 1e-12  # the lowest probability level, relative to the highest; EM brings most subwords below it


@dataclass(frozen=True)
class SubwordIndex:
    """Every known subword, as a trie in level order (see `kernels.trie`).

    One index has two sets: the subwords with a probability (`probs > 0`) and those with a vector (`rows >= 0`, the
    row of the vector, which several may share). Node 0 is the empty string and is in neither set.
    """

    arrays: IndexArrays  # packed, as in model files

    def __post_init__(self) -> None:
        for array in self.arrays:  # read-only, as mapped ones are, for the same kernel signature
            array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return SubwordIndex, (self.arrays,)

    @classmethod
    def of(
        cls,
        alphabet: npt.NDArray[np.unsignedinteger[Any]],
        labels: npt.NDArray[np.integer[Any]],
        children: npt.NDArray[np.integer[Any]],
        probs: npt.NDArray[Any],
        rows: npt.NDArray[np.int32],
        prob_levels: npt.NDArray[np.float32] = NO_LEVELS,
    ) -> SubwordIndex:
        """Pack the nodes of a trie, given in level order; see `IndexArrays`. The rows are plain, -1 for none."""
        labels, children = (one.astype(np.min_scalar_type(int(one.max(initial=0)))) for one in (labels, children))
        return cls(IndexArrays(alphabet.astype(np.uint32), labels, children, probs, prob_levels, pack_rows(rows)))

    @classmethod
    def of_tensors(cls, tensors: dict[str, npt.NDArray[Any]]) -> SubwordIndex:
        """Undo `tensors`."""
        return cls(IndexArrays(*(tensors[f"index.{name}"] for name in IndexArrays._fields)))

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by their names in a model file."""
        return {f"index.{name}": array for name, array in self.arrays._asdict().items()}

    def __len__(self) -> int:
        return self.arrays.labels.size - 1

    def has_sizes(self) -> bool:
        """Return whether the arrays of a file have sizes that fit each other."""
        alphabet, labels, children, probs, levels, rows = self.arrays
        return (
            alphabet.size < labels.size == children.size == probs.size == rows.shape[0] < 2**31
            and 1 <= rows.shape[1] <= 4
            and levels.size == (256 if probs.dtype == np.uint8 else 0)
        )

    def is_valid(self, n_vectors: int) -> bool:
        """Return whether the arrays of a file, whose sizes fit, are a trie whose rows are below `n_vectors`.

        Then no kernel leaves the arrays. A walk starts at a character: its node is a letter + 1, and all letters have
        nodes. It goes on to a child: the children of all nodes are exactly the nodes after the letters (`ends` reaches
        the last node), each after its parent (`ends[k - 1] >= k`), so that following parents ends at the root. A child
        is found by the number of its siblings with smaller letters, as letters ascend among siblings.
        """
        alphabet, labels, children, probs, levels, rows = self.arrays
        n_letters = alphabet.size
        ends = n_letters + np.cumsum(children, dtype=np.int64)  # the last child of this node and all before it
        if children[0] or ends[-1] != len(self) or (ends[:-1] < np.arange(1, labels.size)).any():
            return False
        ascends = labels[1:] > labels[:-1]
        ascends[ends[:-1][children[1:] > 0]] = True  # between a last child and the first of another node
        numbers = row_numbers(rows)
        values = levels if levels.size else probs
        return bool(
            ascends[1:].all()
            and np.array_equal(labels[: 1 + n_letters], np.arange(-1, n_letters).clip(0))
            and labels.max() < max(n_letters, 1)
            and (alphabet[1:] > alphabet[:-1]).all()
            and alphabet.max(initial=0) <= sys.maxunicode
            and not ((alphabet >= 0xD800) & (alphabet <= 0xDFFF)).any()  # surrogates are no characters
            and values.min() >= 0
            and values.max() <= 1
            and numbers[0] == probs[0] == 0
            and numbers.max() <= n_vectors
        )

    def unpacked(self, lengths: npt.NDArray[np.float32] | None = None) -> Nodes:
        """Unpack the index for the kernels, with the lengths of the vectors by row (1 if None): 32 bytes per node."""
        lengths = np.ones(self.n_vectors, np.float32) if lengths is None else lengths
        alphabet, labels, children, *probs, rows = self.arrays
        n_letters = alphabet.size
        letters = np.full(int(alphabet.max(initial=0)) + 1, n_letters, np.int32)
        letters[alphabet] = np.arange(n_letters)
        window = 0
        if n_letters > WINDOW:  # the adjacent letters that most nodes end with
            sums = np.cumsum(np.bincount(labels[1:], minlength=n_letters))
            window = int(np.argmax(sums[WINDOW - 1 :] - np.concatenate([[0], sums[:-WINDOW]])))
        letter_bits = np.zeros((n_letters + 1, 2), np.uint64)
        place = np.arange(min(WINDOW, n_letters))
        letter_bits[window + place, place // 64] = np.uint64(1) << (place % 64).astype(np.uint64)
        letter_bits[-1, 1] = trie.NOTHING
        space = np.zeros(4 * (labels.size + 4), np.uint64)
        space = space[-space.ctypes.data % LINE // space.itemsize :]  # so that no record straddles two cache lines
        records = space[: 4 * (labels.size + 2)].reshape(-1, 4)
        if not trie.unpack(letter_bits, window, labels, children, *probs, rows, lengths, records):
            raise ModelError("the model's subword index is damaged; get a fresh copy of the model")
        return letters, letter_bits, records, labels

    @property
    def alphabet(self) -> npt.NDArray[np.uint32]:
        """The characters, as code points in ascending order; they are nodes 1 to n."""
        return self.arrays.alphabet

    @property
    def code_points(self) -> npt.NDArray[np.uint32]:
        """The last character of every node, unpacked; 0 for the root."""
        return np.append(np.uint32(0), self.alphabet.take(self.arrays.labels[1:]))

    @property
    def probs(self) -> npt.NDArray[np.float32]:
        """The probability of every node, unpacked; 0 for none."""
        probs, levels = self.arrays.probs, self.arrays.prob_levels
        return levels[probs] if levels.size else probs

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The row of every node's vector, unpacked; -1 for none."""
        return row_numbers(self.arrays.rows).astype(np.int32) - 1

    @property
    def n_vectors(self) -> int:
        """The number of vectors that the rows refer to."""
        return int(self.rows.max()) + 1

    def with_probs(self, probs: npt.NDArray[np.float32]) -> SubwordIndex:
        """Return the index with other probabilities, as float32."""
        return SubwordIndex(self.arrays._replace(probs=probs.astype(np.float32), prob_levels=NO_LEVELS))

    def with_rows(self, rows: npt.NDArray[np.int32]) -> SubwordIndex:
        """Return the index with other rows."""
        return SubwordIndex(self.arrays._replace(rows=pack_rows(rows)))

    def with_prob_levels(self) -> SubwordIndex:
        """Return the index with its probabilities rounded to 255 levels of equal ratio, one byte per node.

        A probability changes by at most 6%; one below PROB_RANGE times the largest becomes the lowest level.
        """
        probs = self.probs.astype(np.float64)
        largest = probs.max() or 1.0
        smallest = max(probs.min(initial=largest, where=probs > 0), PROB_RANGE * largest)
        levels = np.geomspace(smallest, largest, 255)
        between = np.sqrt(levels[:-1] * levels[1:])
        numbers = np.where(probs > 0, 1 + np.searchsorted(between, probs), 0).astype(np.uint8)
        prob_levels = np.concatenate([[0], levels]).astype(np.float32)
        return SubwordIndex(self.arrays._replace(probs=numbers, prob_levels=prob_levels))

    def strings(self) -> Iterator[str]:
        """Yield the string of every node except the root, in node order."""
        strings = [""]
        for parent, code in zip(self.parents()[1:].tolist(), self.code_points[1:].tolist(), strict=True):
            strings.append(strings[parent] + chr(code))
            yield strings[-1]

    def parents(self) -> npt.NDArray[np.int64]:
        """Return the parent of every node; the root is its own."""
        children = self.arrays.children.astype(np.int64)
        children[0] = self.alphabet.size
        return np.concatenate([[0], np.repeat(np.arange(children.size), children)])

    def can_weigh(self) -> npt.NDArray[np.bool_]:
        """Return which nodes are single characters or have a vector."""
        found = self.rows >= 0
        found[1 : 1 + self.alphabet.size] = True
        return found

    def for_weights(self) -> SubwordIndex:
        """Return the index in which only single characters and subwords with a vector have a probability."""
        return SubwordIndex(self.arrays._replace(probs=np.where(self.can_weigh(), self.arrays.probs, 0)))

    def inner(self) -> npt.NDArray[np.int64]:
        """Return for each node the same subword, which must exist, without the marks at its ends; 0 if it has none."""
        parents, last = self.parents(), self.code_points
        keys = parents * self.alphabet.size + self.arrays.labels  # ascending
        keys[0] = -1
        without_left = np.arange(parents.size)
        first, end = np.searchsorted(self.alphabet, [ord(LEFT), ord(LEFT) + 1]) + 1
        without_left[first:end] = 0
        while first < end:  # the subwords of each length that start with the mark are next to each other
            first, end = np.searchsorted(parents, [first, end])
            wanted = without_left[parents[first:end]] * self.alphabet.size + self.arrays.labels[first:end]
            without_left[first:end] = np.searchsorted(keys, wanted)
        inner = np.where(last == ord(RIGHT), parents[without_left], without_left)
        return np.where(inner == np.arange(inner.size), 0, inner)

    def goes_on(self) -> npt.NDArray[np.bool_]:
        """Return which nodes go on after the mark `>`."""
        parents = self.parents()
        found: npt.NDArray[np.bool_] = (self.code_points == ord(RIGHT))[parents]
        while (more := found[parents] & ~found).any():
            found |= more
        return found

    def count_letters(self, boundaries: bool) -> npt.NDArray[np.int64]:
        """Return how many characters each node has, without boundary marks."""
        parents, above = self.parents(), np.arange(len(self) + 1)
        counted = (np.isin(self.code_points, [ord(LEFT), ord(RIGHT)], invert=True) | (not boundaries)) & (above > 0)
        found = np.zeros(above.size, np.int64)
        while above.any():
            found += counted[above]
            above = parents[above]
        return found

    def with_vectors(self, keep: npt.NDArray[np.bool_]) -> SubwordIndex:
        """Return an index in which only the kept nodes have vectors, with their rows renumbered in the same order.

        Others stay if their probability is above the lowest level, PROB_RANGE times the largest.
        """
        index, probs = self.with_rows(np.where(keep, self.rows, NO_ROW)), self.probs
        return index.pruned(index.can_weigh() | (probs > 1.05 * PROB_RANGE * probs.max()))

    def pruned(self, keep: npt.NDArray[np.bool_]) -> SubwordIndex:
        """Return an index of the kept nodes, with rows renumbered in the same order, and of their bare prefixes."""
        parents = self.parents()
        needed = keep.copy()
        needed[0] = True
        while not needed[parents[needed]].all():
            needed[parents[needed]] = True
        needed[1 + np.unique(self.arrays.labels[1:][needed[1:]]).astype(np.int64)] = True
        alphabet_kept = needed[1 : 1 + self.alphabet.size]
        labels = (np.cumsum(alphabet_kept) - 1)[self.arrays.labels[needed]]
        labels[0] = 0
        children = np.bincount((np.cumsum(needed) - 1)[parents[needed]], minlength=labels.size)
        children[0] = 0
        rows = np.where(keep, self.rows, NO_ROW)[needed]
        _, rows[rows >= 0] = np.unique(rows[rows >= 0], return_inverse=True)
        probs, levels = np.where(keep, self.arrays.probs, 0)[needed], self.arrays.prob_levels
        return SubwordIndex.of(self.alphabet[alphabet_kept], labels, children, probs, rows, levels)


def pack_rows(rows: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
    """Return each row + 1 as little-endian bytes, as many as the largest needs."""
    numbers = (rows + 1).astype("<u4")
    width = max((int(numbers.max(initial=0)).bit_length() + 7) // 8, 1)
    return np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, 4)[:, :width])


def row_numbers(packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """Return each row + 1, of packed rows."""
    numbers = np.zeros((len(packed), 4), np.uint8)
    numbers[:, : packed.shape[1]] = packed
    return numbers.view("<u4")[:, 0]
