"""Computes the rows of the tables; everything computed once is kept in a cache."""

from __future__ import annotations

import ast
import hashlib
import json
import time
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pbos
from experiments import data as files
from experiments import datasets, tasks
from experiments.affixes import affix
from experiments.baselines import FastText, NearestSpelling
from experiments.hashing import train_hashed
from experiments.rows import Row
from experiments.tagging import tagging
from pbos.errors import InputError
from pbos.evaluation import words
from pbos.evaluation.datasets import Pair
from pbos.evaluation.results import MIN_ITEMS, Embedder, Result, Score
from pbos.files.atomic import write_whole
from pbos.model import Model
from pbos.settings import PRESETS
from pbos.tables.counts import WordCounts
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import unit_rows

LANGUAGES = (
    *("ar", "eu", "bg", "zh", "cs", "da", "en", "el", "he", "hi", "hu", "id"),
    *("it", "kk", "lv", "fa", "ro", "ru", "es", "sv", "ta", "tr", "vi"),
)
SIMILARITY = datasets.ENGLISH
ENGLISH = ("minilm-en", "googlenews-en-8k", "glove840b-en-10k")
HELDOUT = (*ENGLISH, *(f"selftrained-{language}" for language in sorted((*LANGUAGES, "de"))))
ABLATION = (*ENGLISH, *(f"selftrained-{language}" for language in ("de", "hu", "ru", "tr")))
PUBLISHED = {  # the tables with hidden words, and how many words of each
    "glove-6b-100d": 200_000,
    "glove-6b-50d": 200_000,
    "googlenews-26k": None,
    "navec-hudlit": 200_000,
    "zh-wikipedia": None,
    "fr-spacy": None,
}
SIZES = ("full", "180000", "100000", "50000", "12000", "3000")  # numbers of vectors
HIDDEN = 5000
HIDDEN_PUBLISHED = 4000
NEURAL = ("cnn", "bilstm", "transformer")
ELSEWHERE = Path(__file__).parent / ".cache"  # what was trained on another machine: folders neural and kvq
TASKS = ("affixes.py", "data.py", "datasets.py", "tagging.py", "tasks.py")  # what all results depend on


