"""Rows as a source gives them, and the checks that all of them go through."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError, warn
from pbos.jobs.threads import blocks
from pbos.settings import MAX_DIMS
from pbos.words.arrays import FloatMatrix, has_masked

CHECKED_AT_ONCE = 1 << 16  # rows


class Rows(NamedTuple):
    """Words and their vectors, not checked yet."""

    source: str  # used in messages
    words: list[str]
    vectors: Any  # anything that NumPy turns into a matrix
    error: type[FormatError] | type[InputError] = FormatError
    ours: bool = False  # whether the vectors are a float32 matrix that nobody else uses, so that rows may be moved

    def checked(self, limit: int | None = None) -> tuple[list[str], FloatMatrix]:
        """Return the words and a C-ordered float32 matrix, which is copied only if it has to be.

        Empty and duplicate words, and words whose vectors have NaN or infinity, are dropped. Anything else that is
        wrong is an error.
        """
        vectors = self.as_array()
        if len(self.words) != len(vectors):
            raise self.error(f"{self.source}: {len(self.words)} words but {len(vectors)} vectors; each word needs one")
        words = self.words[:limit]
        with np.errstate(over="ignore"):  # a value too large for float32 becomes infinite
            matrix = np.ascontiguousarray(vectors[:limit], np.float32)
        bad = rows_with_infinity(matrix)
        kept = np.delete(np.arange(len(words)), bad).tolist() if bad else range(len(words))
        first: dict[str, int] = {}
        for row in kept:
            first.setdefault(words[row], row)
        if len(first) == len(words) and "" not in first:
            return words, matrix
        if bad and not any(first):
            raise self.error(f"{self.source}: all vectors of words contain NaN or infinity; expected finite numbers")
        self.warn(bad, "word whose vector contains NaN or infinity", "words whose vectors contain NaN or infinity")
        self.warn([row for row in kept if not words[row]], "empty word", "empty words")
        again = [row for row in kept if words[row] and first[words[row]] != row]
        self.warn(again, "duplicate word", "duplicate words")
        first.pop("", None)
        rows = np.fromiter(first.values(), np.int64, len(first))
        if not self.ours:
            return list(first), matrix[rows]
        for some in blocks(len(rows)):  # they ascend, so that no row is overwritten before it has moved
            matrix[some] = matrix[rows[some]]
        return list(first), matrix[: len(rows)]

    def as_array(self) -> npt.NDArray[Any]:
        """Return the vectors as a matrix of real numbers."""
        if has_masked(self.vectors):
            raise self.error(f"{self.source}: some values are masked; fill them in, or leave out these words")
        try:
            array = np.asarray(self.vectors)
            if isinstance(self.vectors, (list, tuple)):
                array.flags.writeable = False  # nobody else has it, so it need not be copied
        except ValueError:
            sizes = [len(vector) if hasattr(vector, "__len__") else 1 for vector in self.vectors]
            row = next((row for row, size in enumerate(sizes) if size != sizes[0]), 0)
            raise self.error(
                f"{self.source}, row {row + 1}: the vector has {sizes[row]} values, the first one {sizes[0]}; "
                "all need the same length"
            ) from None
        except (RuntimeError, TypeError) as error:  # of PyTorch: a tensor with a gradient, on a GPU, in bfloat16
            raise self.error(f"{self.source}: the vectors cannot become a NumPy array ({error})") from None
        if array.ndim != 2 or not 1 <= array.shape[1] <= MAX_DIMS:
            raise self.error(f"{self.source}: the vectors need shape (words, dimensions), got {array.shape}")
        if array.dtype.kind not in "fiu":
            raise self.error(f"{self.source}: the vectors need to be real numbers, got dtype {array.dtype}")
        return array

    def warn(self, rows: list[int], one: str, many: str) -> None:
        """Give one warning for all rows that have the same problem."""
        if rows:
            what = one if len(rows) == 1 else many
            first = f"first: {self.words[rows[0]]!r}, row {rows[0] + 1}"
            warn(f"{self.source}: dropped {len(rows)} {what} ({first})")


def rows_with_infinity(matrix: FloatMatrix) -> list[int]:
    """Return the rows with NaN or infinity."""
    found: list[int] = []
    for start in range(0, len(matrix), CHECKED_AT_ONCE):  # in parts, to keep the mask small
        finite = np.isfinite(matrix[start : start + CHECKED_AT_ONCE]).all(axis=1)
        found += (start + np.flatnonzero(~finite)).tolist()
    return found
