"""Conjugate gradients for ridge regression on words = A S, for some of the dimensions at a time.

Every dimension is a linear system of its own with the same matrix; they are solved side by side, each with its own step
lengths. Only when to stop is decided for all of them together.
"""

import numpy as np

from pbos.kernels import kernel


@kernel
def transposed(indptr, indices, data, n_columns):
    """Return the transpose of a CSR matrix as CSR; rows stay in ascending order within each column."""
    new_indptr = np.zeros(n_columns + 1, np.int64)
    for column in indices:
        new_indptr[column + 1] += 1
    for column in range(n_columns):
        new_indptr[column + 1] += new_indptr[column]
    filled = new_indptr[:-1].copy()
    new_indices = np.empty(indices.size, np.int32)
    new_data = np.empty(data.size, np.float32)
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            at = filled[indices[k]]
            new_indices[at] = row
            new_data[at] = data[k]
            filled[indices[k]] = at + 1
    return new_indptr, new_indices, new_data


@kernel
def sum_row(indptr, indices, data, row, values, out):
    """Write row `row` of a sparse matrix times `values` into `out`; four entries at a time, to save trips to it."""
    for dim in range(out.size):
        out[dim] = 0.0
    k = indptr[row]
    end = indptr[row + 1]
    while k + 3 < end:
        a, b, c, d = data[k], data[k + 1], data[k + 2], data[k + 3]
        first, second = values[indices[k]], values[indices[k + 1]]
        third, fourth = values[indices[k + 2]], values[indices[k + 3]]
        for dim in range(out.size):
            out[dim] += a * first[dim] + b * second[dim] + c * third[dim] + d * fourth[dim]
        k += 4
    while k < end:
        a = data[k]
        first = values[indices[k]]
        for dim in range(out.size):
            out[dim] += a * first[dim]
        k += 1


@kernel
def conjugate_gradients(rows, columns, shares, lam, targets, max_iterations, tolerance):
    """Solve (A' D A + lam I) S = A' D targets, starting from zero; D is the diagonal matrix of `shares`, one a word.

    `rows` is A and `columns` its transpose, both as (indptr, indices, data). Preconditioned by the diagonal (Jacobi).
    Ends when the residual, over all dimensions, is at most `tolerance` times the right side, or after max_iterations.
    Returns S, the number of iterations, and the squared norms of the residual and of the right side.
    """
    n_words, dims = targets.shape
    n_columns = columns[0].size - 1
    vectors = np.zeros((n_columns, dims), np.float32)
    residual = np.empty((n_columns, dims), np.float32)
    direction = np.zeros((n_columns, dims), np.float32)
    product = np.empty((n_columns, dims), np.float32)
    words = np.empty((n_words, dims), np.float32)
    for word in range(n_words):
        for dim in range(dims):
            words[word, dim] = shares[word] * targets[word, dim]
    inverses = np.empty(n_columns, np.float32)
    for column in range(n_columns):
        diagonal = np.float64(lam)
        for k in range(columns[0][column], columns[0][column + 1]):
            diagonal += np.float64(shares[columns[1][k]]) * columns[2][k] * columns[2][k]
        inverses[column] = 1.0 / diagonal
    goal = np.zeros(dims, np.float64)  # |A' targets|**2
    scaled = np.zeros(dims, np.float64)  # residual times preconditioned residual
    for column in range(n_columns):
        row = residual[column]
        sum_row(columns[0], columns[1], columns[2], column, words, row)
        for dim in range(dims):
            square = np.float64(row[dim]) * row[dim]
            goal[dim] += square
            scaled[dim] += square * inverses[column]
    left = goal.copy()
    ratio = np.zeros(dims, np.float32)
    step = np.zeros(dims, np.float32)
    for iteration in range(max_iterations):
        if left.sum() <= tolerance * tolerance * goal.sum():
            return vectors, iteration, left.sum(), goal.sum()
        for column in range(n_columns):
            inverse, row, along = inverses[column], residual[column], direction[column]
            for dim in range(dims):
                along[dim] = inverse * row[dim] + ratio[dim] * along[dim]
        for word in range(n_words):
            row = words[word]
            sum_row(rows[0], rows[1], rows[2], word, direction, row)
            for dim in range(dims):
                row[dim] *= shares[word]
        curvature = np.zeros(dims, np.float64)
        for column in range(n_columns):
            row, along = product[column], direction[column]
            sum_row(columns[0], columns[1], columns[2], column, words, row)
            for dim in range(dims):
                row[dim] += lam * along[dim]
                curvature[dim] += np.float64(row[dim]) * along[dim]
        for dim in range(dims):
            step[dim] = scaled[dim] / curvature[dim] if curvature[dim] > 0.0 else 0.0
        before = scaled
        scaled = np.zeros(dims, np.float64)
        left[:] = 0.0
        for column in range(n_columns):
            inverse, vector, along = inverses[column], vectors[column], direction[column]
            row, change = residual[column], product[column]
            for dim in range(dims):
                vector[dim] += step[dim] * along[dim]
                row[dim] -= step[dim] * change[dim]
                square = np.float64(row[dim]) * row[dim]
                left[dim] += square
                scaled[dim] += square * inverse
        for dim in range(dims):
            ratio[dim] = scaled[dim] / before[dim] if before[dim] > 0.0 else 0.0
    return vectors, max_iterations, left.sum(), goal.sum()
