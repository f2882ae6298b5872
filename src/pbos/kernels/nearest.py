"""Comparing a vector with all others."""

import numpy as np

from pbos.kernels import kernel


@kernel
def products_of_few(queries, rows):
    """Return the products of some queries with many rows, (n_queries, n_rows); they must fit int32.

    With one query this takes as long as it takes to read the rows.
    """
    out = np.empty((queries.shape[0], rows.shape[0]), np.int32)
    for row in range(rows.shape[0]):
        for query in range(queries.shape[0]):
            total = np.int32(0)
            for dim in range(queries.shape[1]):
                total += np.int32(queries[query, dim]) * np.int32(rows[row, dim])
            out[query, row] = total
    return out
