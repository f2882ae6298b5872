"""Shared inputs of all benchmarks: data, unseen words, trained pbos models, and the cache."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import random
import shutil
from pathlib import Path

import measure
from measure import CACHE, DATA

import pbos
from experiments import datasets
from pbos.evaluation.words import heldout, similarity

N_UNSEEN = 20_000
MIN_LETTERS = 10  # the 20,000 most frequent words of this length have 11.6 letters on average
N_HELDOUT = 2_000
REPLACED = 0.05  # of the words of a repeated text


def cached(name: str, make) -> Path:
    """Return the path of a cached file or folder; `make(path)` writes it if it is missing."""
    path = CACHE / name
    if not path.exists():
        measure.log(f"making {name}")
        CACHE.mkdir(exist_ok=True)
        unfinished = CACHE / f"unfinished-{name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        make(unfinished)
        unfinished.rename(path)
    return path


def corpus() -> Path:
    """Return the file of novels as plain text, which fastText and floret read."""
    packed = DATA / "corpus" / "novels-en.txt.gz"
    return cached("novels-en.txt", lambda path: path.write_bytes(gzip.decompress(packed.read_bytes())))


def first_tokens(n_tokens: int) -> Path:
    """Return the first lines of the novels, until they have that many tokens."""

    def write(path: Path) -> None:
        n_written = 0
        with corpus().open(encoding="utf-8") as lines, path.open("w", encoding="utf-8") as out:
            while n_written < n_tokens:
                line = next(lines)
                out.write(line)
                n_written += len(line.split())

    return cached(f"novels-en-{n_tokens}.txt", write)


def repeated(copies: int) -> Path:
    """Return the novels several times, each time with the lines shuffled and some words replaced by others of them."""

    def write(path: Path) -> None:
        text = corpus().read_text(encoding="utf-8")
        lines, words, chance = text.splitlines(), text.split(), random.Random(0)
        with path.open("w", encoding="utf-8") as out:
            for _ in range(copies):
                chance.shuffle(lines)
                out.writelines(replace_some(line, words, chance) for line in lines)

    return cached(f"novels-en-{copies}-times.txt", write)


def replace_some(line: str, words: list[str], chance: random.Random) -> str:
    """Return a line in which each word is another one with the probability `REPLACED`."""
    return " ".join(chance.choice(words) if chance.random() < REPLACED else word for word in line.split()) + "\n"


@functools.cache
def counts() -> pbos.WordCounts:
    """Return the counts of 333,333 English words."""
    return pbos.WordCounts.read(DATA / "unigram_freq.csv")


@functools.cache
def target_vectors() -> pbos.WordVectors:
    """Return the target vectors of pbos and model2vec: 100,000 words x 300."""
    return pbos.WordVectors.read(DATA / "vectors" / "minilm-en", progress=False)


@functools.cache
def unseen_words() -> list[str]:
    """Return the most frequent words of at least 10 letters without a target vector that are not in the novels."""

    def write(path: Path) -> None:
        known = {*target_vectors().words, *corpus().read_text(encoding="utf-8").split()}
        unseen = [word for word in counts().words if len(word) >= MIN_LETTERS and word not in known]
        path.write_text("\n".join(unseen[:N_UNSEEN]), encoding="utf-8")

    return cached("unseen-words.txt", write).read_text(encoding="utf-8").split("\n")


@functools.cache
def model(preset: str) -> pbos.Model:
    """Return a model trained on all target vectors with the current code, saved and loaded as users do."""
    return pbos.load(model_folder(preset))


def model_folder(preset: str) -> Path:
    """Return the folder of a trained model; models of older code are deleted."""
    name = f"pbos-{preset}-{source_key()}"
    if not (CACHE / name).exists():
        for old in CACHE.glob(f"pbos-{preset}-*"):
            shutil.rmtree(old)
    return cached(name, lambda path: train(target_vectors(), preset).save(path))


def train(vectors: pbos.WordVectors, preset: str, **settings) -> pbos.Model:
    """Train with the paper's word counts; the preset "default" does not need any."""
    return pbos.train(vectors, None if preset == "default" else counts(), preset=preset, progress=False, **settings)


@functools.cache
def source_key() -> str:
    """Return a hash of the source code of pbos, so that cached models of older code are not used."""
    files = sorted(Path(pbos.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


# Quality --------------------------------------------------------------------------------------------------------------


def spearman(model, benchmark: str = "RareWord") -> float:
    """Return Spearman's rho x 100 of anything that embeds words, on a similarity benchmark."""
    return similarity(model, datasets.pairs(benchmark, DATA), repeats=1).main.value


def heldout_cosine(name: str, fit) -> float:
    """Return the mean cosine of 2,000 held-out words with their true vectors; `fit(vectors)` trains a model."""

    def write(path: Path) -> None:
        path.write_text(json.dumps(heldout(fit, target_vectors(), N_HELDOUT, repeats=1).main.value))

    return json.loads(cached(f"heldout-{name}.json", write).read_text())
