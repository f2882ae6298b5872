"""The paper's tables, row by row: a row is a short settings file in `rows/`; what was computed once is kept."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import pbos
from pbos.counts import WordCounts
from pbos.errors import InputError
from pbos.evaluation import datasets, words
from pbos.evaluation.baselines import Directions, NearestSpelling, Targets
from pbos.evaluation.hashing import train_hashed
from pbos.evaluation.polyglot import read_polyglot
from pbos.evaluation.results import Embedder, Result, Score
from pbos.evaluation.tagging import tagging
from pbos.files import open_bytes, write_whole
from pbos.model import Model
from pbos.training import PRESETS
from pbos.vectors import WordVectors

ROWS = Path(__file__).parent / "rows"
TABLES = (
    *("segmentation", "affix", "similarity", "unseen", "multilingual"),
    *("tagging", "heldout", "ablation", "size", "speed"),
)
LANGUAGES = (
    *("ar", "eu", "bg", "zh", "cs", "da", "en", "el", "he", "hi", "hu", "id"),
    *("it", "kk", "lv", "fa", "ro", "ru", "es", "sv", "ta", "tr", "vi"),
)
SIMILARITY = ("WS353", "RareWord", "Card-660", "SimLex999")
ENGLISH = ("minilm-en", "googlenews-en-8k", "glove840b-en-10k")
HELDOUT = (*ENGLISH, *(f"selftrained-{language}" for language in sorted((*LANGUAGES, "de"))))
ABLATION = (*ENGLISH, *(f"selftrained-{language}" for language in ("de", "hu", "ru", "tr")))
SIZES = ("full", "180000", "100000", "50000", "12000", "3000")  # numbers of vectors
HIDDEN = 5000


@dataclass(frozen=True, eq=False)  # two rows are never the same; so they can be keys
class Row:
    """One row of a table: a model, what it is trained on, and what the paper reports for it.

    Attributes:
        name: The settings file's name without its ending.
        table: The table it belongs to.
        label: The model's name in the table.
        model: targets, nearest, default, bos, pbos, pbos-n, kvq, fasttext, segmenter or random.
        targets: The target vectors; empty where each part (a language, a set of vectors) has its own.
        counts: "unigram" for the paper's list, "own" for the counts beside the targets, "any" for the latter, or the
            former where there are none. The model "default" uses no counts.
        settings: Settings of the preset to change.
        limit: Use the first so many target words only.
        hashed: For the table of sizes: put subwords into buckets by a hash instead of leaving some out.
        c: The logistic regression's C.
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
    """Read the settings of a table's rows, or of all."""
    if table != "all" and table not in TABLES:
        raise InputError(f"unknown table {table!r}; choose one of: {', '.join(TABLES)}, all")
    found = [Row(file.stem, **json.loads(file.read_text(encoding="utf-8"))) for file in sorted(ROWS.glob("*.json"))]
    order = {name: at for at, name in enumerate(TABLES)}
    return sorted((row for row in found if table in ("all", row.table)), key=lambda row: order[row.table])


