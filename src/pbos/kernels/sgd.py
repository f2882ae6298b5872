"""Stochastic gradient descent on words = A S, one word at a time, in place.

Without fast-math, the numbers of a dimension do not depend on which other dimensions are trained with it. So slices of
the dimensions can go to separate threads, and the result is the same bit for bit.
"""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.machine import LINE_FLOATS, prefetch

NO_NORM = 1e-4  # a subword vector no longer than this has no direction


@kernel
def sgd_epoch(indptr, indices, data, targets, vectors, order, rate, unit_length):
    """Make one pass over the words; return the sum of squared errors per dimension.

    error = sum of a(s|w) vector(s) - target(w);  vector(s) -= rate * a(s|w) * error
    With unit_length (PBoS-n), vectors are scaled to length 1 before they are summed; the step stays the same.

    Words come in random order and their vectors are far apart, so most of the time goes to memory reads. The vectors of
    the next word, and the weights of the one after it, are prefetched.
    """
    dims = vectors.shape[1]
    error = np.empty(dims, np.float32)
    loss = np.zeros(dims, np.float64)
    last = order.size - 1
    for at in range(order.size):
        word, following, later = order[at], order[min(at + 1, last)], order[min(at + 2, last)]
        prefetch(indptr, order[min(at + 3, last)])
        for k in range(indptr[later], indptr[later + 1], LINE_FLOATS):
            prefetch(indices, k)
            prefetch(data, k)
        for dim in range(0, dims, LINE_FLOATS):
            prefetch(targets, following * dims + dim)
        for k in range(indptr[following], indptr[following + 1]):
            for dim in range(0, dims, LINE_FLOATS):
                prefetch(vectors, np.int64(indices[k]) * dims + dim)

        target = targets[word]
        for dim in range(dims):
            error[dim] = -target[dim]
        for k in range(indptr[word], indptr[word + 1]):
            weight = data[k]
            vector = vectors[indices[k]]
            if unit_length:
                norm = 0.0
                for dim in range(dims):
                    norm += vector[dim] * vector[dim]
                norm = np.sqrt(norm)
                weight = np.float32(weight / norm) if norm > NO_NORM else np.float32(0.0)
            for dim in range(dims):
                error[dim] += weight * vector[dim]
        for dim in range(dims):
            loss[dim] += error[dim] * error[dim]
        for k in range(indptr[word], indptr[word + 1]):
            step = rate * data[k]
            vector = vectors[indices[k]]
            for dim in range(dims):
                vector[dim] -= step * error[dim]
    return loss
