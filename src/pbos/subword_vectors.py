"""The subword vectors S: a matrix held as float32, float16 or int8, and words = A S for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.kernels import compose

DTYPES = ("float32", "float16", "int8")
FloatMatrix = npt.NDArray[np.float32]


class SubwordVectors:
    """One vector for each subword that owns one.

    Attributes:
        values: (n_rows, dims) float32, float16 or int8.
        scales: (n_rows,) float32; row i of the vectors is ``values[i] * scales[i]``. For int8 only.
    """

    def __init__(self, values: npt.NDArray[Any], scales: npt.NDArray[np.float32] | None = None) -> None:
        if values.dtype.name not in DTYPES or (values.dtype == np.int8) != (scales is not None):
            raise InputError(f"subword vectors must be one of {', '.join(DTYPES)} (int8 with scales)")
        self.values, self.scales = values, scales
        for array in (values, scales):  # read-only, as mapped ones are: one kernel signature serves both
            if array is not None:
                array.flags.writeable = False

    def __reduce__(self) -> tuple[Any, ...]:
        return SubwordVectors, (self.values, self.scales)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return int(self.values.shape[1])

    @property
    def dtype(self) -> str:
        """How the numbers are held: float32, float16 or int8."""
        return self.values.dtype.name

    @property
    def nbytes(self) -> int:
        """The size of the vectors in bytes."""
        return self.values.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def compose(
        self,
        indptr: npt.NDArray[np.int64],
        indices: npt.NDArray[np.int32],
        data: npt.NDArray[np.float32],
        out: FloatMatrix,
    ) -> None:
        """Write weights (CSR) times vectors into out."""
        if self.values.dtype == np.float32:
            compose.compose_float32(indptr, indices, data, self.values, out)
        elif self.values.dtype == np.float16:
            compose.compose_float16(indptr, indices, data, self.values.view(np.uint16), out)
        else:
            compose.compose_int8(indptr, indices, data, self.values, self.scales, out)

    def to_float32(self) -> FloatMatrix:
        """Return the vectors as a float32 matrix."""
        vectors = self.values.astype(np.float32)
        return vectors if self.scales is None else vectors * self.scales[:, None]

    def astype(self, dtype: str) -> SubwordVectors:
        """Return the same vectors, held in another way.

        >>> SubwordVectors(np.array([[0.5, -1.0]], np.float32)).astype("int8").values.tolist()
        [[64, -127]]
        """
        if dtype not in DTYPES:
            raise InputError(f"unknown dtype {dtype!r}; choose one of: {', '.join(DTYPES)}")
        if dtype == self.dtype:
            return self
        vectors = self.to_float32()
        if dtype == "float32":
            return SubwordVectors(vectors)
        if dtype == "float16":
            largest = float(np.abs(vectors).max(initial=0))
            if largest > float(np.finfo(np.float16).max):
                raise InputError(f"a vector component of {largest:g} does not fit float16; use int8 or float32")
            return SubwordVectors(vectors.astype(np.float16))
        scales = np.abs(vectors).max(axis=1, initial=0) / np.float32(127)
        steps = np.divide(vectors, scales[:, None], out=np.zeros_like(vectors), where=scales[:, None] > 0)
        return SubwordVectors(np.rint(steps).astype(np.int8), scales.astype(np.float32))

    def rows(self, keep: npt.NDArray[np.integer[Any]]) -> SubwordVectors:
        """Return some of the rows."""
        return SubwordVectors(self.values[keep], None if self.scales is None else self.scales[keep])

    def projected(self, directions: FloatMatrix) -> SubwordVectors:
        """Return the vectors' coordinates along the columns of a (dims, new_dims) matrix, held as before."""
        return SubwordVectors(self.to_float32() @ directions).astype(self.dtype)