class Workshop:
    """Where rows are computed: the data at hand, the models and results kept from earlier.

    Attributes:
        data: The data folder, or None to look where `datasets` looks.
        cache: Where trained models and results are kept.
        originals: A file with the paper's own vectors, to be used instead of the row's targets.
        device: Where KVQ-FH is trained: cpu or cuda.
        threads: How many threads to use.
    """

    def __init__(
        self,
        data: Path | None,
        cache: Path,
        *,
        originals: Path | None = None,
        device: str | None = None,
        threads: int | None = None,
    ) -> None:
        self.data = data
        self.cache = cache
        self.originals = originals
        self.device = device
        self.threads = threads
        for folder in ("models", "results"):
            (cache / folder).mkdir(parents=True, exist_ok=True)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def run(self, row: Row, show: Callable[[str], None] = lambda line: None) -> list[Result]:
        """Compute a row, part by part; parts computed before are taken from the cache."""
        results = []
        for part, compute in self.parts(row):
            file = self.result_file(row, part)
            if not file.exists():
                show(f"{row.name} {part}".strip())
                found = [result.to_dict() for result in compute()]
                with write_whole(file) as stream:
                    stream.write(json.dumps(found, ensure_ascii=False, indent=1).encode())
            results += [result_of(item) for item in json.loads(file.read_text(encoding="utf-8"))]
        return results

    def kept(self, row: Row) -> list[Result]:
        """Return what is already computed of a row."""
        files = [self.result_file(row, part) for part, _ in self.parts(row)]
        return [result_of(item) for file in files if file.exists() for item in json.loads(file.read_text("utf-8"))]

    def result_file(self, row: Row, part: str) -> Path:
        """Name the place of a part's results in the cache."""
        return self.cache / "results" / f"{row.name}{'-' + part if part else ''}-{self.key(row, part)}.json"

    def key(self, row: Row, part: str) -> str:
        """Name a result by all it depends on: the row's settings, the targets' content, the version of pbos."""
        settings = [row.model, row.counts, row.settings, row.limit, row.c, part, pbos.__version__]
        target = row.targets or (part if "-" in part else f"selftrained-{part}" if part else "")
        return digest(json.dumps(settings + ([row.hashed] if row.hashed else [])), self.files(target) if target else [])

    def parts(self, row: Row) -> Iterator[tuple[str, Callable[[], list[Result]]]]:
        """Yield the parts of a row that are computed and kept on their own: languages, or the whole."""
        if row.table == "multilingual":
            for language in ("en", "de", "it", "ru"):
                yield language, lambda language=language: self.multilingual(row, language)  # type: ignore[misc]
        elif row.table == "tagging":
            for language in LANGUAGES:
                yield language, lambda language=language: self.tagging(row, language)  # type: ignore[misc]
        elif row.table in ("heldout", "ablation"):
            for targets in HELDOUT if row.table == "heldout" else ABLATION:
                yield targets, lambda targets=targets: self.heldout(row, targets)  # type: ignore[misc]
        elif row.table == "size":
            for size in SIZES[row.hashed :]:
                yield size, lambda size=size: self.size(row, size)  # type: ignore[misc]
        else:
            yield "", lambda: getattr(self, row.table)(row)

    def segmentation(self, row: Row) -> list[Result]:
        """Table 1: segmentations and weights from counts."""
        return [words.segmentation(self.segmenter(**row.settings))]

    def affix(self, row: Row) -> list[Result]:
        """Affix prediction, by weights or by chance."""
        gold = datasets.read_affixes(self.data)
        if row.model == "random":
            return [words.affix_random(gold)]
        return [words.affix(self.segmenter(**row.settings), gold)]

    def similarity(self, row: Row) -> list[Result]:
        """The four English benchmarks."""
        embedder = self.embedder(row, row.targets)
        return [words.similarity(embedder, datasets.pairs(name, self.data), name) for name in SIMILARITY]

    def unseen(self, row: Row) -> list[Result]:
        """The four English benchmarks, by a model that has seen none of their words."""
        benchmarks = {name: datasets.pairs(name, self.data) for name in SIMILARITY}
        asked = {word.lower() for pairs in benchmarks.values() for pair in pairs for word in pair[:2]}
        given = self.vectors(row, row.targets)
        kept = [at for at, word in enumerate(given.words) if word.lower() not in asked]
        model = self.make(row, WordVectors([given.words[at] for at in kept], given.vectors[kept]), row.targets)
        return [words.similarity(model, pairs, name, keep_cosines=True) for name, pairs in benchmarks.items()]

    def multilingual(self, row: Row, language: str) -> list[Result]:
        """Four benchmarks in one language."""
        return words.multilingual(self.embedder(row, f"selftrained-{language}"), language, self.data)

    def tagging(self, row: Row, language: str) -> list[Result]:
        """POS tagging in one language."""
        targets = f"selftrained-{language}"
        known = set(self.vectors(row, targets).words)
        train, test = (datasets.sentences(language, part, self.data) for part in ("train", "test"))
        return [tagging(self.embedder(row, targets), train, test, language=language, c=row.c, known=known)]

    def heldout(self, row: Row, targets: str) -> list[Result]:
        """Hidden words: cosine and rank of their true vectors."""
        vectors = self.vectors(row, targets)
        hidden = min(HIDDEN, len(vectors) // 5)
        return [words.heldout(lambda kept: self.make(row, kept, targets), vectors, hidden, dataset=targets)]

    def size(self, row: Row, size: str) -> list[Result]:
        """Hidden words again, by a model of so many vectors held as int8; and how large it is."""
        counts = None if row.model == "default" else self.counts(row, row.targets)
        settings = {"preset": row.model, "threads": self.threads, **row.settings}
        made: list[Model] = []

        def train(kept: WordVectors) -> Model:
            if row.hashed:
                model = train_hashed(kept, counts, int(size), **settings)
            else:
                model = pbos.train(kept, counts, max_vectors=None if size == "full" else int(size), **settings)
            made.append(model.compress(dtype="int8"))
            return made[0]

        vectors = self.vectors(row, row.targets)
        result = words.heldout(train, vectors, min(HIDDEN, len(vectors) // 5), dataset=size)
        sizes = words.size_of(made[0])
        exact = sizes["bytes"] + 3 * sizes["parameters"] - 4 * len(made[0].vectors)  # as float32, without scales
        numbers = {"MB": sizes["bytes"] / 1e6, "MB as float32": exact / 1e6, "vectors": len(made[0].vectors)}
        return [replace(result, scores={**result.scores, **{name: Score(float(n)) for name, n in numbers.items()}})]

    def speed(self, row: Row) -> list[Result]:
        """Time and size of a trained model."""
        pairs = datasets.pairs("RareWord", self.data)
        return [words.speed(self.embedder(row, row.targets), [word for pair in pairs for word in pair[:2]])]

    # -- models --------------------------------------------------------------------------------------------------------

    def segmenter(self, **settings: Any) -> pbos.Segmenter:
        """Return the segmenter of the paper's counts."""
        return pbos.Segmenter.from_counts(datasets.counts(self.data), **settings)

    def embedder(self, row: Row, targets: str) -> Embedder:
        """Return a row's model, trained on some targets; from the cache if it was trained before."""
        if row.model in ("targets", "nearest"):
            return self.make(row, self.vectors(row, targets), targets)
        place = self.place(row, targets)
        if row.model in PRESETS:
            if not place.exists():
                model = self.make(row, self.vectors(row, targets), targets)
                assert isinstance(model, Model)
                model.save(place)
            return pbos.load(place)
        if place.with_suffix(".npz").exists():  # the vectors of the words in question, computed on another machine
            return Directions(Targets(WordVectors.read(place.with_suffix(".npz"))))
        return self.make(row, self.vectors(row, targets), targets)

    def place(self, row: Row, targets: str) -> Path:
        """Name the place of a trained model in the cache by all it depends on."""
        settings = json.dumps([row.model, row.counts, row.settings, row.limit, pbos.__version__])
        return self.cache / "models" / f"{row.model}-{targets}-{digest(settings, self.files(targets))}"

    def losses(self, row: Row) -> list[float]:
        """Return the loss of each epoch of a row's model, if it is in the cache and tells."""
        place = self.place(row, row.targets)
        if place.with_suffix(".npz").exists():
            with np.load(place.with_suffix(".npz")) as content:
                return content["losses"].tolist() if "losses" in content else []
        losses: list[float] = pbos.load(place).info["training"].get("losses", []) if place.exists() else []
        return losses

    def files(self, targets: str) -> list[Path]:
        """Return the files that target vectors come from."""
        return [self.originals] if self.originals else sorted(datasets.vectors_folder(targets, self.data).iterdir())

    def vectors(self, row: Row, targets: str) -> WordVectors:
        """Return a row's target vectors: those at hand, or the paper's own."""
        if self.originals is None:
            return datasets.vectors(targets, self.data, limit=row.limit)
        with open_bytes(self.originals) as stream:
            is_pickle = stream.read(1) == b"\x80"
        given = read_polyglot(self.originals) if is_pickle else WordVectors.read(self.originals)
        if targets in ("minilm-en", "googlenews-en-8k"):  # these stand in for Google News, which the paper filters
            given = english_words(given)
        return WordVectors(given.words[: row.limit], given.vectors[: row.limit])

    def counts(self, row: Row, targets: str) -> WordCounts | None:
        """Return the word counts a row asks for."""
        own = None if self.originals or row.counts == "unigram" else datasets.own_counts(targets, self.data)
        needed = row.counts == "unigram" or (row.counts == "any" and own is None)
        return datasets.counts(self.data) if needed else own

    def make(self, row: Row, vectors: WordVectors, targets: str) -> Embedder:
        """Train a row's model on vectors."""
        if row.model == "targets":
            return Targets(vectors)
        if row.model == "nearest":
            return NearestSpelling(vectors)
        if row.model in PRESETS:
            counts = None if row.model == "default" else self.counts(row, targets)
            return pbos.train(vectors, counts, preset=row.model, threads=self.threads, progress=None, **row.settings)
        if row.model == "kvq":
            from pbos.evaluation.kvq import KVQ

            return Directions(KVQ.train(vectors.words, vectors.vectors, device=self.device or "cpu"))
        if row.model == "fasttext":
            from pbos.evaluation.baselines import FastText

            return FastText.train(datasets.corpus(self.data), dims=vectors.dims, vocabulary=vectors.words)
        raise InputError(f"{row.name}: unknown model {row.model!r}")


def digest(text: str, files: list[Path]) -> str:
    """Return a short name for a text and the content of files."""
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
    """Tell whether the paper would keep a word.

    >>> [word for word in ["café", "New_York", "a", "U.S.", "naive"] if is_english_word(word)]
    ['café', 'naive']
    """
    plain = unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode()
    return 2 <= len(plain) <= 19 and plain.islower() and not any(mark in word for mark in " _./")


def result_of(item: dict[str, Any]) -> Result:
    """Undo `Result.to_dict`."""
    scores = {name: Score(**score) for name, score in item["scores"].items()}
    return Result(item["task"], item["dataset"], scores, item["details"])


def needed_words(targets: Iterable[str], data: Path | None) -> dict[str, list[str]]:
    """Return for each set of targets the words whose vectors the tables ask for, to compute them elsewhere."""
    needed = {}
    for name in targets:
        language = name.removeprefix("selftrained-") if name.startswith("selftrained-") else "en"
        found: set[str] = set()
        if language in LANGUAGES and name.startswith("selftrained-"):
            for part in ("train", "test"):
                found |= {word.lower() for sentence in datasets.sentences(language, part, data) for word, _ in sentence}
        if language == "en":
            for benchmark in SIMILARITY:
                found |= {word.lower() for pair in datasets.pairs(benchmark, data) for word in pair[:2]}
        if language in ("en", "de", "it", "ru"):
            for pairs in datasets.multilingual_pairs(language, data).values():
                found |= {word.lower() for pair in pairs for word in pair[:2]}
        needed[name] = sorted(found)
    return needed
