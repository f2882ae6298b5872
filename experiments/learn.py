"""Learning from text: `pbos.learn` beside fastText and word2vec, on the same tokens.

Each system is trained by a process of its own, which saves its model; the processor time is that of this process. Of a
model we keep the vectors of the words that the tasks need, so that each is trained once. The tasks:

- similarity: Spearman's rho on word pairs, every word composed from its spelling; then on the pairs with a word that
  the text has fewer than 5 times;
- tagging: the share of test words with the right tag; then of the words that the training treebank does not contain;
- hidden words: 1,000 words are replaced by a mark everywhere in the text, and their vectors are composed by the system
  that learned from this text. (a) How many of the 10 nearest words are the same as with the whole text, where the word
  was learned? A system whose vectors follow the spelling either way does well here, so the neighbors that word2vec
  learns, which knows no spelling, are asked for too. (b) Does the composed vector fit the word's true contexts better
  than those of the other hidden words? A context is the mean vector of the words around. The score is MRR x 100:
  1 / rank of the true context, .75 by chance.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from experiments import corpora, datasets
from experiments import data as files
from experiments.tagging import tagging
from experiments.tasks import Cosines, mean_gap
from pbos.errors import InputError
from pbos.evaluation import words
from pbos.evaluation.datasets import Pair, read_pairs
from pbos.evaluation.results import MIN_ITEMS, Embedder, Score, bootstrap
from pbos.files.atomic import write_whole
from pbos.files.paths import open_bytes
from pbos.tables.published import say
from pbos.words.arrays import FloatMatrix, unit_rows

TOKEN = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")
SYSTEMS = ("fasttext", "gensim", "pbos")
LANGUAGES = ("en", *corpora.CORPORA)
LIMIT = 2_000_000  # tokens of each language but English
DIMS = 100
WINDOW = 5
EPOCHS = 5
MIN_COUNT = 5
HIDDEN = 1000
HIDDEN_COUNTS = 20, 200  # how often a hidden word occurs
MARK = "<unk>"  # takes the place of a hidden word
CANDIDATES = 20_000  # the most frequent words, among which neighbors are sought
NEIGHBORS = 10
RARE = ("RareWord", "MEN", "MTurk-771", "SimVerb", "Card-660")  # the sets with enough words that the text does not have
TAGGING_C = 10.0
COMMON = 1e-3  # a word with this share of the text counts half in a context

Ints = npt.NDArray[np.int64]


# Text -----------------------------------------------------------------------------------------------------------------


def tokens_of(line: str) -> list[str]:
    """Return the words and marks of a line, in lower case.

    >>> tokens_of("Don't touch the well-known _İzmir_!")
    ["don't", 'touch', 'the', 'well-known', '_i̇zmir_', '!']
    """
    return [token.lower() for token in TOKEN.findall(line)]


@dataclass(frozen=True)
class Text:
    """The tokens of one language in two files, a paragraph per line, tokens separated by spaces.

    Attributes:
        language: Its code.
        folder: Where the files are: `LANGUAGE.txt`, and `LANGUAGE-hidden.txt` with the hidden words replaced.
    """

    language: str
    folder: Path

    @classmethod
    def make(cls, language: str, source: Path, folder: Path, limit: int | None) -> Text:
        """Write the two files from a source, which may be compressed, up to a number of tokens."""
        text = cls(language, folder)
        if text.path("hidden").exists():
            return text
        folder.mkdir(parents=True, exist_ok=True)
        with open_bytes(source) as lines, write_whole(text.path("whole")) as out:
            n = 0
            for line in lines:
                tokens = tokens_of(line.decode())
                n += len(tokens)
                if tokens:
                    out.write(f"{' '.join(tokens)}\n".encode())
                if limit and n >= limit:
                    break
        hidden = set(text.hidden)
        with write_whole(text.path("hidden")) as out:
            for tokens in text.lines("whole"):
                out.write(f"{' '.join(MARK if token in hidden else token for token in tokens)}\n".encode())
        return text

    def path(self, part: str) -> Path:
        """Return the file of a part: "whole" or "hidden"."""
        return self.folder / f"{self.language}{'' if part == 'whole' else '-hidden'}.txt"

    def lines(self, part: str) -> Iterator[list[str]]:
        """Yield the tokens of each paragraph."""
        with self.path(part).open(encoding="utf-8") as stream:
            for line in stream:
                yield line.split()

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each token occurs in the whole text."""
        return Counter(token for tokens in self.lines("whole") for token in tokens)

    @cached_property
    def hidden(self) -> list[str]:
        """The hidden words, drawn from those that are neither rare nor frequent; at most half of them."""
        least, most = HIDDEN_COUNTS
        suited = sorted(word for word, n in self.counts.items() if least <= n <= most and word.isalpha())
        random = np.random.default_rng(0)
        return sorted(random.choice(suited, min(HIDDEN, len(suited) // 2), replace=False).tolist())

    @cached_property
    def contexts(self) -> FloatMatrix:
        """How often each candidate is within 5 tokens of each hidden word, frequent ones counting less."""
        rows, columns = ({word: at for at, word in enumerate(words)} for words in (self.hidden, self.candidates))
        found = np.zeros((len(rows), len(columns)), np.float32)
        for tokens in self.lines("whole"):
            for at, token in enumerate(tokens):
                if (row := rows.get(token)) is not None:
                    near = tokens[max(at - WINDOW, 0) : at] + tokens[at + 1 : at + 1 + WINDOW]
                    for column in [columns[other] for other in near if other in columns]:
                        found[row, column] += 1
        shares = np.array([self.counts[word] for word in self.candidates]) / sum(self.counts.values())
        return (found * (COMMON / (COMMON + shares))).astype(np.float32)

    @cached_property
    def candidates(self) -> list[str]:
        """The most frequent words that are not hidden, each at least 5 times in the text."""
        hidden = set(self.hidden)
        frequent = (word for word, n in self.counts.most_common() if n >= MIN_COUNT)
        return [word for word in frequent if word not in hidden and word.isalpha()][:CANDIDATES]


# Systems --------------------------------------------------------------------------------------------------------------


def train(system: str, text: Path, model: Path, threads: int) -> None:
    """Train a system on a file of tokens and save its model: what the process of a system does."""
    if system == "fasttext":
        import fasttext

        settings = {"model": "skipgram", "dim": DIMS, "ws": WINDOW, "epoch": EPOCHS, "minCount": MIN_COUNT}
        fasttext.train_unsupervised(str(text), thread=threads, verbose=0, **settings).save_model(str(model))
    elif system == "gensim":
        from gensim.models import Word2Vec
        from gensim.models.word2vec import LineSentence

        import pbos

        found = Word2Vec(
            LineSentence(str(text)),
            vector_size=DIMS,
            window=WINDOW,
            epochs=EPOCHS,
            min_count=MIN_COUNT,
            sg=1,
            workers=threads,
        ).wv
        counts = {word: found.get_vecattr(word, "count") for word in found.index_to_key}
        pbos.train(found, counts, threads=threads, progress=False).save(model)
    else:
        import pbos

        lines = (line.split() for line in text.open(encoding="utf-8"))
        pbos.learn(lines, dims=DIMS, threads=threads, keep_targets=True).save(model)


class Vectors(NamedTuple):
    """The vectors that one trained system gives to the words that the tasks need.

    Attributes:
        words: The words.
        composed: Their vectors, composed from the spelling as far as the system does that.
        learned: The same, but a word of the text's vocabulary has the vector that was learned for it.
        cost: Processor seconds of training, and the size of the model in bytes.
    """

    words: list[str]
    composed: FloatMatrix
    learned: FloatMatrix
    cost: dict[str, float]


def vectors(system: str, text: Text, part: str, needed: Iterable[str], cache: Path, threads: int) -> Vectors:
    """Return the vectors of a system trained on a part of a text, from the cache if they are there."""
    file = cache / f"{text.language}-{part}-{system}.npz"
    if not file.exists():
        say(f"{text.language}: training {system} on the {part} text")
        asked = sorted(set(needed))
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            seconds = train_apart(system, text.path(part), Path(folder, "model"), threads)
            size = sum(made.stat().st_size for made in Path(folder).rglob("*") if made.is_file())
            composed, learned = embed(system, Path(folder, "model"), asked)
        cost = json.dumps({"seconds": seconds, "bytes": size})
        with write_whole(file) as stream:
            np.savez(stream, words=np.array(asked), composed=composed, learned=learned, cost=cost)
    found = np.load(file)
    return Vectors(found["words"].tolist(), found["composed"], found["learned"], json.loads(str(found["cost"])))


def train_apart(system: str, text: Path, model: Path, threads: int) -> float:
    """Train in a process of its own; return the processor time that it took in user mode, in seconds."""
    command = [sys.executable, "-m", "experiments.learn", system, str(text), str(model), str(threads)]
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")}
    process = subprocess.Popen(command, env={**os.environ, **limits})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise InputError(f"{' '.join(command[1:])} failed with status {process.returncode}")
    return usage.ru_utime


def embed(system: str, model: Path, asked: list[str]) -> tuple[FloatMatrix, FloatMatrix]:
    """Return the composed and the learned vectors of words. fastText's are both at once."""
    if system == "fasttext":
        import fasttext

        fasttext.FastText.eprint = lambda text: None  # silences a warning about an API change
        vector_of = fasttext.load_model(str(model)).get_word_vector
        found = np.array([vector_of(word) for word in asked], np.float32)
        return found, found
    import pbos

    loaded = pbos.load(model)
    return loaded.embed(asked), loaded.embed(asked, exact=True)


class Table:
    """The vectors of some words as an embedder."""

    def __init__(self, words: Sequence[str], vectors: FloatMatrix) -> None:
        self.row_of = {word: row for row, word in enumerate(words)}
        self.vectors = vectors
        self.dims = vectors.shape[1]

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims)."""
        return self.vectors[[self.row_of[word] for word in words]]

    def scaled(self, words: Iterable[str]) -> Table:
        """Return the same vectors, so scaled that the mean squared length of those of the given words is 1."""
        scale = np.sqrt(np.mean(np.sum(self.embed(words).astype(np.float64) ** 2, axis=1)))
        return Table(list(self.row_of), (self.vectors / scale).astype(np.float32))


def mixed(found: Vectors, hidden: Iterable[str]) -> Table:
    """Return composed vectors for the hidden words and learned ones for all others."""
    among = np.isin(found.words, list(hidden))
    return Table(found.words, np.where(among[:, None], found.composed, found.learned))


# Tasks ----------------------------------------------------------------------------------------------------------------


class Tasks:
    """The tasks of one language.

    Attributes:
        text: The text.
        pairs: Similarity sets by name.
        treebank: Training and test sentences; empty if there is no treebank.
    """

    def __init__(self, text: Text, data: Path, folder: Path) -> None:
        language = text.language
        self.text = text
        self.pairs: dict[str, list[Pair]] = {}
        if language == "en":
            self.pairs = {name: files.pairs(name, data) for name in files.ENGLISH}
            if (folder / "simverb.txt").exists():  # SimVerb-3500 has no fixed address
                self.pairs["SimVerb"] = read_pairs(folder / "simverb.txt")
        elif language in datasets.MULTILINGUAL:
            self.pairs = {name: datasets.pairs(f"{name}-{language}", data) for name in ("WS353", "SimLex999")}
        self.treebank: list[list[datasets.Sentence]] = []
        if language in datasets.UD_LANGUAGES:
            self.treebank = [datasets.sentences(language, part, data) for part in ("train", "test")]

    @cached_property
    def needed(self) -> set[str]:
        """The words of all tasks."""
        found = {
            word.lower() for pairs in self.pairs.values() for first, second, _ in pairs for word in (first, second)
        }
        found |= {word.lower() for part in self.treebank for sentence in part for word, _ in sentence}
        return found | {*self.text.hidden, *self.text.candidates}

    def similarity(self, model: Embedder) -> dict[str, Cosines]:
        """Return a model's cosines of all pairs, and of those with a rare word."""
        found: dict[str, Cosines] = {}
        for name, pairs in self.pairs.items():
            rare = [pair for pair in pairs if any(self.text.counts[word.lower()] < MIN_COUNT for word in pair[:2])]
            found[name] = cosines_of(model, pairs)
            if name in RARE and len(rare) >= MIN_ITEMS:
                found[f"{name}, rare"] = cosines_of(model, rare)
        return found

    def tagging(self, model: Table) -> dict[str, Score]:
        """Return the accuracy of tagging, of all words and of those that the training treebank does not contain."""
        train, test = self.treebank
        seen = {word.lower() for sentence in train for word, _ in sentence}
        scaled = model.scaled(word.lower() for sentence in train for word, _ in sentence)
        result = tagging(scaled, train, test, language=self.text.language, known=seen, c=TAGGING_C)
        return {
            "tagging": result.scores["accuracy"],
            "tagging, unseen words": result.scores["accuracy, unknown words"],
        }

    def neighbors(self, table: Table) -> Ints:
        """Return the nearest candidates of each hidden word, (n_hidden, 10)."""
        near = unit_rows(table.embed(self.text.hidden)) @ unit_rows(table.embed(self.text.candidates)).T
        return np.argpartition(-near, NEIGHBORS, axis=1)[:, :NEIGHBORS].astype(np.int64)

    def context_ranks(self, table: Table) -> Score:
        """Return MRR x 100 of each hidden word's own context among all, by cosine around the mean of either side."""
        contexts = unit_rows(self.text.contexts @ unit_rows(table.embed(self.text.candidates)))
        composed = unit_rows(table.embed(self.text.hidden))
        composed, contexts = composed - composed.mean(axis=0), contexts - contexts.mean(axis=0)
        gains = 100 / words.true_ranks(composed, contexts, np.arange(len(composed)))
        return bootstrap(lambda drawn: {"": float(gains[drawn].mean())}, len(gains))[""]


def cosines_of(model: Embedder, pairs: Sequence[Pair]) -> Cosines:
    """Compare a model's vectors of pairs."""
    return Cosines.of(words.similarity(model, pairs, keep_cosines=True, repeats=2))


def overlap(found: Ints, true: Ints) -> Score:
    """Return the share of neighbors that two lists have in common, the mean over words, in percent.

    >>> overlap(np.array([[1, 2]]), np.array([[2, 3]])).value
    50.0
    """
    shares = np.array([100 * len({*one} & {*other}) / len(one) for one, other in zip(found, true, strict=True)])
    return bootstrap(lambda drawn: {"": shares[drawn].mean()}, len(shares))[""]


# Results --------------------------------------------------------------------------------------------------------------


def make(languages: Iterable[str], systems: Sequence[str], data: Path, folder: Path, cache: Path, threads: int) -> str:
    """Train what is missing, score it, and return the table of each language as Markdown."""
    tables = []
    for language in list(languages) or LANGUAGES:
        if language not in LANGUAGES:
            raise InputError(f"no text in {language!r}; choose from: {', '.join(LANGUAGES)}")
        source = files.corpus(data) if language == "en" else folder / f"{language}.txt"
        if not source.exists():
            raise InputError(f"{source} does not exist; `python -m experiments corpora {language}` makes it")
        text = Text.make(language, source, cache / "text", None if language == "en" else LIMIT)
        tasks = Tasks(text, data, folder)
        runs = {}
        for system in systems:
            parts = ("whole",) if language == "en" else ("whole", "hidden")  # the English text is large, and has pairs
            runs[system] = [vectors(system, text, part, tasks.needed, cache, threads) for part in parts]
        tables.append(as_table(language, text, scores(tasks, runs)))
    return "\n\n".join(tables)


def scores(tasks: Tasks, runs: dict[str, list[Vectors]]) -> dict[str, dict[str, Score]]:
    """Return the scores of each system by name."""
    found: dict[str, dict[str, Score]] = {system: {} for system in runs}
    similar = {}
    for system, (whole, *parts) in runs.items():
        model, mine = Table(whole.words, whole.composed), found[system]
        similar[system] = tasks.similarity(model)
        for kind, names in groups(similar[system]).items():
            mine |= {name: Score(similar[system][name].rho()) for name in names}
            mine[kind] = Score(float(np.mean([mine[name].value for name in names])))
            if system != "fasttext" and "fasttext" in runs:
                pairs = [[similar[one][name] for name in names] for one in (system, "fasttext")]
                mine[f"{kind}, above fastText"] = mean_gap(*pairs)
        if tasks.treebank:
            mine |= tasks.tagging(model)
        for hidden in parts:
            table = mixed(hidden, tasks.text.hidden)
            composed = tasks.neighbors(table)
            mine["hidden words, contexts"] = tasks.context_ranks(table)
            mine["hidden words, own neighbors"] = overlap(composed, tasks.neighbors(Table(whole.words, whole.learned)))
            if "gensim" in runs:
                true = runs["gensim"][0]
                mine["hidden words, word2vec's neighbors"] = overlap(
                    composed, tasks.neighbors(Table(true.words, true.learned))
                )
        mine |= {"CPU s": Score(whole.cost["seconds"]), "MB": Score(whole.cost["bytes"] / 1e6)}
    return found


def groups(similar: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of similarity sets: those of all pairs, and those of pairs with rare words.

    >>> groups(["MEN", "WS353", "MEN, rare"])
    {'mean': ['MEN', 'WS353'], 'mean, rare': ['MEN, rare']}
    """
    names = list(similar)
    found = {"mean": [name for name in names if not name.endswith(", rare")]}
    found["mean, rare"] = [name for name in names if name.endswith(", rare")]
    return {kind: chosen for kind, chosen in found.items() if chosen}


def as_table(language: str, text: Text, found: dict[str, dict[str, Score]]) -> str:
    """Return the scores of a language as a table, a row for each task."""
    total, kinds = sum(text.counts.values()), sum(n >= MIN_COUNT for n in text.counts.values())
    tasks = list(dict.fromkeys(task for scores in found.values() for task in scores))
    lines = [
        f"### {language}: {total:,} tokens, {kinds:,} words at least {MIN_COUNT} times, {len(text.hidden)} hidden",
        "",
    ]
    lines += [f"| | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for task in tasks:
        cells = [shown(task, scores[task]) if task in scores else "" for scores in found.values()]
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(task: str, score: Score) -> str:
    """Return a score with its interval; shares of tagged words in percent.

    >>> shown("tagging", Score(0.912, 0.904, 0.92)), shown("MB", Score(829.62))
    ('91.2 (90.4 to 92.0)', '829.6')
    """
    factor = 100 if task.startswith("tagging") else 1
    if score.low is None or score.high is None:
        return f"{factor * score.value:.1f}"
    return f"{factor * score.value:.1f} ({factor * score.low:.1f} to {factor * score.high:.1f})"


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
