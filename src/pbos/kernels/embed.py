"""Words to vectors in one pass: spans, weights, and the weighted sum of the subword vectors."""

import numpy as np

from pbos.kernels import kernel
from pbos.kernels.compose import compose
from pbos.kernels.spans import end_of_run
from pbos.kernels.weights import weights_of_run


@kernel
def embed_words(nodes, weighing, codes, offsets, vectors, negligible, by_length, out):
    """Write the vectors of many words into out; see `weights_of_run` and `compose`."""
    first = 0
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        indptr, indices, data = weights_of_run(nodes, weighing, codes, offsets[first : last + 1], negligible, by_length)
        compose(indptr, indices, data, vectors, out[first:last])
        first = last


@kernel
def embed_with_evidence(
    nodes, weighing, codes, offsets, vectors, negligible, scales, evidence, out, out_evidence, n_subwords
):
    """Write the vectors of many words, the sums of their subwords' evidence, and the numbers of their subwords.

    `scales` are those of int8 vectors, else empty. `evidence` are the bits of float16 as uint16.
    """
    first = 0
    while first < offsets.size - 1:
        last = end_of_run(offsets, first)
        indptr, indices, data = weights_of_run(nodes, weighing, codes, offsets[first : last + 1], negligible, False)
        n_subwords[first:last] = np.diff(indptr)
        compose(indptr, indices, data, evidence, out_evidence[first:last])
        if scales.size:
            for k in range(data.size):
                data[k] *= scales[indices[k]]
        compose(indptr, indices, data, vectors, out[first:last])
        first = last
