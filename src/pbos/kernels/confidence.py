"""What a confidence is computed from: the features of words and their products, a few words at a time."""

from functools import partial

import numpy as np

from pbos.kernels import kernel, part
from pbos.kernels.machine import as_float32, prefetch

AHEAD = 16  # subwords whose evidence is prefetched
MOST_SPREADS = np.float32(4.0)  # how far from the mean a feature may be; farther ones count as this far

fast_sums = partial(kernel, fastmath={"reassoc", "contract"})  # adds up several numbers at a time


@kernel
def write_evidence(indptr, indices, data, scales, evidence, out):
    """Write the weighted sums of the evidence of words' subwords into the first columns of out.

    The weights are given as CSR; then they are multiplied by `scales`, those of int8 vectors, unless these are empty.
    `evidence` are the bits of float16 as uint16.
    """
    n_evidence = evidence.shape[1]
    for word in range(indptr.size - 1):
        for at in range(n_evidence):
            out[word, at] = 0.0
        for k in range(indptr[word], indptr[word + 1]):
            prefetch(evidence, np.int64(indices[min(k + AHEAD, data.size - 1)]) * n_evidence)
            row, weight = np.uint64(indices[k]), data[k]
            for at in range(np.uint64(n_evidence)):
                out[word, at] += weight * as_float32(evidence[row, at])
            if scales.size:
                data[k] = weight * scales[row]


@fast_sums
def write_squares(vectors, mean, out):
    """Write the squared length of each vector, and of its difference from the mean, into two columns of out."""
    for row in range(vectors.shape[0]):
        length = distance = np.float32(0.0)
        for dim in range(mean.size):
            length += vectors[row, dim] * vectors[row, dim]
            distance += (vectors[row, dim] - mean[dim]) * (vectors[row, dim] - mean[dim])
        out[row, 0], out[row, 1] = length, distance


@part
def write_products(features, word, center, spread, out, row):
    """Write 1, the standardized features of a word, and the products of any two."""
    n = center.size
    out[row, 0] = 1.0
    for i in range(n):
        value = (features[word, i] - center[i]) / spread[i]
        out[row, 1 + i] = min(max(value, -MOST_SPREADS), MOST_SPREADS)
    at = 1 + n
    for i in range(n):
        for j in range(i, n):
            out[row, at] = out[row, 1 + i] * out[row, 1 + j]
            at += 1


@kernel
def products(features, center, spread):
    """Return the products of many words, (n_words, 1 + n + n (n + 1) / 2)."""
    n = center.size
    out = np.empty((features.shape[0], 1 + n + n * (n + 1) // 2), np.float32)
    for word in range(features.shape[0]):
        write_products(features, word, center, spread, out, word)
    return out


@fast_sums
def predict(features, center, spread, coefficients, curve):
    """Return what the curve makes of the regression on the products, from 0 to 1, for many words."""
    inputs = np.empty((1, coefficients.size), np.float32)
    out = np.empty(features.shape[0], np.float32)
    for word in range(features.shape[0]):
        write_products(features, word, center, spread, inputs, 0)
        total = np.float32(0.0)
        for at in range(coefficients.size):
            total += inputs[0, at] * coefficients[at]
        total = min(total, np.float32(1.0)) if total > 0.0 else np.float32(0.0)  # also if it is NaN
        place = total * np.float32(curve.size - 1)
        low = min(int(place), curve.size - 2)
        out[word] = curve[low] + (place - np.float32(low)) * (curve[low + 1] - curve[low])
    return out
