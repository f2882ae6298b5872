"""What spelling neighbors gain on hidden words of published tables, and cost: the figures of docs/neighbors.md.

Hidden words are drawn evenly from all ranks and measured in thirds, frequent ones first, with three cosines: plain,
around the mean of the known words, and without the direction of that mean, which vectors of many tables share. All
English benchmarks are asked with their words hidden, too. Times are processor time on one core.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import pbos
from experiments import data, tasks
from experiments.report import table_lines
from experiments.reproduce import HIDDEN_PUBLISHED, words_of
from pbos.errors import InputError
from pbos.evaluation.words import similarity, spearman
from pbos.model import Model
from pbos.words.arrays import FloatMatrix, cosines, unit_rows

TABLES = {  # a published table, how many of its words, and the number that draws the hidden ones
    "glove": ("glove-6b-100d", 200_000, 0),
    "glove-again": ("glove-6b-100d", 60_000, 1),
    "navec": ("navec-hudlit", 60_000, 0),
    "googlenews": ("googlenews-26k", None, 0),
    "chinese": ("zh-wikipedia", None, 0),
}
NEIGHBORS = (0, 16)
HEAD = ["neighbors", "cosine", "around the mean", "without its direction", "confidence", "calibration"]
COST = ["train, s", "embed, us", "one word, us", "load and one word, s", "MB"]


def make(names: Iterable[str], folder: Path) -> Iterator[str]:
    """Yield the tables of the named experiments in Markdown; `folder` has the benchmarks."""
    for name in names:
        if name not in TABLES:
            raise InputError(f"unknown experiment {name!r}; choose from: {', '.join(TABLES)}")
        published, limit, seed = TABLES[name]
        benchmarks = {}
        if published.startswith(("glove", "googlenews")):
            benchmarks = {name: data.pairs(name, folder) for name in data.ENGLISH}
        given = data.vectors(published, folder, limit=limit)
        hidden = min(HIDDEN_PUBLISHED, len(given) // 5)
        split = tasks.hide(given, hidden, dropped=words_of(benchmarks.values()), seed=seed)
        body = []
        for number in NEIGHBORS:
            began = time.process_time()
            model = pbos.train(split.kept, spelling_neighbors=number, progress=False)
            seconds = time.process_time() - began
            found = [
                f"{similarity(model, pairs, name).scores['spearman'].value:.1f}" for name, pairs in benchmarks.items()
            ]
            body.append(
                [str(number), *quality(model, split), *found, f"{seconds:.0f}", *costs(model, split.hidden.words)]
            )
        yield f"## {name}: {len(split.kept):,} words of {published}\n"
        yield from table_lines([*HEAD, *benchmarks, *COST], body)
        yield ""


def quality(model: Model, split: tasks.Split) -> list[str]:
    """Return the cosines of hidden words in thirds, how well the confidence ranks them, and its error by tenths."""
    mean = split.kept.vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
    composed, true = model.embed(split.hidden.words), split.hidden.vectors
    plain, expected = cosines(composed, true), model.confidence(split.hidden.words)
    direction = unit_rows(mean[None])[0]

    def without(vectors: FloatMatrix) -> FloatMatrix:
        return np.asarray(vectors - (vectors @ direction)[:, None] * direction)

    kinds = plain, cosines(composed - mean, true - mean), cosines(without(composed), without(true))
    thirds = np.array_split(np.argsort(split.places, kind="stable"), 3)
    tenths = np.array_split(np.argsort(expected, kind="stable"), tasks.TENTHS)
    errors = [abs(float(expected[rows].mean() - plain[rows].mean())) for rows in tenths]
    trust = f"{spearman(expected, plain) / 100:.3f}", f"{np.mean(errors):.3f}, at most {max(errors):.3f}"
    return [*(" ".join(f"{kind[rows].mean():.3f}" for rows in thirds) for kind in kinds), *trust]


def costs(model: Model, words: list[str]) -> list[str]:
    """Return the time of an unseen word among many and alone, that of loading a model for one, and the size."""
    with TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        size = sum(file.stat().st_size for file in Path(folder, "model").iterdir())
        loads, many, one = [], [], []
        for _ in range(3):
            began = time.process_time()
            loaded = pbos.load(f"{folder}/model")
            loaded.embed(words[0], threads=1)
            loads.append(time.process_time() - began)
        for _ in range(7):
            began = time.process_time()
            loaded.embed(words, threads=1)
            many.append((time.process_time() - began) / len(words))
        for word in words[:200]:
            began = time.process_time()
            loaded.embed(word)
            one.append(time.process_time() - began)
        del loaded
    return [f"{1e6 * min(many):.1f}", f"{1e6 * np.median(one):.0f}", f"{min(loads):.2f}", f"{size / 1e6:.0f}"]
