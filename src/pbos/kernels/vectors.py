"""Words to vectors, words = A S: the sums of subword vectors, how confident they are, and which vectors are near."""

from functools import partial

import numpy as np

from pbos.kernels import kernel, part
from pbos.kernels.lattice import end_of_run, weights_of_run
from pbos.kernels.machine import LINE, as_float32, prefetch, prefetch_row

AHEAD = 16  # entries whose vectors, or evidence, are prefetched


@part
def compose_rows(indptr, indices, data, vectors, out, first, last):
    """Write A S into rows first to last (exclusive) of out; row w of A is `indptr[w - first]:indptr[w - first + 1]`.

    Four entries are added at a time, to save passes over the sum, with the next vectors being prefetched. `vectors` are
    float32, int8, or the bits of float16 as uint16.
    """
    dims, line = out.shape[1], LINE // vectors.itemsize
    size = indptr[last - first]
    for word in range(first, last):
        total = out[word]
        for dim in range(dims):
            total[dim] = 0.0
        k, end = indptr[word - first], indptr[word - first + 1]
        soon = k + AHEAD if word > first else k
        while k + 3 < end:
            while soon < min(k + AHEAD + 4, size):
                prefetch_row(vectors, indices[soon], dims, line)
                soon += 1
            a, b, c, d = data[k], data[k + 1], data[k + 2], data[k + 3]
            # No views of rows: all threads would update the reference count of their owner.
            first_row, second, third, fourth = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
            for dim in range(dims):
                total[dim] += (
                    a * as_float32(vectors[first_row, dim])
                    + b * as_float32(vectors[second, dim])
                    + c * as_float32(vectors[third, dim])
                    + d * as_float32(vectors[fourth, dim])
                )
            k += 4
        while k < end:
            a, first_row = data[k], indices[k]
            for dim in range(dims):
                total[dim] += a * as_float32(vectors[first_row, dim])
            k += 1


@kernel
def compose(indptr, indices, data, vectors, out):
    """Write A S into out; see `compose_rows`."""
    compose_rows(indptr, indices, data, vectors, out, np.int64(0), out.shape[0])


@kernel
def embed_words(nodes, weighing, codes, offsets, vectors, negligible, by_length, out):
    """Write the vectors of many words into out; see `weights_of_run` and `compose_rows`."""
    first = np.int64(0)
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        indptr, indices, data, _ = weights_of_run(nodes, weighing, codes, offsets, first, last, negligible, by_length)
        compose_rows(indptr, indices, data, vectors, out, first, last)
        first = last


# Confidence -----------------------------------------------------------------------------------------------------------

MOST_SPREADS = np.float32(4.0)  # how far from the mean a feature may be; farther ones count as this far
fast_sums = partial(kernel, fastmath={"reassoc", "contract"})  # adds up several numbers at a time


@kernel
def add_evidence(indptr, indices, data, evidence, out):
    """Add the weighted sums of the evidence of words' subwords, bits of float16, to the first columns of out."""
    n_evidence = evidence.shape[1]
    for word in range(indptr.size - 1):
        for k in range(indptr[word], indptr[word + 1]):
            prefetch(evidence, np.int64(indices[min(k + AHEAD, data.size - 1)]) * n_evidence)
            row, weight = np.uint64(indices[k]), data[k]
            for at in range(np.uint64(n_evidence)):
                out[word, at] += weight * as_float32(evidence[row, at])


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


# Neighbors ------------------------------------------------------------------------------------------------------------


@kernel
def products_of_few(queries, rows):
    """Return the products of some queries with many rows, (n_queries, n_rows); they must fit int32."""
    out = np.empty((queries.shape[0], rows.shape[0]), np.int32)
    for row in range(rows.shape[0]):
        for query in range(queries.shape[0]):
            total = np.int32(0)
            for dim in range(queries.shape[1]):
                total += np.int32(queries[query, dim]) * np.int32(rows[row, dim])
            out[query, row] = total
    return out
