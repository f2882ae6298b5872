"""LOVE (Chen et al. 2022) beside KVQ-FH, BoS, PBoS and the default: one table, the same training words for all.

LOVE and KVQ-FH need a GPU. `python -m experiments jobs love` writes the job; where there is a GPU,
`experiments/love_train.py` (with a checkout of tigerchen52/LOVE) and `experiments/kvq.py` make the vectors of all words
that are asked for. `python -m experiments love` trains the others and prints the tables: hidden words, word pairs,
typos, cost.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import pbos
from experiments import data, love_data, tasks, typos
from experiments.baselines import NearestSpelling
from experiments.contexts import without
from experiments.report import cell, table_lines
from pbos.evaluation.datasets import Pair
from pbos.evaluation.results import Embedder, Score, bootstrap
from pbos.evaluation.words import Targets, similarity, true_ranks
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import FloatMatrix, cosines, unit_rows

TABLE, SIZE, HIDDEN = "glove-6b-100d", 100_000, 5_000
BIRKBECK, TYPOS = 5_000, 2_500  # misspellings of people, and words that get a typo of each kind
FOLDER = Path(__file__).parent / ".cache" / "love"  # job.npz; in `made`, what comes from where there is a GPU
NAMES = {"love": "LOVE", "kvq": "KVQ-FH", "bos": "BoS", "pbos": "PBoS", "default": "default", "nearest": "nearest"}
THIRDS = ("frequent", "middle", "rare")
GAPS = ("default above it, composed", "default above it, with the table")
TIMED = 2_000  # words whose processor time is taken


class Questions(NamedTuple):
    """What the models are asked.

    Attributes:
        split: The words to train on, and the hidden ones.
        pairs: The similarity sets.
        typos: Misspellings of training words: "Birkbeck", and by what is done to a word.
    """

    split: tasks.Split
    pairs: dict[str, list[Pair]]
    typos: dict[str, list[tuple[str, str]]]

    @property
    def words(self) -> list[str]:
        """All words that are asked for."""
        paired = {word.lower() for pairs in self.pairs.values() for pair in pairs for word in pair[:2]}
        misspelled = {wrong for both in self.typos.values() for wrong, _ in both}
        return sorted({*self.split.hidden.words, *paired, *misspelled})


def questions(folder: Path) -> Questions:
    """Read the table, hide words, and misspell others; `folder` has the data that is not fetched."""
    table = data.vectors(TABLE, folder, limit=SIZE)
    split = tasks.hide(table, HIDDEN)
    random = np.random.default_rng(0)
    known = split.kept.row_of
    people = [both for both in typos.birkbeck() if both[1] in known and both[0] not in table.row_of]
    chosen = np.sort(random.choice(len(people), min(BIRKBECK, len(people)), replace=False))
    long = [word for word in split.kept.words if len(word) >= typos.SHORTEST]
    words = [long[row] for row in np.sort(random.choice(len(long), TYPOS, replace=False))]
    made = {kind: [(misspell(word, random), word) for word in words] for kind, misspell in typos.KINDS.items()}
    wrong = {"Birkbeck": [people[at] for at in chosen]} | {
        kind: [both for both in typed if both[0] not in table.row_of] for kind, typed in made.items()
    }
    return Questions(split, {name: data.pairs(name, folder) for name in data.ENGLISH}, wrong)


def job(folder: Path) -> Iterator[Path]:
    """Write what LOVE and KVQ-FH need to be trained elsewhere, and the two files that go into `data` of LOVE."""
    from experiments import neural  # slow to import

    asked = questions(folder)
    kept = asked.split.kept
    neural.write_job(FOLDER / "job.npz", kept.words, kept.vectors, asked.split.ranks, asked.words)
    yield FOLDER / "job.npz"
    for name, lines in (
        ("synonym.txt", love_data.synonyms(kept.words, set(asked.split.hidden.words), data.published("wordnet"))),
        ("hard_neg_samples.txt", love_data.misleading(kept.words, kept.vectors)),
    ):
        with (FOLDER / name).open("w", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in lines)
        yield FOLDER / name


# Scores ---------------------------------------------------------------------------------------------------------------


class Rival(NamedTuple):
    """A trained model, and what it costs.

    Attributes:
        model: It.
        training: Processor seconds of training, or what the other machine says.
        megabytes: Of its files.
        word: Processor microseconds for a word, with one thread.
    """

    model: Embedder
    training: str
    megabytes: float
    word: float | None


def make(folder: Path) -> Iterator[str]:
    """Yield the tables in Markdown; `folder` has the data that is not fetched."""
    asked = questions(folder)
    rivals = {label: rival(name, asked) for name, label in NAMES.items()}
    mean = unit_rows(asked.split.kept.vectors.mean(axis=0, keepdims=True))[0]
    yield f"{len(asked.split.kept):,} training words of {TABLE}, {len(asked.split.hidden):,} hidden words.\n"
    yield from hidden_table(asked.split, rivals, mean)
    yield "\nWord pairs, rho x 100: all words composed / the table's own vectors for its words.\n"
    yield from pairs_table(asked, rivals)
    yield "\nTypos: cosine to the right word's own vector without the mean direction; how often it is nearest.\n"
    yield from typos_table(asked, rivals, mean)
    yield "\nCost.\n"
    body = [
        [label, one.training, f"{one.megabytes:.1f}", "–" if one.word is None else f"{one.word:.1f}"]
        for label, one in rivals.items()
    ]
    yield from table_lines(["model", "training", "MB on disk", "µs of a processor per word"], body)


def rival(name: str, asked: Questions) -> Rival:
    """Train a model, or read what it made elsewhere."""
    kept = asked.split.kept
    if name in ("love", "kvq"):
        return from_elsewhere(name, kept, asked.words)
    if name == "nearest":
        return Rival(NearestSpelling(kept), "–", kept.vectors.nbytes / 1e6, None)
    pbos.train(
        WordVectors(kept.words[:2000], kept.vectors[:2000]), preset=name, progress=False
    )  # its kernels are compiled now
    start = time.process_time()
    model = pbos.train(kept, preset=name, progress=None)
    training = f"{time.process_time() - start:.1f} s"
    with tempfile.TemporaryDirectory() as temporary:
        model.save(Path(temporary, "model"))
        size = sum(file.stat().st_size for file in Path(temporary).rglob("*") if file.is_file())
    return Rival(model, training, size / 1e6, microseconds(lambda words: model.embed(words, threads=1), asked.words))


def from_elsewhere(name: str, kept: WordVectors, words: list[str]) -> Rival:
    """Read what LOVE or KVQ-FH made where there is a GPU."""
    from experiments import kvq, neural  # slow to import

    made = FOLDER / "made"
    if not (made / f"{name}.npz").exists():
        raise data.MissingData(
            f"{made}/{name}.npz does not exist; it is made where there is a GPU, see CONTRIBUTING.md"
        )
    table = Targets(WordVectors(*neural.read_vectors(made / f"{name}.npz")))
    report = json.loads((made / f"{name}.json").read_text(encoding="utf-8"))
    if name == "love":
        size, word = (made / "love.pt").stat().st_size / 1e6, report["microseconds per word"]
        spent = report["loader processor seconds"] + report["main process processor seconds"]
    else:
        fresh = kvq.KVQ.train(kept.words, kept.vectors, epochs=0)  # as large and as fast as a trained one
        size = (fresh.tables.nbytes + sum(len(ngram.encode()) + 1 for ngram in fresh.known)) / 1e6
        word, spent = microseconds(fresh.embed, words), report["user"] + report["system"]
    return Rival(table, f"{report['seconds']:.0f} s of a GPU, {spent:.0f} s of processors", size, word)


def microseconds(embed: Callable[[list[str]], Any], words: list[str]) -> float:
    """Return the processor time for a word."""
    embed(words[:TIMED])
    start = time.process_time()
    embed(words[:TIMED])
    return (time.process_time() - start) / TIMED * 1e6


def hidden_table(split: tasks.Split, rivals: dict[str, Rival], mean: npt.NDArray[np.float32]) -> Iterable[str]:
    """Yield the cosines of hidden words, all and by thirds of ranks, with and without the mean direction."""
    true = split.hidden.vectors
    third = np.minimum(split.places * 3, 2).astype(int)
    near = {}
    for label, one in rivals.items():
        composed = one.model.embed(split.hidden.words)
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


def pairs_table(asked: Questions, rivals: dict[str, Rival]) -> Iterable[str]:
    """Yield Spearman's rho of the similarity sets, and the mean gap of the default to each."""
    found = {
        label: [
            [similarity(model, pairs, name, keep_cosines=True, repeats=1) for name, pairs in asked.pairs.items()]
            for model in (one.model, Completed(asked.split.kept, one.model))
        ]
        for label, one in rivals.items()
    }
    body = []
    for label, both in found.items():
        values = [[one.scores["spearman"].value for one in results] for results in both]
        cells = [" / ".join(f"{value:.1f}" for value in pair) for pair in zip(*values, strict=True)]
        gaps = [
            tasks.mean_gap([tasks.Cosines.of(one) for one in ours], [tasks.Cosines.of(one) for one in theirs])
            for ours, theirs in zip(found["default"], both, strict=True)
        ]
        body.append([label, *cells, *(f"{np.mean(value):.1f}" for value in values), *(cell(gap, 1) for gap in gaps)])
    return table_lines(["model", *asked.pairs, "mean, composed", "mean, with the table", *GAPS], body)


def typos_table(asked: Questions, rivals: dict[str, Rival], mean: npt.NDArray[np.float32]) -> Iterable[str]:
    """Yield how near the vectors of misspellings are to the right words."""
    kept = asked.split.kept
    body = []
    for label, one in rivals.items():
        line = [label]
        for both in asked.typos.values():
            rows = np.array([kept.row_of[right] for _, right in both])
            composed = one.model.embed([wrong for wrong, _ in both])
            near = cosines(without(composed, mean), without(kept.vectors[rows], mean))
            first = true_ranks(composed, kept.vectors, rows) < 2  # ties share the middle
            line.append(f"{cell(mean_of(near), 3)}; {100 * first.mean():.1f} %")
        body.append(line)
    return table_lines(["model", *(f"{kind} ({len(both):,})" for kind, both in asked.typos.items())], body)
