"""The subword vectors S: a matrix stored as float32, float16 or int8."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.settings import DTYPES, check_choice
from pbos.words.arrays import FloatMatrix, row_lengths

NEGLIGIBLE = 5e-5
"""Subwords whose weighted vector is shorter than this share of the sum of such lengths in a word are left out.

Only in words of up to 24 characters (`kernels.lattice.LONGEST_CUT`), whose vectors change by less than 1e-3 of their
length: at most about fifty subwords are left out, and a vector is at least a fifth as long as the sum of the lengths.
"""


class SubwordVectors:
    """One vector for each subword that has one: row i is ``values[i]``, as int8 ``values[i] * scales[i]``.

    The `norms` are the lengths of vectors that are not int8, to leave out negligible ones; None if they are not known.
    """

    def __init__(
        self,
        values: npt.NDArray[Any],
        scales: npt.NDArray[np.float32] | None = None,
        norms: npt.NDArray[np.float32] | None = None,
    ) -> None:
        if values.dtype.name not in DTYPES or (values.dtype == np.int8) != (scales is not None):
            raise InputError(f"subword vectors must be one of {', '.join(DTYPES)} (int8 with scales)")
        self.values, self.scales, self.norms = values, scales, norms
        for array in (values, scales, norms):  # read-only, as mapped ones are, for the same kernel signature
            if array is not None:
                array.flags.writeable = False
        bits = values.view(np.uint16) if values.dtype == np.float16 else values
        negligible = NEGLIGIBLE if scales is not None or norms is not None else 0.0
        self.kernel_arguments = bits, negligible, scales is not None

    @classmethod
    def of(cls, vectors: FloatMatrix) -> SubwordVectors:
        """Store vectors as float32, with their lengths."""
        return cls(vectors, norms=row_lengths(vectors))

    @classmethod
    def of_tensors(cls, tensors: dict[str, npt.NDArray[Any]]) -> SubwordVectors:
        """Undo `tensors`."""
        return cls(tensors["subword_vectors"], tensors.get("subword_scales"), tensors.get("subword_norms"))

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by the names that model files use."""
        arrays = {"subword_vectors": self.values, "subword_scales": self.scales, "subword_norms": self.norms}
        return {name: array for name, array in arrays.items() if array is not None}

    def __reduce__(self) -> tuple[Any, ...]:
        return SubwordVectors, (self.values, self.scales, self.norms)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return int(self.values.shape[1])

    @property
    def dtype(self) -> str:
        """The type of the numbers: float32, float16 or int8."""
        return self.values.dtype.name

    @property
    def nbytes(self) -> int:
        """The size of the vectors in bytes."""
        return self.values.nbytes + (0 if self.scales is None else self.scales.nbytes)

    @property
    def lengths(self) -> npt.NDArray[np.float32]:
        """What the index stores about each vector: its length or, for int8, its scale."""
        known = self.norms if self.scales is None else self.scales
        return np.ones(len(self), np.float32) if known is None else known

    def to_float32(self) -> FloatMatrix:
        """Return the vectors as a float32 matrix."""
        vectors = self.values.astype(np.float32)
        return vectors if self.scales is None else vectors * self.scales[:, None]

    def astype(self, dtype: str) -> SubwordVectors:
        """Return the same vectors, stored as another type."""
        check_choice("dtype", dtype, DTYPES)
        if dtype == self.dtype:
            return self
        vectors = self.to_float32()
        if dtype == "float32":
            return SubwordVectors.of(vectors)
        if dtype == "float16":
            largest = float(np.abs(vectors).max(initial=0))
            if largest > float(np.finfo(np.float16).max):
                raise InputError(f"a vector component of {largest:g} does not fit float16; use int8 or float32")
            return SubwordVectors(vectors.astype(np.float16), norms=row_lengths(vectors))
        scales = np.abs(vectors).max(axis=1, initial=0) / np.float32(127)
        steps = np.divide(vectors, scales[:, None], out=np.zeros_like(vectors), where=scales[:, None] > 0)
        return SubwordVectors(np.rint(steps).astype(np.int8), scales.astype(np.float32))

    def rows(self, keep: npt.NDArray[np.integer[Any]]) -> SubwordVectors:
        """Return some of the rows."""
        scales, norms = (None if array is None else array[keep] for array in (self.scales, self.norms))
        return SubwordVectors(self.values[keep], scales, norms)

    def projected(self, components: FloatMatrix) -> SubwordVectors:
        """Return the vectors projected on the columns of a (dims, new_dims) matrix, stored as the same type."""
        return SubwordVectors.of(self.to_float32() @ components).astype(self.dtype)
