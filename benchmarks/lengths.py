"""How long should the vector of a new word be? The error of three rules, on words after those trained on.

    python benchmarks/lengths.py FOLDER[:WORDS] ...    # prints the table of docs/recipes/complete.md

Each folder is a table of word vectors. A model is trained on its first alphabetic words (WORDS, or nine tenths), and
composes the next 5,000. The error is the mean absolute difference from the true length, over the mean true length.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import pbos
from pbos.training.complete import usual_length

NEXT = 5000


def measure(source: str) -> str:
    """Return a row of the table."""
    folder, _, size = source.partition(":")
    table = pbos.WordVectors.read(folder, limit=int(size) * 3 if size else None)
    rows = [row for row, word in enumerate(table.words) if word.isalpha()]
    cut = int(size) if size else len(rows) * 9 // 10
    given = pbos.WordVectors([table.words[row] for row in rows[:cut]], table.vectors[rows[:cut]])
    later = rows[cut : cut + NEXT]
    composed = np.linalg.norm(pbos.train(given).embed([table.words[row] for row in later]), axis=1)
    true = np.linalg.norm(table.vectors[later], axis=1)
    length = usual_length(given)
    rules = {"as composed": composed, "one factor": composed * length / composed.mean(), "one length": length}
    errors = " | ".join(f"{np.abs(found - true).mean() / true.mean():.3f}" for found in rules.values())
    return f"| {Path(folder).name} | {len(given):,} | {errors} |"


if __name__ == "__main__":
    for source in sys.argv[1:]:
        print(measure(source), flush=True)
