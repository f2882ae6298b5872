"""Read a word2vec text file of 1 GB (333,333 words x 300). Best of two runs, because gensim takes minutes.

Both use one thread. "max difference" is the largest difference of any vector component.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import inputs
import numpy as np
from measure import Row, race

import pbos

ROUNDS = 2


def rows():
    from gensim.models import KeyedVectors

    words = inputs.counts().words
    matrix = np.random.default_rng(0).standard_normal((len(words), 300), np.float32)
    found = {}
    with tempfile.TemporaryDirectory(dir=inputs.CACHE) as folder:
        path = Path(folder) / "vectors.txt"
        pbos.WordVectors(words, matrix).write(path, format="word2vec", progress=False)

        def ours() -> None:
            found["ours"] = pbos.WordVectors.read(path, progress=False)

        def theirs() -> None:
            found["theirs"] = KeyedVectors.load_word2vec_format(path, binary=False)

        size = path.stat().st_size / 1e9
        seconds = race({"ours": ours, "theirs": theirs}, ROUNDS)
    assert found["ours"].words == found["theirs"].index_to_key == words
    difference = float(np.abs(found["ours"].vectors - found["theirs"].vectors).max())
    yield Row(
        f"read a word2vec text file of {size:.2f} GB",
        seconds["ours"],
        peer="gensim",
        theirs=seconds["theirs"],
        at_least=3.0,
        quality={"max difference": (difference, None)},
    )
