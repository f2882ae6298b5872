"""The rows of all tables. They are data: one file per table in `tables/`, with the paper's figures."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pbos.settings import check_choice

FOLDER = Path(__file__).parent / "tables"
TABLES = (
    *("segmentation", "affix", "similarity", "unseen", "multilingual"),
    *("tagging", "heldout", "ablation", "size"),
    *("real-similarity", "real-heldout", "real-unseen"),
)


@dataclass(frozen=True, eq=False)  # compared by identity, so that rows can be dictionary keys
class Row:
    """One row of a table: a model, what it is trained on, and what the paper reports for it.

    Attributes:
        name: Its name, which begins with the table's: "similarity-minilm-en-pbos".
        table: The table it belongs to.
        label: The model's name in the table.
        model: A preset, or targets, nearest, kvq, fasttext, cnn, bilstm, transformer, segmenter, random.
        targets: The target vectors; empty if each part of the row (a language, a set of vectors) has its own.
        counts: "unigram" for the paper's list, "own" for the counts beside the targets, "any" for the latter, or the
            former if there are none. The model "default" uses only counts that come with a published table.
        settings: Settings of the preset (or the segmenter) to change.
        limit: How many target words to use; None for all.
        hashed: For the table of sizes: put subwords into buckets by a hash instead of dropping some.
        c: C of the logistic regression.
        paper_targets: The target vectors the paper used.
        paper: The paper's figures, by data set or language.
    """

    name: str
    table: str
    label: str
    model: str
    targets: str = ""
    counts: str = "own"
    settings: dict[str, Any] = field(default_factory=dict)
    limit: int | None = None
    hashed: bool = False
    c: float = 1.0
    paper_targets: str = ""
    paper: dict[str, float] = field(default_factory=dict)


def read_rows(table: str = "all") -> list[Row]:
    """Read the rows of a table, or of all tables.

    A file is a list of groups; a group has the rows by name, and what they share.
    """
    check_choice("table", table, (*TABLES, "all"))
    return [
        Row(name, one, **group["shared"], **row)
        for one in (TABLES if table == "all" else (table,))
        for group in json.loads((FOLDER / f"{one}.json").read_text(encoding="utf-8"))
        for name, row in group["rows"].items()
    ]
