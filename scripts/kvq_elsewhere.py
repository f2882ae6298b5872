"""Train KVQ-FH on another machine (one with a GPU) and bring the vectors back for `pbos eval reproduce`.

python scripts/kvq_elsewhere.py pack DATA FOLDER      # here: what the other machine needs, one .npz a row and language
python3 scripts/kvq_gpu.py FOLDER OUT                 # there: needs PyTorch, NumPy and safetensors only
python scripts/kvq_elsewhere.py unpack DATA OUT       # here: puts the vectors into results/.cache
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pbos.evaluation.reproduce import LANGUAGES, Row, Workshop, needed_words, read_rows


def jobs(workshop: Workshop) -> list[tuple[Row, str, Path]]:
    """Return the rows that need KVQ-FH, their targets, and where the cache expects each; equal models once."""
    found = {}
    for row in read_rows():
        if row.model == "kvq":
            languages = {"tagging": LANGUAGES, "multilingual": ("en", "de", "it", "ru")}.get(row.table, ())
            for targets in [row.targets] if row.targets else [f"selftrained-{language}" for language in languages]:
                place = workshop.place(row, targets)
                found[place] = (row, targets, place)
    return list(found.values())


def pack(workshop: Workshop, folder: Path) -> None:
    """Write the training words, their vectors and the words in question for each model."""
    folder.mkdir(parents=True, exist_ok=True)
    for row, targets, place in jobs(workshop):
        vectors = workshop.vectors(row, targets)
        queries = needed_words([targets], workshop.data)[targets]
        np.savez_compressed(
            folder / f"{place.name}.npz",
            words=np.array(vectors.words),
            vectors=vectors.vectors.astype(np.float16),
            queries=np.array(queries),
        )
        print(f"{place.name}: {len(vectors)} words, {len(queries)} in question")


def unpack(workshop: Workshop, folder: Path) -> None:
    """Put the vectors that came back where the cache expects them."""
    for _, targets, place in jobs(workshop):
        source = folder / f"{place.name}.npz"
        if not source.exists():
            continue
        queries = needed_words([targets], workshop.data)[targets]
        vectors = np.load(source)["vectors"].astype(np.float32)
        np.savez(place.with_suffix(".npz"), words=np.array(queries), vectors=vectors, losses=np.load(source)["losses"])
        print(f"{place.name}: {len(queries)} vectors")


if __name__ == "__main__":
    action, data, folder = sys.argv[1:]
    {"pack": pack, "unpack": unpack}[action](Workshop(Path(data), Path("results/.cache")), Path(folder))
