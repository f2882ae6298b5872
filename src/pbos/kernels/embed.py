"""Words to vectors in one pass: spans, weights, and the weighted sum of the subword vectors."""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.compose import compose_rows
from pbos.kernels.spans import end_of_run
from pbos.kernels.weights import weights_of_run


@kernel
def embed_words(nodes, weighing, codes, offsets, vectors, negligible, by_length, out):
    """Write the vectors of many words into out; see `weights_of_run` and `compose_rows`."""
    first = np.int64(0)
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        indptr, indices, data = weights_of_run(nodes, weighing, codes, offsets, first, last, negligible, by_length)
        compose_rows(indptr, indices, data, vectors, out, first, last)
        first = last
