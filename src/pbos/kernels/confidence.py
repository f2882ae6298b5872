"""What a confidence is computed from: the features of words and their products, a few words at a time."""

import numpy as np
from numba import njit

from pbos.kernels import kernel
from pbos.kernels.compose import compose
from pbos.kernels.machine import as_float32, prefetch
from pbos.kernels.spans import end_of_run
from pbos.kernels.weights import weights_of_run

AHEAD = 16  # subwords whose evidence is prefetched
MOST_SPREADS = np.float32(4.0)  # how far from the mean a feature may be; farther ones count as this far
LEAST = np.float32(1e-3)  # added to lengths before their logarithms are taken

fast_sums = njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})  # adds up several numbers at a time


@fast_sums
def squares(vectors, row, mean):
    """Return the squared length of a vector, and of its difference from the mean."""
    length = distance = np.float32(0.0)
    for dim in range(mean.size):
        length += vectors[row, dim] * vectors[row, dim]
        distance += (vectors[row, dim] - mean[dim]) * (vectors[row, dim] - mean[dim])
    return length, distance


@kernel
def write_features(nodes, weighing, codes, offsets, vectors, negligible, scales, evidence, mean, scale, out):
    """Write the features of many words, (n_words, n_evidence + 4); of the last four, the logarithms are to be taken.

    They are the weighted sums of the evidence of a word's subwords; the length of its vector, and its distance from the
    mean; 1 more than its number of subwords; its number of characters, with the marks. `scales` are those of int8
    vectors, else empty. `evidence` are the bits of float16 as uint16.
    """
    n_evidence = evidence.shape[1]
    sums = np.empty(n_evidence, np.float32)
    first = 0
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        indptr, indices, data = weights_of_run(nodes, weighing, codes, offsets[first : last + 1], negligible, False)
        for word in range(first, last):
            sums[:] = 0.0
            for k in range(indptr[word - first], indptr[word - first + 1]):
                prefetch(evidence, np.int64(indices[min(k + AHEAD, data.size - 1)]) * n_evidence)
                row, weight = np.uint64(indices[k]), data[k]
                for at in range(np.uint64(n_evidence)):
                    sums[at] += weight * as_float32(evidence[row, at])
                if scales.size:
                    data[k] = weight * scales[row]
            out[word, :n_evidence] = sums
        composed = np.empty((last - first, mean.size), np.float32)
        compose(indptr, indices, data, vectors, composed)
        for word in range(first, last):
            length, distance = squares(composed, word - first, mean)
            out[word, n_evidence] = np.sqrt(length) / scale + LEAST
            out[word, n_evidence + 1] = np.sqrt(distance) / scale + LEAST
            out[word, n_evidence + 2] = indptr[word - first + 1] - indptr[word - first] + 1
            out[word, n_evidence + 3] = offsets[word + 1] - offsets[word]
        first = last


@kernel
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
