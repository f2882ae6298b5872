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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pbos
from experiments import data, love_data, love_tables, tasks, typos
from experiments.baselines import NearestSpelling
from experiments.report import table_lines
from pbos.evaluation.datasets import Pair
from pbos.evaluation.results import Embedder
from pbos.evaluation.words import Targets
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import unit_rows

TABLE, SIZE, HIDDEN = "glove-6b-100d", 100_000, 5_000
BIRKBECK, TYPOS = 5_000, 2_500  # misspellings of people, and words that get a typo of each kind
FOLDER = Path(__file__).parent / ".cache" / "love"  # job.npz; in `made`, what comes from where there is a GPU
NAMES = {"love": "LOVE", "kvq": "KVQ-FH", "bos": "BoS", "pbos": "PBoS", "default": "default"}
NAMES |= {"small": "small default", "nearest": "nearest"}
SMALL: dict[str, Any] = {"dtype": "int8", "min_vector_words": 5}  # the default compressed to about the size of LOVE
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
    models = {label: one.model for label, one in rivals.items()}
    kept = asked.split.kept
    mean = unit_rows(kept.vectors.mean(axis=0, keepdims=True))[0]
    yield f"{len(kept):,} training words of {TABLE}, {len(asked.split.hidden):,} hidden words.\n"
    yield from love_tables.hidden_words(asked.split, models, mean)
    yield "\nWord pairs, rho x 100: all words composed / the table's own vectors for its words.\n"
    yield from love_tables.word_pairs(asked.pairs, kept, models)
    yield "\nTypos: cosine to the right word's own vector without the mean direction; how often it is nearest.\n"
    yield from love_tables.misspellings(asked.typos, kept, models, mean)
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
    preset = "default" if name == "small" else name
    pbos.train(WordVectors(kept.words[:2000], kept.vectors[:2000]), preset=preset, progress=False)  # compiles
    start = time.process_time()
    model = pbos.train(kept, preset=preset, progress=None)
    training = f"{time.process_time() - start:.1f} s"
    if name == "small":
        model = model.compress(**SMALL)
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