class Runner:
    """Computes rows, from the data and from what the cache has.

    Attributes:
        data: The data folder.
        cache: The folder of trained models and results.
        originals: A file or folder with the paper's own vectors, to use instead of the rows' targets.
    """

    def __init__(self, data: Path, cache: Path, *, originals: Path | None = None) -> None:
        self.data = data
        self.cache = cache
        self.originals = originals
        for folder in ("models", "results"):
            (cache / folder).mkdir(parents=True, exist_ok=True)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def run(self, row: Row, show: Callable[[str], None] = lambda line: None) -> list[Result]:
        """Compute a row, part by part; parts that this code has computed before are not computed again."""
        for part, compute in self.parts(row):
            file = self.result_file(row, part)
            if self.stored(row, part).get("code") != code_of(row.model):
                show(f"{row.name} {part}".strip())
                start = time.perf_counter()
                results = [result.to_dict() for result in compute()]
                seconds = round(time.perf_counter() - start, 1)
                content = {"code": code_of(row.model), "seconds": seconds, "results": results}
                with write_whole(file) as stream:
                    stream.write(json.dumps(content, ensure_ascii=False, indent=1).encode())
        return self.cached(row)

    def cached(self, row: Row) -> list[Result]:
        """Return what the cache has of a row, by this code or an earlier one."""
        found = [self.stored(row, part) for part, _ in self.parts(row)]
        return [result_of(item) for content in found for item in content.get("results", [])]

    def is_current(self, row: Row) -> bool:
        """Return whether all that the cache has of a row was computed by this code."""
        found = [self.stored(row, part) for part, _ in self.parts(row)]
        return all(content["code"] == code_of(row.model) for content in found if content)

    def seconds(self, row: Row) -> float:
        """Return how long it took to compute what the cache has of a row."""
        return float(sum(self.stored(row, part).get("seconds", 0) for part, _ in self.parts(row)))

    def stored(self, row: Row, part: str) -> dict[str, Any]:
        """Return the cache's entry for a part of a row; empty if there is none."""
        try:
            file = self.result_file(row, part)
        except files.MissingData:
            return {}
        found: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
        return found

    def result_file(self, row: Row, part: str) -> Path:
        """Return the cache's file for a part of a row."""
        return self.cache / "results" / f"{row.name}{'-' + part if part else ''}-{self.key(row, part)}.json"

    def key(self, row: Row, part: str) -> str:
        """Return a hash of the settings of a result and of its targets; the code is in the cache's entry."""
        settings = [row.model, row.counts, row.settings, row.limit, row.hashed, row.c, part]
        is_name = part in PUBLISHED or part.startswith(("selftrained", *ENGLISH))
        targets = row.targets or (part if is_name else "")
        if row.table in ("multilingual", "tagging"):
            targets = f"selftrained-{part}"
        made = self.made_elsewhere(row, targets)
        return digest(
            json.dumps(settings), [*([made] if made else []), *(self.target_files(targets) if targets else [])]
        )

    def parts(self, row: Row) -> Iterator[tuple[str, Callable[[], list[Result]]]]:
        """Yield the parts of a row that are computed and cached on their own: languages, sizes, or the whole row."""
        names = {
            "multilingual": tuple(datasets.MULTILINGUAL),
            "tagging": LANGUAGES,
            "heldout": HELDOUT,
            "ablation": ABLATION,
            "size": SIZES[row.hashed :],
            "real-heldout": tuple(PUBLISHED),
        }.get(row.table)
        compute = getattr(self, "heldout" if row.table == "ablation" else row.table.replace("-", "_"))
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
        return [tasks.affix_random(gold) if row.model == "random" else affix(self.segmenter(row), gold)]

    def similarity(self, row: Row) -> list[Result]:
        """The four English benchmarks."""
        model = self.embedder(row, row.targets)
        return [words.similarity(model, datasets.pairs(name, self.data), name) for name in SIMILARITY]

    def unseen(self, row: Row) -> list[Result]:
        """The four English benchmarks, with all their words held out from training."""
        benchmarks = {name: datasets.pairs(name, self.data) for name in SIMILARITY}
        asked = words_of(benchmarks.values())
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

    def real_similarity(self, row: Row) -> list[Result]:
        """The benchmarks of a published table's language: all pairs, and the pairs of words that the table has."""
        model, known = self.embedder(row, row.targets), self.vectors(row, row.targets).row_of
        results = []
        for name in files.RUSSIAN if row.targets == "navec-hudlit" else files.ENGLISH:
            pairs = files.pairs(name, self.data)
            both = [pair for pair in pairs if pair[0].lower() in known and pair[1].lower() in known]
            results += [
                words.similarity(model, chosen, label, keep_cosines=True)
                for label, chosen in ((name, pairs), (f"{name}, known words", both))
                if len(chosen) >= MIN_ITEMS
            ]
        return results

    def real_heldout(self, row: Row, targets: str) -> list[Result]:
        """Hidden words of a published table, frequent and rare ones apart; and how well the model knows its errors."""
        given = self.vectors(replace(row, limit=PUBLISHED[targets]), targets)
        split = tasks.hide(given, min(HIDDEN_PUBLISHED, len(given) // 5))
        return [tasks.hidden_words(self.make(row, split.kept, targets), split, targets)]

    def real_unseen(self, row: Row) -> list[Result]:
        """Hidden words again, and the English benchmarks with all their words left out of the training."""
        benchmarks, split = self.unseen_split(row)
        model = self.make(row, split.kept, row.targets)
        found = [words.similarity(model, pairs, name, keep_cosines=True) for name, pairs in benchmarks.items()]
        return [tasks.hidden_words(model, split, row.targets), *found]

    def unseen_split(self, row: Row) -> tuple[dict[str, list[Pair]], tasks.Split]:
        """Return the English benchmarks, and a row's vectors without their words and with some others hidden."""
        benchmarks = {name: files.pairs(name, self.data) for name in files.ENGLISH}
        given = self.vectors(row, row.targets)
        hidden = min(HIDDEN_PUBLISHED, len(given) // 5)
        return benchmarks, tasks.hide(given, hidden, dropped=words_of(benchmarks.values()))

    def neural_job(self, row: Row, file: Path) -> Path:
        """Write what neural models need to be trained elsewhere, on the words of a row."""
        from experiments import neural  # slow to import

        benchmarks, split = self.unseen_split(row)
        asked = [*split.hidden.words, *sorted(words_of(benchmarks.values()))]
        neural.write_job(file, split.kept.words, split.kept.vectors, split.ranks, asked)
        return file

    def kvq_jobs(self, rows: Iterable[Row], folder: Path) -> Iterator[Path]:
        """Write what KVQ-FH needs to be trained elsewhere, a file for each set of vectors; yield the files."""
        from experiments import neural

        asked: dict[tuple[str, int | None], set[str]] = {}
        row_of = {}
        for row in rows:
            for targets, needed in self.needed(row):
                asked.setdefault((targets, row.limit), set()).update(needed)
                row_of[targets, row.limit] = row
        for (targets, limit), needed in asked.items():
            vectors = self.vectors(row_of[targets, limit], targets)
            file = folder / kvq_name(row_of[targets, limit], targets)
            neural.write_job(file, vectors.words, vectors.vectors, np.arange(len(vectors)), sorted(needed))
            yield file

    def needed(self, row: Row) -> Iterator[tuple[str, set[str]]]:
        """Yield the targets of a row of word pairs or tagging, and the words that it embeds."""
        if row.table == "similarity":
            yield row.targets, words_of(datasets.pairs(name, self.data) for name in SIMILARITY)
        for part, _ in self.parts(row):
            if row.table == "multilingual":
                names = [f"{kind}-{part}" for kind in datasets.MULTILINGUAL_KINDS]
                yield f"selftrained-{part}", words_of(datasets.pairs(name, self.data) for name in names)
            if row.table == "tagging":
                sentences = (datasets.sentences(part, which, self.data) for which in ("train", "test"))
                yield f"selftrained-{part}", {word.lower() for both in sentences for one in both for word, _ in one}

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
        settings = json.dumps([row.model, row.counts, row.settings, row.limit, code_of(row.model)])
        return self.cache / "models" / f"{row.model}-{targets}-{digest(settings, self.target_files(targets))}"

    def losses(self, row: Row) -> list[float]:
        """Return the training losses by epoch of a row's model, if the cache has them."""
        try:
            made = self.made_elsewhere(row, row.targets)
        except files.MissingData:
            return []
        if made is not None:
            with np.load(made, allow_pickle=False) as found:
                return list(found["losses"].tolist())
        place = self.model_folder(row, row.targets)
        losses: list[float] = pbos.load(place).info["training"].get("losses", []) if place.exists() else []
        return losses

    def target_files(self, targets: str) -> list[Path]:
        """Return the files that target vectors come from."""
        if files.is_published(targets):
            return [files.published(targets) / "source.json"]  # it has the sha256 of the package
        place = self.originals or self.data / "vectors" / targets
        return sorted(place.iterdir()) if place.is_dir() else [place]

    def made_elsewhere(self, row: Row, targets: str) -> Path | None:
        """Return the file of the vectors that a row's model has made on another machine; None if it is trained here."""
        if row.model not in (*NEURAL, "kvq"):
            return None
        kvq = row.model == "kvq"
        file = ELSEWHERE / ("kvq/made/" + kvq_name(row, targets) if kvq else f"neural/{row.model}.npz")
        if kvq and self.originals:
            raise files.MissingData("KVQ-FH is trained on the rows' own targets only")
        if not file.exists():
            raise files.MissingData(f"{file} does not exist; it is made on a machine with a GPU, see CONTRIBUTING.md")
        return file

    def vectors(self, row: Row, targets: str) -> WordVectors:
        """Return a row's target vectors: those of the data folder, or the paper's own."""
        if self.originals is None or files.is_published(targets):
            return files.vectors(targets, self.data, limit=row.limit)
        given = WordVectors.read(self.originals)
        if targets in ("minilm-en", "googlenews-en-8k"):  # they replace Google News, which the paper filters
            given = english_words(given)
        return WordVectors(given.words[: row.limit], given.vectors[: row.limit])

    def counts(self, row: Row, targets: str, known: Container[str] = ()) -> WordCounts | None:
        """Return a row's word counts; of a published table, those of the words known in training only."""
        if files.is_published(targets) and row.counts == "own":
            own = files.own_counts(targets, self.data)
            kept = [(word, count) for word, count in own or () if word in known]
            return WordCounts(*zip(*kept, strict=True)) if kept else None
        if row.model == "default":
            return None
        own = None if self.originals or row.counts == "unigram" else files.own_counts(targets, self.data)
        needed = row.counts == "unigram" or (row.counts == "any" and own is None)
        return files.paper_counts(self.data) if needed else own

    def make(self, row: Row, vectors: WordVectors, targets: str) -> Embedder:
        """Train a row's model on vectors."""
        if row.model in PRESETS:
            counts = self.counts(row, targets, vectors.row_of)
            return pbos.train(vectors, counts, preset=row.model, progress=None, **row.settings)
        made = self.made_elsewhere(row, targets)
        if made is not None:
            from experiments import neural  # slow to import

            asked, found = neural.read_vectors(made)  # the lengths of KVQ-FH's vectors mean nothing
            return words.Targets(WordVectors(asked, unit_rows(found) if row.model == "kvq" else found))
        if row.model == "targets":
            return words.Targets(vectors)
        if row.model == "nearest":
            return NearestSpelling(vectors)
        if row.model == "fasttext":
            return FastText.train(files.corpus(self.data), dims=vectors.dims, vocabulary=vectors.words)
        raise InputError(f"{row.name}: unknown model {row.model!r}")


def kvq_name(row: Row, targets: str) -> str:
    """Return the file name of a model of KVQ-FH, which depends on the vectors only."""
    return f"{targets}-{row.limit}.npz" if row.limit else f"{targets}.npz"


def words_of(benchmarks: Iterable[list[Pair]]) -> set[str]:
    """Return all words of some benchmarks, in lower case."""
    return {word.lower() for pairs in benchmarks for pair in pairs for word in pair[:2]}


@cache
def code_of(model: str) -> str:
    """Return a hash of the code that a model's results depend on; comments, docstrings and layout do not count.

    For the models that are not ours, this is the code that scores them, and their own.
    """
    ours = Path(pbos.__file__).parent
    sources = [Path(__file__).parent / name for name in TASKS]
    if model in (*PRESETS, "segmenter"):
        skipped = ("adapters", "cli", "server")
        sources += [file for file in ours.rglob("*.py") if file.relative_to(ours).parts[0] not in skipped]
        sources += [Path(__file__), Path(__file__).parent / "hashing.py"]
    else:
        sources += [*(ours / "evaluation").glob("*.py"), ours / "words" / "arrays.py"]
        sources.append(Path(__file__).parent / ("kvq.py" if model == "kvq" else "baselines.py"))
    return digest("".join(code_without_text(file) for file in sorted(sources)), [])


def code_without_text(file: Path) -> str:
    """Return the syntax tree of a Python file, without docstrings."""
    return ast.dump(WithoutDocstrings().visit(ast.parse(file.read_text(encoding="utf-8"))))


class WithoutDocstrings(ast.NodeTransformer):
    """Removes the strings that are statements."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        """Keep other statements."""
        return None if isinstance(node.value, ast.Constant) else node


def digest(text: str, files: list[Path]) -> str:
    """Return a short hash of a text and the content of files."""
    parts = [text, *(content_digest(file, file.stat().st_mtime_ns) for file in files)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@cache
def content_digest(file: Path, changed: int) -> str:
    """Return a hash of a file, which is read again only if the time of its last change is another."""
    state = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 24):
            state.update(block)
    return state.hexdigest()


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
