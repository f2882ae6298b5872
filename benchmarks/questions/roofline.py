"""How close `embed` comes to the memory bandwidth, one core.

The bytes per word are the rows of subword vectors that are summed, a cache line for each span found in the index, and
the vector written. Some rows are already in the cache, so this is the traffic that the kernels request, not what memory
delivers. It is compared with copying a large array (counting both reads and writes), and with reading random rows of a
matrix as large as the model's into a buffer that stays in the cache.
"""

from __future__ import annotations

import inputs
import numpy as np
from measure import Row, log, one_core, race

from pbos.kernels.machine import LINE
from pbos.words.vectors import NEGLIGIBLE

GATHERED = 256  # rows read at a time: 300 KB


def rows():
    words = inputs.unseen_words()
    random = np.random.default_rng(0)
    large = np.ones(1 << 27, np.float32)
    other = np.empty_like(large)
    pbos, default = inputs.model("pbos"), inputs.model("default")
    models = {"pbos": pbos, "pbos, float16": pbos.compress(dtype="float16")}
    models["default, int8"] = default.compress(dtype="int8")
    for name, model in models.items():
        row_bytes = model.dims * model.subword_vectors.values.itemsize
        table = np.ones(model.subword_vectors.values.shape, model.subword_vectors.values.dtype)
        numbers = random.integers(len(table), size=(400, GATHERED))
        buffer = np.empty((GATHERED, model.dims), table.dtype)

        def gather(table=table, numbers=numbers, buffer=buffer) -> None:
            for chosen in numbers:
                np.take(table, chosen, axis=0, out=buffer, mode="clip")

        with one_core():
            seconds = race(
                {
                    "embed": lambda model=model: model.embed(words, threads=1),
                    "copy": lambda: np.copyto(other, large),
                    "gather": gather,
                }
            )
        summed, touched, written = traffic(model, words)
        moved = summed * row_bytes + touched + written
        log(f"{name}, per word: {summed:.1f} rows, index {touched:.0f} B, written {written} B, in total {moved:.0f} B")
        ours = moved * len(words) / seconds["embed"] / 1e9
        question = f"memory traffic of `embed`, preset {name}: {summed:.1f} rows, {moved / 1000:.1f} kB per word"
        yield Row(question, ours, "GB/s", "array copy", 2 * large.nbytes / seconds["copy"] / 1e9)
        yield Row(question, ours, "GB/s", "random row reads", numbers.size * row_bytes / seconds["gather"] / 1e9)


def traffic(model, words: list[str]) -> tuple[float, float, int]:
    """Return the rows summed, index bytes read and bytes written per word, on average."""
    weights = model.subwords.weights(words)
    lengths = weights.data * model.subword_vectors.lengths[weights.indices]
    sums = np.add.reduceat(lengths, weights.indptr[:-1])
    summed = (lengths >= NEGLIGIBLE * np.repeat(sums, np.diff(weights.indptr))).sum() / len(words)
    sample = words[:1000]
    spans = sum(model.subwords.spans(word).probs.size for word in sample) / len(sample)
    return summed, LINE * spans, 4 * model.dims
