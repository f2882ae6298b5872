"""The tables of `experiments.love`: hidden words, word pairs, and misspellings, for any models of the same words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from experiments import tasks
from experiments.contexts import without
from experiments.report import cell, table_lines
from pbos.evaluation.datasets import Pair
from pbos.evaluation.results import Embedder, Score, bootstrap
from pbos.evaluation.words import Targets, similarity, true_ranks
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import FloatMatrix, cosines

THIRDS = ("frequent", "middle", "rare")
GAPS = ("default above it, composed", "default above it, with the table")


def hidden_words(split: tasks.Split, models: dict[str, Embedder], mean: npt.NDArray[np.float32]) -> Iterable[str]:
    """Yield the cosines of hidden words, all and by thirds of ranks, with and without the mean direction."""
    true = split.hidden.vectors
    third = np.minimum(split.places * 3, 2).astype(int)
    near = {}
    for label, model in models.items():
        composed = model.embed(split.hidden.words)
        near[label] = cosines(composed, true), cosines(without(composed, mean), without(true, mean))
    body = []
    for label, both in near.items():
        line = [label]
        for kind, values in enumerate(both):
            thirds = " / ".join(f"{values[third == at].mean():.3f}" for at in range(len(THIRDS)))
            line += [cell(mean_of(values), 3), thirds, cell(mean_of(near["default"][kind] - values), 3)]
        body.append(line)
    head = ["cosine", " / ".join(THIRDS), "default above it"]
    return table_lines(["model", *head, *("without the mean: " + one for one in head)], body)


def mean_of(values: FloatMatrix) -> Score:
    """Return the mean with its interval."""
    return bootstrap(lambda drawn: {"mean": float(values[drawn].mean())}, len(values))["mean"]


class Completed:
    """A table, and a model for the words that it lacks."""

    def __init__(self, table: WordVectors, model: Embedder) -> None:
        self.table, self.model, self.dims = table, model, table.dims

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims)."""
        words = list(words)
        known = np.array([word in self.table.row_of for word in words])
        return np.where(known[:, None], Targets(self.table).embed(words), self.model.embed(words))


def word_pairs(sets: dict[str, list[Pair]], kept: WordVectors, models: dict[str, Embedder]) -> Iterable[str]:
    """Yield rho of the similarity sets, how far the default is above each model, and how near known words come out."""
    known = sorted({word.lower() for pairs in sets.values() for pair in pairs for word in pair[:2]} & set(kept.row_of))
    own = Targets(kept).embed(known)
    found = {
        label: [
            [similarity(one, pairs, name, keep_cosines=True, repeats=1) for name, pairs in sets.items()]
            for one in (model, Completed(kept, model))
        ]
        for label, model in models.items()
    }
    body = []
    for label, both in found.items():
        values = [[one.scores["spearman"].value for one in results] for results in both]
        cells = [" / ".join(f"{value:.1f}" for value in pair) for pair in zip(*values, strict=True)]
        gaps = [
            tasks.mean_gap([tasks.Cosines.of(one) for one in ours], [tasks.Cosines.of(one) for one in theirs])
            for ours, theirs in zip(found["default"], both, strict=True)
        ]
        means = (f"{np.mean(value):.1f}" for value in values)
        near = cosines(models[label].embed(known), own).mean()
        body.append([label, *cells, *means, *(cell(gap, 1) for gap in gaps), f"{near:.3f}"])
    head = ["model", *sets, "mean, composed", "mean, with the table", *GAPS, f"cosine of {len(known):,} training words"]
    return table_lines(head, body)


def misspellings(
    sets: dict[str, list[tuple[str, str]]],
    kept: WordVectors,
    models: dict[str, Embedder],
    mean: npt.NDArray[np.float32],
) -> Iterable[str]:
    """Yield how near the vectors of misspellings are to the right words."""
    body = []
    for label, model in models.items():
        line = [label]
        for both in sets.values():
            rows = np.array([kept.row_of[right] for _, right in both])
            composed = model.embed([wrong for wrong, _ in both])
            near = cosines(without(composed, mean), without(kept.vectors[rows], mean))
            first = true_ranks(composed, kept.vectors, rows) < 2  # ties share the middle
            line.append(f"{cell(mean_of(near), 3)}; {100 * first.mean():.1f} %")
        body.append(line)
    return table_lines(["model", *(f"{kind} ({len(both):,})" for kind, both in sets.items())], body)
