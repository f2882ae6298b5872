"""Solving words = A S for the subword vectors S: conjugate gradients for ridge regression, and SGD."""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.machine import LINE_FLOATS, prefetch, prefetch_row

AHEAD = 16  # entries whose vectors are prefetched


# Ridge regression -----------------------------------------------------------------------------------------------------

# Each dimension is its own linear system with the same matrix. Some of them are solved together, each with its own step
# lengths; only the decision to stop is made for all of them.

LEAST_ITERATIONS = 4  # before the gains tell what is left
LOOSE = 10  # how many times what is left its bound may be


@kernel
def normal_product(rows, shares, pairs, curvature):
    """Add A' D A direction to product for each column's (direction, product) in `pairs`; add d' A' D A d to curvature.

    Works word by word: the sum over a word's columns is added back to the same columns while they are in the cache. So
    the matrix is read once and needs no transpose, and a column's two vectors, stored together, are fetched together.
    """
    indptr, indices, data = rows
    dims = curvature.size
    width = 2 * pairs.shape[2]
    size = indptr[indptr.size - 1]
    word = np.empty(dims, np.float32)
    for row in range(indptr.size - 1):
        start, end = indptr[row], indptr[row + 1]
        word[:] = 0.0
        k = start
        while k + 3 < end:
            for later in range(k + AHEAD, min(k + AHEAD + 4, size)):
                prefetch_row(pairs, indices[later], width, LINE_FLOATS)
            a, b, c, d = data[k], data[k + 1], data[k + 2], data[k + 3]
            first, second, third, fourth = indices[k], indices[k + 1], indices[k + 2], indices[k + 3]
            for dim in range(dims):
                word[dim] += (
                    a * pairs[first, 0, dim]
                    + b * pairs[second, 0, dim]
                    + c * pairs[third, 0, dim]
                    + d * pairs[fourth, 0, dim]
                )
            k += 4
        while k < end:
            if k + AHEAD < size:
                prefetch_row(pairs, indices[k + AHEAD], width, LINE_FLOATS)
            a, first = data[k], indices[k]
            for dim in range(dims):
                word[dim] += a * pairs[first, 0, dim]
            k += 1
        share = shares[row]
        for dim in range(dims):
            curvature[dim] += np.float64(share * word[dim]) * word[dim]
            word[dim] *= share
        for k in range(start, end):
            a, first = data[k], indices[k]
            for dim in range(dims):
                pairs[first, 1, dim] += a * word[dim]


@kernel
def right_side(rows, shares, lam, targets, out, diagonal, objective):
    """Write A' D targets into `out`, the diagonal of A' D A + lam I, and the objective at zero, targets' D targets."""
    indptr, indices, data = rows
    dims = targets.shape[1]
    out[:] = 0.0
    diagonal[:] = lam
    objective[:] = 0.0
    word = np.empty(dims, np.float32)
    for row in range(indptr.size - 1):
        for dim in range(dims):
            word[dim] = shares[row] * targets[row, dim]
            objective[dim] += np.float64(word[dim]) * targets[row, dim]
        for k in range(indptr[row], indptr[row + 1]):
            a, column = data[k], indices[k]
            diagonal[column] += np.float64(shares[row]) * a * a
            for dim in range(dims):
                out[column, dim] += a * word[dim]


@kernel
def conjugate_gradients(rows, shares, lam, targets, max_iterations, tolerance, vectors, residual, pairs):
    """Minimize |A S - targets|² + lam |S|², starting from zero, where word errors count by `shares`, the diagonal D.

    `rows` is A as (indptr, indices, data). Solves (A' D A + lam I) S = A' D targets with the Jacobi preconditioner.
    Stops when the sum to minimize is about `tolerance` times itself above its minimum, or after max_iterations. Every
    iteration lowers the sum by a known amount. What is left falls faster than 1 / iterations², so it is at most a third
    of what the second half of the iterations has gained. That can be wrong on a plateau. But no eigenvalue is below
    lam, so |residual|² / lam is a true bound, though often ten times what is left: it has to be as small as that.

    Writes S into `vectors`; returns the number of iterations, and for each dimension about how far the sum is above its
    minimum. `residual`, (n_columns, dims), and `pairs`, (n_columns, 2, dims), are work space, allocated by the caller
    because NumPy uses large pages.
    """
    n_columns, dims = vectors.shape
    diagonal = np.empty(n_columns, np.float64)
    sums = np.empty((max_iterations + 1, dims), np.float64)  # to minimize, after each iteration
    right_side(rows, shares, lam, targets, residual, diagonal, sums[0])
    inverses = (1.0 / diagonal).astype(np.float32)
    vectors[:] = 0.0
    pairs[:] = 0.0
    left = 0.0  # |residual|²
    scaled = np.zeros(dims, np.float64)  # residual times preconditioned residual
    for column in range(n_columns):
        for dim in range(dims):
            square = np.float64(residual[column, dim]) * residual[column, dim]
            left += square
            scaled[dim] += square * inverses[column]
    ratio, step = np.zeros(dims, np.float32), np.zeros(dims, np.float32)
    iteration = 0
    while True:
        now = sums[iteration]
        above = (sums[iteration // 2] - now) / 3.0
        small = tolerance * now.sum()
        is_near = iteration >= LEAST_ITERATIONS and above.sum() <= small and left <= LOOSE * lam * small
        if is_near or iteration == max_iterations:
            return iteration, above
        curvature = np.zeros(dims, np.float64)
        for column in range(n_columns):
            inverse = inverses[column]
            for dim in range(dims):
                along = inverse * residual[column, dim] + ratio[dim] * pairs[column, 0, dim]
                pairs[column, 0, dim] = along
                pairs[column, 1, dim] = lam * along
                curvature[dim] += np.float64(lam * along) * along
        normal_product(rows, shares, pairs, curvature)
        for dim in range(dims):
            step[dim] = scaled[dim] / curvature[dim] if curvature[dim] > 0.0 else 0.0
            sums[iteration + 1, dim] = now[dim] - step[dim] * scaled[dim]
        iteration += 1
        before = scaled
        scaled = np.zeros(dims, np.float64)
        left = 0.0
        for column in range(n_columns):
            inverse = inverses[column]
            for dim in range(dims):
                vectors[column, dim] += step[dim] * pairs[column, 0, dim]
                changed = residual[column, dim] - step[dim] * pairs[column, 1, dim]
                residual[column, dim] = changed
                square = np.float64(changed) * changed
                left += square
                scaled[dim] += square * inverse
        for dim in range(dims):
            ratio[dim] = scaled[dim] / before[dim] if before[dim] > 0.0 else 0.0


# Stochastic gradient descent ------------------------------------------------------------------------------------------

# One word at a time, in place. Without fast-math, the numbers of a dimension do not depend on which other dimensions
# are trained with it. So slices of the dimensions can go to separate threads, and the result is the same bit for bit.

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
