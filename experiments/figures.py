"""Draws the pictures of `results/`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

from experiments.reproduce import LANGUAGES, SIMILARITY
from experiments.rows import Row
from pbos.evaluation.results import Result

MODELS = ("targets alone", "nearest spelling", "BoS", "KVQ-FH", "PBoS-n", "PBoS", "fastText", "default")


def by_dataset(results: list[Result]) -> dict[str, Result]:
    """Index results by their data set."""
    return {result.dataset: result for result in results}


def draw_all(found: dict[Row, list[Result]], losses: dict[str, list[float]], folder: Path) -> list[Path]:
    """Draw all pictures."""
    matplotlib.use("Agg")
    return [
        draw_tagging(found, folder / "tagging.png"),
        draw_similarity(found, folder / "similarity.png"),
        draw_sizes(found, folder / "size.png"),
        draw_losses(losses, folder / "similarity-losses.png"),
    ]


def draw_tagging(found: dict[Row, list[Result]], file: Path) -> Path:
    """Draw accuracy by language: a point for each model."""
    figure, axes = pyplot.subplots(figsize=(10, 4), layout="constrained")
    rows = {row: by_dataset(results) for row, results in found.items() if row.table == "tagging" and results}
    for row, results in rows.items():
        here = [name for name in LANGUAGES if name in results]
        axes.plot(
            [LANGUAGES.index(name) for name in here],
            [results[name].main.value for name in here],
            "o",
            label=row.label,
            alpha=0.8,
        )
    axes.set_xticks(range(len(LANGUAGES)), LANGUAGES)
    axes.set(ylabel="accuracy", title="POS tagging by language")
    axes.grid(axis="y", alpha=0.3)
    if rows:
        axes.legend(ncols=len(rows), loc="lower center", fontsize="small")
    return save(figure, file)


def draw_similarity(found: dict[Row, list[Result]], file: Path) -> Path:
    """Draw similarity by model, for each set of targets, with intervals."""
    rows = {row: by_dataset(results) for row, results in found.items() if row.table == "similarity" and results}
    targets = list(dict.fromkeys(row.targets for row in rows)) or [""]
    figure, panels = pyplot.subplots(
        1, len(targets), figsize=(5 * len(targets), 4), sharey=True, squeeze=False, layout="constrained"
    )
    for axes, name in zip(panels[0], targets, strict=True):
        chosen = sorted((row for row in rows if row.targets == name), key=lambda row: MODELS.index(row.label))
        for at, row in enumerate(chosen):
            scores = [rows[row][benchmark].main for benchmark in SIMILARITY]
            places = [x + at * 0.8 / len(chosen) for x in range(len(SIMILARITY))]
            below = [score.value - (score.low if score.low is not None else score.value) for score in scores]
            above = [(score.high if score.high is not None else score.value) - score.value for score in scores]
            axes.bar(places, [score.value for score in scores], 0.8 / len(chosen), yerr=[below, above], label=row.label)
        axes.set_xticks([x + 0.35 for x in range(len(SIMILARITY))], SIMILARITY)
        axes.set(title=name)
        axes.grid(axis="y", alpha=0.3)
    panels[0][0].set_ylabel("Spearman's ρ × 100")
    if rows:
        panels[0][-1].legend(fontsize="small")
    return save(figure, file)


def draw_sizes(found: dict[Row, list[Result]], file: Path) -> Path:
    """Draw quality against size."""
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for axes, name in zip(panels, ("cosine", "MRR"), strict=True):
        for row, results in found.items():
            if row.table == "size" and results:
                points = sorted((result.scores["MB"].value, result.scores[name].value) for result in results)
                axes.plot(*zip(*points, strict=True), "--o" if row.hashed else "-o", label=row.label, markersize=4)
        axes.set(xscale="log", xlabel="MB, with the index", ylabel=name)
        axes.grid(alpha=0.3)
    panels[0].set_title("Held-out words of minilm-en, vectors as int8")
    if panels[0].lines:
        panels[0].legend(fontsize="small")
    return save(figure, file)


def draw_losses(losses: dict[str, list[float]], file: Path) -> Path:
    """Draw loss by epoch for each model."""
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for label, values in losses.items():
        axes.plot(range(1, len(values) + 1), [value / values[0] for value in values], label=label)
    axes.set(
        xlabel="epoch", ylabel="loss, as a share of the first epoch's", yscale="log", title="Training on minilm-en"
    )
    axes.grid(alpha=0.3)
    if losses:
        axes.legend(fontsize="small")
    return save(figure, file)


def save(figure: Any, file: Path) -> Path:
    """Save and close a picture."""
    figure.savefig(file, dpi=120)
    pyplot.close(figure)
    return file
