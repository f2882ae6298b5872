"""Train a spaCy tagger without vectors, with a table of vectors, and with pbos; compare them on unseen words."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import spacy
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.vectors import Vectors
from spacy.vocab import Vocab

import pbos

Sentence = list[tuple[str, str]]  # words and their tags

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("PBOS_DATA") or HERE.parents[2] / "shared" / "data")
ROWS = {  # name: config file, settings
    "no vectors": ("no-vectors.cfg", {}),
    "table": ("table.cfg", {"paths.vectors": "table"}),
    "pbos": ("pbos.cfg", {"nlp.vectors.model": "model"}),
    "pbos, exact": ("pbos.cfg", {"nlp.vectors.model": "model", "nlp.vectors.exact": True}),
}
PATHS = {"paths.train", "paths.dev", "paths.vectors", "nlp.vectors.model"}


def main() -> None:
    """Read the command line, train and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("language", help="language of the treebank, such as en")
    parser.add_argument("vectors", help="name of the word vectors, such as glove840b-en-10k")
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of data sets; {DATA} by default")
    parser.add_argument("--sentences", type=int, help="training sentences to use; all by default")
    parser.add_argument("--seeds", type=int, default=3, help="runs per row")
    parser.add_argument("--steps", type=int, default=600, help="training steps per run")
    options = parser.parse_args()

    words = pbos.WordVectors.read(options.data / "vectors" / options.vectors)
    parts = {part: read_sentences(options.data, options.language, part) for part in ("train", "dev", "test")}
    parts["train"] = parts["train"][: options.sentences]
    known = {word.lower() for sentence in parts["train"] for word, _ in sentence}.union(map(str.lower, words.words))
    n_words = {part: sum(map(len, content)) for part, content in parts.items()}
    print(f"{options.language}, {options.vectors}: {len(words.words):,} words x {words.vectors.shape[1]}; {n_words}")

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_inputs(folder, options.language, parts, words)
        for row, (config, settings) in ROWS.items():
            begin, scores = time.perf_counter(), []
            for seed in range(options.seeds):
                extra = {"nlp.lang": options.language, "training.max_steps": options.steps, "system.seed": seed}
                nlp = trained(folder, config, {**settings, **extra})
                scores.append(accuracies(nlp, parts["test"], known))
            mean, spread, seconds = np.mean(scores, 0), np.ptp(scores, 0), time.perf_counter() - begin
            shown = " | ".join(f"{one:.2f} ({width:.2f})" for one, width in zip(mean, spread, strict=True))
            print(f"| {row} | {shown} | {seconds / options.seeds:.0f} s |", flush=True)
    n_unseen = sum(word.lower() not in known for sentence in parts["test"] for word, _ in sentence)
    print(f"{n_unseen:,} of {n_words['test']:,} words are unseen")


def read_sentences(data: Path, language: str, part: str) -> list[Sentence]:
    """Read a part of a treebank: a word, a tab and its tag per line, and a blank line after each sentence."""
    text = gzip.decompress((data / "ud-pos" / f"{language}.{part}.tsv.gz").read_bytes()).decode()
    blocks = (block.splitlines() for block in text.strip().split("\n\n"))
    return [[(word, tag) for word, tag in (line.split("\t") for line in block)] for block in blocks]


def write_inputs(folder: Path, language: str, parts: dict[str, list[Sentence]], words: pbos.WordVectors) -> None:
    """Write the inputs of the config files: the treebank, a pipeline with the table, a pbos model."""
    for part in ("train", "dev"):
        DocBin(docs=[tagged(sentence) for sentence in parts[part]]).to_disk(folder / f"{part}.spacy")
    nlp = spacy.blank(language)
    nlp.vocab.vectors = Vectors(data=words.vectors.astype(np.float32), keys=words.words, attr="LOWER")
    nlp.to_disk(folder / "table")
    pbos.train(words, keep_targets=True, progress=False).save(folder / "model")


def tagged(sentence: Sentence) -> Doc:
    """Return a sentence as a spaCy Doc."""
    words, tags = zip(*sentence, strict=True)
    return Doc(Vocab(), words=list(words), tags=list(tags))


def trained(folder: Path, config: str, settings: dict[str, str | int | bool]) -> spacy.Language:
    """Train as `spacy train` does, with paths relative to a folder; return the pipeline that is best on dev."""
    settings = {"paths.train": "train.spacy", "paths.dev": "dev.spacy", **settings}
    paths = {name: str(folder / str(settings[name])) for name in PATHS & settings.keys()}
    with contextlib.redirect_stdout(io.StringIO()) as log:
        try:
            train(HERE / config, folder / "trained", overrides={**settings, **paths})
        except SystemExit:  # what spaCy raises for a wrong setting
            raise SystemExit(log.getvalue()) from None
    return spacy.load(folder / "trained" / "model-best")


def accuracies(nlp: spacy.Language, test: list[Sentence], known: set[str]) -> tuple[float, float]:
    """Return the percentage of correct tags for all words, and for unseen words."""
    words = [[word for word, _ in sentence] for sentence in test]
    docs = nlp.pipe(Doc(nlp.vocab, words=sentence) for sentence in words)
    tags = [tag for sentence in test for _, tag in sentence]
    right = np.array([token.tag_ for doc in docs for token in doc]) == np.array(tags)
    unseen = np.array([word.lower() not in known for sentence in words for word in sentence])
    return 100 * float(right.mean()), 100 * float(right[unseen].mean())


if __name__ == "__main__":
    main()
