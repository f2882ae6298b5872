"""Small tables of vectors, and the bytes of files with them."""

import bz2
import gzip
import importlib
import io
import lzma
import struct
from importlib.util import find_spec

import numpy as np

from pbos.tables.word_vectors import WordVectors

COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}
if find_spec("zstandard"):
    COMPRESS[".zst"] = importlib.import_module("zstandard").compress


HIGH = WordVectors(["high", "higher", "größer", "高い", "new york"], [[1, 0], [0.5, -2], [1e-30, 3], [-0.0, 7], [8, 9]])


def same(left, right):
    """Equal words and the same bits, so that -0.0 counts as different from 0.0."""
    return left.words == right.words and left.vectors.tobytes() == right.vectors.tobytes()


def binary(*pairs, header=None, end=b""):
    """Literal bytes of word2vec's binary format."""
    dims = len(pairs[0][1])
    records = [word + b" " + struct.pack(f"<{dims}f", *values) + end for word, values in pairs]
    return (header or b"%d %d\n" % (len(pairs), dims)) + b"".join(records)


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()
