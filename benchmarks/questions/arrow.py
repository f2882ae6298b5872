"""Embed an Arrow column with `embed_arrow`, compared with `model.embed` on the same column; one core.

Uses the included English model. The distinct words are the most frequent ones of the unigram list. The running text is
the beginning of the novels, as plain strings and dictionary-encoded. "max difference" is the largest difference of any
vector component.
"""

from __future__ import annotations

import inputs
import numpy as np
from measure import Row, one_core, race

import pbos

DISTINCT, RUNNING = 100_000, 500_000


def rows():
    import pyarrow as pa

    from pbos.adapters.arrow import embed_arrow

    model = pbos.load()
    with inputs.corpus().open(encoding="utf-8") as novels:
        text = pa.array(novels.read(20 * RUNNING).split()[:RUNNING])
    columns = {
        f"embed an Arrow column of {DISTINCT:,} distinct words": pa.array(inputs.counts().words[:DISTINCT]),
        f"embed an Arrow column of {RUNNING:,} words of running text": text,
        "the same running text, dictionary-encoded": text.dictionary_encode(),
    }
    for question, column in columns.items():
        calls = {
            "ours": lambda column=column: embed_arrow(model, column, threads=1),
            "strings": lambda column=column: model.embed(column, threads=1),
        }
        with one_core():
            seconds = race(calls)
        ours = calls["ours"]().flatten().to_numpy().reshape(len(column), -1)
        difference = float(np.abs(ours - calls["strings"]()).max())
        quality = {"max difference": (difference, None)}
        yield Row(question, seconds["ours"], "s", "via Python strings", seconds["strings"], quality=quality)
