"""An Arrow column with `embed_arrow`, compared with `model.embed` on the same column; one core.

The model is the English one. The distinct words are the most frequent ones of the unigram list; the running text is the
beginning of the novels, plain and dictionary-encoded. "difference" is the largest of any component.
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
        "the same, dictionary-encoded": text.dictionary_encode(),
    }
    for question, column in columns.items():
        calls = {
            "ours": lambda column=column: embed_arrow(model, column, threads=1),
            "embed": lambda column=column: model.embed(column, threads=1),
        }
        with one_core():
            seconds = race(calls)
        ours = calls["ours"]().flatten().to_numpy().reshape(len(column), -1)
        difference = float(np.abs(ours - calls["embed"]()).max())
        quality = {"difference": (difference, None)}
        yield Row(question, seconds["ours"], "s", "model.embed", seconds["embed"], quality=quality)
