"""The checks that words and their vectors go through, wherever they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError, InputError, warn
from pbos.jobs.threads import blocks
from pbos.settings import MAX_DIMS
from pbos.words.arrays import FloatMatrix, has_masked

CHECKED_AT_ONCE = 1 << 16  # rows


def checked(
    words: list[str], vectors: Any, source: str, *, from_file: bool, limit: int | None = None
) -> tuple[list[str], FloatMatrix]:
    """Return words and a C-ordered float32 matrix of their vectors, copied only if needed; messages name the source.

    Empty and duplicate words, and words whose vectors have NaN or infinity, are dropped; any other problem is an error:
    a FormatError if they are from a file. Then nobody else has the vectors, and rows may be moved.
    """
    error = FormatError if from_file else InputError
    array = as_matrix(vectors, source, error)
    if len(words) != len(array):
        raise error(f"{source}: {len(words)} words but {len(array)} vectors; each word needs one")
    words = words[:limit]
    with np.errstate(over="ignore"):  # a value too large for float32 becomes infinite
        matrix = np.ascontiguousarray(array[:limit], np.float32)
    bad = rows_with_infinity(matrix)
    finite = np.delete(np.arange(len(words)), bad).tolist() if bad else range(len(words))
    first: dict[str, int] = {}
    for row in finite:
        first.setdefault(words[row], row)
    if len(first) == len(words) and "" not in first:
        return words, matrix
    if bad and not any(first):
        raise error(f"{source}: all vectors of words contain NaN or infinity; expected finite numbers")
    for dropped, one, many in (
        (bad, "word whose vector contains NaN or infinity", "words whose vectors contain NaN or infinity"),
        ([row for row in finite if not words[row]], "empty word", "empty words"),
        ([row for row in finite if words[row] and first[words[row]] != row], "duplicate word", "duplicate words"),
    ):
        if dropped:
            example = f"first: {words[dropped[0]]!r}, row {dropped[0] + 1}"
            warn(f"{source}: dropped {len(dropped)} {one if len(dropped) == 1 else many} ({example})")
    first.pop("", None)
    kept = np.fromiter(first.values(), np.int64, len(first))
    if not (from_file and matrix.flags.writeable):
        return list(first), matrix[kept]
    for rows in blocks(len(kept)):  # they ascend, so that no row is overwritten before it has moved
        matrix[rows] = matrix[kept[rows]]
    return list(first), matrix[: len(kept)]


def as_matrix(vectors: Any, source: str, error: type[FormatError] | type[InputError]) -> npt.NDArray[Any]:
    """Return vectors as a matrix of real numbers."""
    if has_masked(vectors):
        raise error(f"{source}: some values are masked; fill them in, or leave out these words")
    try:
        array = np.asarray(vectors)
        if isinstance(vectors, (list, tuple)):
            array.flags.writeable = False  # nobody else has it, so it need not be copied
    except ValueError:
        sizes = [len(vector) if hasattr(vector, "__len__") else 1 for vector in vectors]
        row = next((row for row, size in enumerate(sizes) if size != sizes[0]), 0)
        raise error(
            f"{source}, row {row + 1}: the vector has {sizes[row]} values, the first one {sizes[0]}; "
            "all need the same length"
        ) from None
    except (RuntimeError, TypeError) as problem:  # of PyTorch: a tensor with a gradient, on a GPU, in bfloat16
        raise error(f"{source}: the vectors cannot become a NumPy array ({problem})") from None
    if array.ndim != 2 or not 1 <= array.shape[1] <= MAX_DIMS:
        raise error(f"{source}: the vectors need shape (words, dimensions), got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise error(f"{source}: the vectors need to be real numbers, got dtype {array.dtype}")
    return array


def rows_with_infinity(matrix: FloatMatrix) -> list[int]:
    """Return the rows with NaN or infinity."""
    found: list[int] = []
    for rows in blocks(len(matrix), CHECKED_AT_ONCE):  # in parts, to keep the mask small
        found += (rows.start + np.flatnonzero(~np.isfinite(matrix[rows]).all(axis=1))).tolist()
    return found
