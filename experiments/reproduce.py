"""Computes the rows of the tables; everything computed once is kept in a cache."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pbos
from experiments import data as files
from experiments import tasks
from experiments.baselines import FastText, NearestSpelling, UnitLength
from experiments.hashing import train_hashed
from experiments.polyglot import read_polyglot
from experiments.rows import Row
from pbos.counts import WordCounts
from pbos.errors import InputError
from pbos.evaluation import datasets, words
from pbos.evaluation.results import Embedder, Result, Score
from pbos.evaluation.tagging import tagging
from pbos.files import open_bytes, write_whole
from pbos.model import Model
from pbos.settings import PRESETS
from pbos.vectors import WordVectors

LANGUAGES = (
    *("ar", "eu", "bg", "zh", "cs", "da", "en", "el", "he", "hi", "hu", "id"),
    *("it", "kk", "lv", "fa", "ro", "ru", "es", "sv", "ta", "tr", "vi"),
)
SIMILARITY = datasets.ENGLISH
ENGLISH = ("minilm-en", "googlenews-en-8k", "glove840b-en-10k")
HELDOUT = (*ENGLISH, *(f"selftrained-{language}" for language in sorted((*LANGUAGES, "de"))))
ABLATION = (*ENGLISH, *(f"selftrained-{language}" for language in ("de", "hu", "ru", "tr")))
SIZES = ("full", "180000", "100000", "50000", "12000", "3000")  # numbers of vectors
HIDDEN = 5000


class Runner:
    """Computes rows, from the data and from what the cache has.

    Attributes:
        data: The data folder.
        cache: The folder of trained models and results.
        originals: A file with the paper's own vectors, to use instead of the rows' targets.
        device: Where to train KVQ-FH: cpu or cuda.
    """

    def __init__(self, data: Path, cache: Path, *, originals: Path | None = None, device: str = "cpu") -> None:
        self.data = data
        self.cache = cache
        self.originals = originals
        self.device = device
        for folder in ("models", "results"):
            (cache / folder).mkdir(parents=True, exist_ok=True)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def run(self, row: Row, show: Callable[[str], None] = lambda line: None) -> list[Result]:
        """Compute a row, part by part; parts in the cache are not computed again."""
        for part, compute in self.parts(row):
            file = self.result_file(row, part)
            if not file.exists():
                show(f"{row.name} {part}".strip())
                found = [result.to_dict() for result in compute()]
                with write_whole(file) as stream:
                    stream.write(json.dumps(found, ensure_ascii=False, indent=1).encode())
        return self.cached(row)

    def cached(self, row: Row) -> list[Result]:
        """Return what the cache has of a row."""
        found = [self.result_file(row, part) for part, _ in self.parts(row)]
        return [result_of(item) for file in found if file.exists() for item in json.loads(file.read_text("utf-8"))]

    def result_file(self, row: Row, part: str) -> Path:
        """Return the cache's file for a part of a row."""
        return self.cache / "results" / f"{row.name}{'-' + part if part else ''}-{self.key(row, part)}.json"

    def key(self, row: Row, part: str) -> str:
        """Return a hash of all that a result depends on: settings, the content of the targets, the version of pbos."""
        settings = [row.model, row.counts, row.settings, row.limit, row.hashed, row.c, part, pbos.__version__]
        targets = row.targets or (part if part.startswith(("selftrained", *ENGLISH)) else "")
        if row.table in ("multilingual", "tagging"):
            targets = f"selftrained-{part}"
        return digest(json.dumps(settings), self.target_files(targets) if targets else [])

    def parts(self, row: Row) -> Iterator[tuple[str, Callable[[], list[Result]]]]:
        """Yield the parts of a row that are computed and cached on their own: languages, sizes, or the whole row."""
        names = {
            "multilingual": tuple(datasets.MULTILINGUAL),
            "tagging": LANGUAGES,
            "heldout": HELDOUT,
            "ablation": ABLATION,
            "size": SIZES[row.hashed :],
        }.get(row.table)
        compute = getattr(self, "heldout" if row.table == "ablation" else row.table)
        if names is None:
            yield "", lambda: compute(row)
        else:
            for name in names:
                yield name, lambda name=name: compute(row, name)  # type: ignore[misc]

    # -- tables --------------------------------------------------------------------------------------------------------

    def segmentation(self, row: Row) -> list[Result]:
        """Table 1: segmentations and weights from counts."""
        return [tasks.segmentation(self.segmenter(row))]

    def affix(self, row: Row) -> list[Result]:
        """Affix prediction, by weights or at random."""
        gold = datasets.read_affixes(self.data)
        return [tasks.affix_random(gold) if row.model == "random" else words.affix(self.segmenter(row), gold)]

    def similarity(self, row: Row) -> list[Result]:
        """The four English benchmarks."""
        model = self.embedder(row, row.targets)
        return [words.similarity(model, datasets.pairs(name, self.data), name) for name in SIMILARITY]

    def unseen(self, row: Row) -> list[Result]:
        """The four English benchmarks, with all their words held out from training."""
        benchmarks = {name: datasets.pairs(name, self.data) for name in SIMILARITY}
        asked = {word.lower() for pairs in benchmarks.values() for pair in pairs for word in pair[:2]}
        given = self.vectors(row, row.targets)
        kept = [at for at, word in enumerate(given.words) if word.lower() not in asked]
        model = self.make(row, WordVectors([given.words[at] for at in kept], given.vectors[kept]), row.targets)
        return [words.similarity(model, pairs, name, keep_cosines=True) for name, pairs in benchmarks.items()]

    def multilingual(self, row: Row, language: str) -> list[Result]:
        """Four benchmarks in one language."""
        model = self.embedder(row, f"selftrained-{language}")
        names = [f"{kind}-{language}" for kind in datasets.MULTILINGUAL_KINDS]
        return [words.similarity(model, datasets.pairs(name, self.data), name) for name in names]

    def tagging(self, row: Row, language: str) -> list[Result]:
        """POS tagging in one language."""
        targets = f"selftrained-{language}"
        known = set(self.vectors(row, targets).words)
        train, test = (datasets.sentences(language, part, self.data) for part in ("train", "test"))
        return [tagging(self.embedder(row, targets), train, test, language=language, c=row.c, known=known)]

    def heldout(self, row: Row, targets: str) -> list[Result]:
        """Held-out words: cosine and rank of their true vectors."""
        vectors = self.vectors(row, targets)
        hidden = min(HIDDEN, len(vectors) // 5)
        return [words.heldout(lambda kept: self.make(row, kept, targets), vectors, hidden, dataset=targets)]

    def size(self, row: Row, size: str) -> list[Result]:
        """Held-out words again, by an int8 model with a given number of vectors; and its size in MB."""
        made: list[Model] = []

        def train(kept: WordVectors) -> Model:
            counts = self.counts(row, row.targets)
            if row.hashed:
                model = train_hashed(kept, counts, int(size), preset=row.model, **row.settings)
            else:
                largest = None if size == "full" else int(size)
                model = pbos.train(kept, counts, preset=row.model, max_vectors=largest, progress=None, **row.settings)
            made.append(model.compress(dtype="int8"))
            return made[0]

        vectors = self.vectors(row, row.targets)
        result = words.heldout(train, vectors, min(HIDDEN, len(vectors) // 5), dataset=size)
        sizes, n_vectors = tasks.size_of(made[0]), len(made[0].subword_vectors)
        as_float32 = sizes["bytes"] + 3 * sizes["parameters"] - 4 * n_vectors  # int8 has a scale for each vector
        numbers = {"MB": sizes["bytes"] / 1e6, "MB as float32": as_float32 / 1e6, "vectors": n_vectors}
        return [replace(result, scores={**result.scores, **{name: Score(float(n)) for name, n in numbers.items()}})]

    def speed(self, row: Row) -> list[Result]:
        """Time per word and size of a trained model."""
        pairs = datasets.pairs("RareWord", self.data)
        return [tasks.speed(self.embedder(row, row.targets), [word for pair in pairs for word in pair[:2]])]

    # -- models --------------------------------------------------------------------------------------------------------

    def segmenter(self, row: Row) -> pbos.Segmenter:
        """Return the segmenter made from the paper's counts."""
        return pbos.Segmenter.from_counts(files.paper_counts(self.data), **row.settings)

    def embedder(self, row: Row, targets: str) -> Embedder:
        """Return a row's model, trained on some targets; pbos models are kept in the cache."""
        if row.model not in PRESETS:
            return self.make(row, self.vectors(row, targets), targets)
        place = self.model_folder(row, targets)
        if not place.exists():
            model = self.make(row, self.vectors(row, targets), targets)
            assert isinstance(model, Model)
            model.save(place)
        return pbos.load(place)

    def model_folder(self, row: Row, targets: str) -> Path:
        """Return the cache's folder for a trained model, named by all that it depends on."""
        settings = json.dumps([row.model, row.counts, row.settings, row.limit, pbos.__version__])
        return self.cache / "models" / f"{row.model}-{targets}-{digest(settings, self.target_files(targets))}"

    def losses(self, row: Row) -> list[float]:
        """Return the training losses by epoch of a row's model, if the cache has them."""
        place = self.model_folder(row, row.targets)
        if place.with_suffix(".losses.json").exists():
            return list(json.loads(place.with_suffix(".losses.json").read_text()))
        losses: list[float] = pbos.load(place).info["training"].get("losses", []) if place.exists() else []
        return losses

    def target_files(self, targets: str) -> list[Path]:
        """Return the files that target vectors come from."""
        return [self.originals] if self.originals else sorted((self.data / "vectors" / targets).iterdir())

    def vectors(self, row: Row, targets: str) -> WordVectors:
        """Return a row's target vectors: those of the data folder, or the paper's own."""
        if self.originals is None:
            return files.vectors(targets, self.data, limit=row.limit)
        with open_bytes(self.originals) as stream:
            is_pickle = stream.read(1) == b"\x80"
        given = read_polyglot(self.originals) if is_pickle else WordVectors.read(self.originals)
        if targets in ("minilm-en", "googlenews-en-8k"):  # they replace Google News, which the paper filters
            given = english_words(given)
        return WordVectors(given.words[: row.limit], given.vectors[: row.limit])

    def counts(self, row: Row, targets: str) -> WordCounts | None:
        """Return a row's word counts."""
        if row.model == "default":
            return None
        own = None if self.originals or row.counts == "unigram" else files.own_counts(targets, self.data)
        needed = row.counts == "unigram" or (row.counts == "any" and own is None)
        return files.paper_counts(self.data) if needed else own

    def make(self, row: Row, vectors: WordVectors, targets: str) -> Embedder:
        """Train a row's model on vectors."""
        if row.model in PRESETS:
            return pbos.train(vectors, self.counts(row, targets), preset=row.model, progress=None, **row.settings)
        if row.model == "targets":
            return words.Targets(vectors)
        if row.model == "nearest":
            return NearestSpelling(vectors)
        if row.model == "kvq":
            from experiments.kvq import KVQ  # slow to import

            model = KVQ.train(vectors.words, vectors.vectors, device=self.device)
            self.model_folder(row, targets).with_suffix(".losses.json").write_text(json.dumps(model.losses))
            return UnitLength(model)
        if row.model == "fasttext":
            return FastText.train(files.corpus(self.data), dims=vectors.dims, vocabulary=vectors.words)
        raise InputError(f"{row.name}: unknown model {row.model!r}")


def digest(text: str, files: list[Path]) -> str:
    """Return a short hash of a text and the content of files."""
    state = hashlib.sha256(text.encode())
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 24):
                state.update(block)
    return state.hexdigest()[:12]


def english_words(vectors: WordVectors) -> WordVectors:
    """Keep what the paper keeps of Google News: plain lower-case words of 2 to 19 letters."""
    kept = [row for row, word in enumerate(vectors.words) if is_english_word(word)]
    return WordVectors([vectors.words[row] for row in kept], vectors.vectors[kept])


def is_english_word(word: str) -> bool:
    """Return whether the paper keeps a word.

    >>> [word for word in ["café", "New_York", "a", "U.S.", "naive"] if is_english_word(word)]
    ['café', 'naive']
    """
    plain = unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode()
    return 2 <= len(plain) <= 19 and plain.islower() and not any(mark in word for mark in " _./")


def result_of(item: dict[str, Any]) -> Result:
    """Undo `Result.to_dict`."""
    scores = {name: Score(**score) for name, score in item["scores"].items()}
    return Result(item["task"], item["dataset"], scores, item["details"])
