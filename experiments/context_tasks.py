"""Tasks with vectors from contexts: similarity of rare and of medical words, and what a text costs."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments import corpora, data
from experiments.context_vectors import (
    BOTH,
    CONTEXTS,
    FOLDER,
    SIZE,
    SPELLING,
    Ints,
    blob,
    counted,
    from_text,
    novels,
    trained,
)
from experiments.report import cell, table_lines
from pbos.errors import InputError
from pbos.evaluation.datasets import Pair, read_pairs
from pbos.evaluation.results import MIN_ITEMS, bootstrap
from pbos.evaluation.words import spearman
from pbos.tables.word_vectors import WordVectors
from pbos.words.arrays import cosines, unit_rows

RARE = 100_000  # ranks from here are rare
LEAST_TIMES = (1, 5)  # how often a rare word occurs in the text
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of what is mixed into known vectors
KNOWN = 10_000  # words of medical terms that are among so many most frequent ones stay in the table
TERMS = corpora.Source("cambridgeltl/BioNLP-2016", "not stated", "", commit="b629f7417c3ed5c027368f07acca69bc37de4687")


def from_column(text: str) -> Iterator[str]:
    r"""Yield the sentences of a file with a token and its label on each line, and a blank line after each sentence.

    >>> list(from_column("Renal\tB\nfailure\tI\n.\tO\n\nNone\tO\n"))
    ['Renal failure .', 'None']
    """
    yield from (" ".join(line.split("\t")[0] for line in part.splitlines()) for part in text.strip().split("\n\n"))


ABSTRACTS = corpora.Source(
    "cambridgeltl/MTL-Bioinformatics-2016",
    corpora.CC_BY,
    r"data/[^/]*-IOB/.*\.tsv",
    from_column,
    commit="df0df02fae6dbb87d88ffcf323b9096528f06f84",
)


# Known words ----------------------------------------------------------------------------------------------------------


def rare(folder: Path) -> Iterator[str]:
    """Yield what it brings to mix spelling or contexts into the known vectors of rare words, on similarity.

    The pairs are those with a rare word that occurs in the text. What is mixed in, and how much, is chosen on one half
    of them and measured on the other; then the halves change places.
    """
    table = data.vectors("glove-6b-100d", folder)
    pairs = counted("glove", novels(folder))
    model = trained("glove-frequent", WordVectors(table.words[:RARE], table.vectors[:RARE]), (), pairs)
    occurs = dict(zip(pairs.words, pairs.counts.tolist(), strict=True))
    for name, least in itertools.product(("RareWord", "Card-660"), LEAST_TIMES):
        known = [(one.lower(), other.lower(), score) for one, other, score in data.pairs(name, folder)]
        known = [pair for pair in known if pair[0] in table and pair[1] in table]
        words = sorted({word for pair in known for word in pair[:2] if table.row_of[word] >= RARE})
        words = [word for word in words if occurs.get(word, 0) >= least]
        asked = [pair for pair in known if not {pair[0], pair[1]}.isdisjoint(words)]
        yield f"\n{name}, {len(words)} rare words that occur at least {least} times: {len(asked)} pairs.\n"
        if len(asked) < 2 * MIN_ITEMS:
            continue
        near = {("given", 0.0): near_terms(table, asked, {})}
        given = unit_rows(table.vectors[[table.row_of[word] for word in words]])
        for (kind, vectors), share in itertools.product(from_text(model, pairs, words).vectors.items(), SHARES):
            mixed = (1 - share) * given + share * unit_rows(vectors)
            near[kind, share] = near_terms(table, asked, dict(zip(words, mixed, strict=True)))
        human = np.array([score for *_, score in asked])
        yield from table_lines(["chosen on the other half", "before", "after", "gain"], halves(near, human))


def halves(near: dict[tuple[str, float], npt.NDArray[np.float32]], human: Any) -> Iterator[list[str]]:
    """Yield for each half and source the share that is best on the other half, and its scores; then those of both."""
    drawn = np.random.default_rng(0).permutation(len(human))
    first, second = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    for chosen_on, half in ((first, second), (second, first)):
        best = {}
        for kind in (SPELLING, CONTEXTS, BOTH):
            shares = (share for one, share in near if one == kind)
            share = max(shares, key=lambda one: spearman(near[kind, one][chosen_on], human[chosen_on]))
            best[kind] = near[kind, share][half]
            yield [f"given and {share:.0%} {kind}", *rho_cells(near["given", 0.0][half], best[kind], human[half])]
        yield ["both, in place of spelling", *rho_cells(best[SPELLING], best[BOTH], human[half])]


def rho_cells(before: Any, after: Any, human: Any) -> list[str]:
    """Return Spearman's rho x 100 before and after, and the gain with its interval."""

    def gain(drawn: Ints) -> dict[str, float]:
        rhos = [spearman(near[drawn], human[drawn]) for near in (before, after)]
        return {"gain": rhos[1] - rhos[0]}

    shown = [f"{spearman(near, human):.1f}" for near in (before, after)]
    return [*shown, cell(bootstrap(gain, len(human))["gain"], 1)]


# A task of a user -----------------------------------------------------------------------------------------------------


def biomedical(folder: Path) -> Iterator[str]:
    """Yield similarity of medical terms, with vectors from spelling and then from abstracts too.

    The words of the terms are hidden from the table, but for the most frequent ones; or only those are composed that
    the table lacks. Of a term of several words, the vector is the mean of theirs.
    """
    file = FOLDER / "abstracts.txt"
    if not file.exists():
        archive = corpora.fetch(ABSTRACTS, corpora.FOLDER / "sources")
        file.write_text("".join(f"{line}\n" for line in corpora.distinct([(ABSTRACTS, archive)])), encoding="utf-8")
    pairs = counted("abstracts", file)
    table = WordVectors.read(data.published("glove-6b-100d"), limit=SIZE, progress=False)
    sets = {name: medical_pairs(name) for name in ("UMNSRS/UMNSRS-sim", "UMNSRS/UMNSRS-rel", "MayoSRS/MayoSRS")}
    words = {word for found in sets.values() for pair in found for term in pair[:2] for word in term.split()}
    hidden = sorted(word for word in words if table.row_of.get(word, len(table)) >= KNOWN)
    model = trained("abstracts-hidden", table, hidden, pairs)
    found, occurs = from_text(model, pairs, hidden).vectors, set(pairs.words)
    missing = {word for word in hidden if word not in table}
    sizes = [len(some) for some in (hidden, occurs.intersection(hidden), missing, occurs & missing)]
    yield f"{int(pairs.counts.sum()):,} words of text. Of {len(words):,} words of terms, {sizes[0]:,} are hidden, "
    yield f"{sizes[1]:,} of these in the text; {sizes[2]} are not in the table, {sizes[3]} of these in the text.\n"
    made = {kind: dict(zip(hidden, unit_rows(vectors), strict=True)) for kind, vectors in found.items()}
    groups = {  # which words are composed, with which words a pair counts, and with which it does not
        "hidden": ({*hidden}, {*hidden}, set()),
        "hidden and in the text": ({*hidden}, {*hidden} & occurs, set()),
        "hidden, but known": ({*hidden}, {*hidden}, missing),
        "hidden, but known and in the text": ({*hidden}, {*hidden} & occurs, missing),
        "missing": (missing, missing, set()),
        "missing and in the text": (missing, missing & occurs, set()),
    }
    body = []
    for (name, asked), (group, (composed, wanted, bad)) in itertools.product(sets.items(), groups.items()):
        words_of = {pair: {*pair[0].split(), *pair[1].split()} for pair in asked}
        chosen = [pair for pair in asked if words_of[pair] & wanted and not words_of[pair] & bad]
        human = np.array([score for *_, score in chosen])
        near = {
            kind: near_terms(table, chosen, {word: vectors[word] for word in composed})
            for kind, vectors in made.items()
        }
        cells = [*rho_cells(near[SPELLING], near[BOTH], human), f"{spearman(near[CONTEXTS], human):.1f}"]
        full = f"{spearman(near_terms(table, chosen, {}), human):.1f}" if "known" in group else "–"
        body.append([name.split("/")[1], group, str(len(chosen)), *cells, full])
    head = ["set", "pairs with a word that is", "pairs", "spelling", "both", "gain", "contexts", "given vectors"]
    yield from table_lines(head, body)


def medical_pairs(name: str) -> list[Pair]:
    """Return a set of medical terms."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pairs.tsv")
        file.write_bytes(blob(TERMS, f"wvlib/word-similarities/{name}.txt"))
        return [(one.lower(), other.lower(), score) for one, other, score in read_pairs(file)]


def near_terms(table: WordVectors, pairs: list[Pair], own: dict[str, Any]) -> npt.NDArray[np.float32]:
    """Return the cosines of pairs of terms, some with vectors of their own; words without a vector count as zeros."""
    units: dict[str, Any] = {}
    for word in {word for pair in pairs for term in pair[:2] for word in term.split()}:
        known = table.vectors[table.row_of[word]] if word in table else np.zeros(table.dims, np.float32)
        units[word] = own.get(word, unit_rows(known[None])[0])
    terms = [[sum(units[word] for word in term.split()) for term in pair[:2]] for pair in pairs]
    return cosines(np.array([one for one, _ in terms]), np.array([two for _, two in terms]))


# Cost -----------------------------------------------------------------------------------------------------------------


def cost(folder: Path) -> Iterator[str]:
    """Yield the processor time of completing a table from a text, and of counting that text, which is a part of it."""
    text, table = novels(folder), WordVectors.read(data.published("glove-6b-100d"), limit=SIZE, progress=False)
    pairs = counted("glove", text)
    trained("glove-whole", table, (), pairs)
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        vectors, words, out = (str(Path(scratch, name)) for name in ("vectors.vec", "words.txt", "out"))
        table.write(vectors)
        table.write(f"{vectors}s", format="folder")
        lacking = [word for word, n in zip(pairs.words, pairs.counts, strict=True) if n >= 5 and word not in table]
        Path(words).write_text("\n".join(lacking), encoding="utf-8")
        rest = [words, "-m", str(FOLDER / "glove-whole"), "-o"]
        commands = {
            "count": ["count", str(text), "--cooccurrences", f"{out}.counting", "-o", f"{out}.tsv"],
            "complete, .vec files": ["complete", vectors, *rest, f"{out}.vec", "--text", str(text)],
            "complete, folders": ["complete", f"{vectors}s", *rest, out, "--format", "folder", "--text", str(text)],
            "complete without the text, .vec files": ["complete", vectors, *rest, f"{out}.vec"],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(3):
            for name, command in commands.items():
                for made in (out, f"{out}.counting"):
                    shutil.rmtree(made, ignore_errors=True)
                seconds[name].append(processor_time([sys.executable, "-m", "pbos", *command]))
    least = {name: min(times) for name, times in seconds.items()}
    yield f"{len(lacking):,} words; least of three, processor seconds.\n"
    body = [[name, f"{time:.1f}", f"{time / least['count']:.2f}"] for name, time in least.items()]
    yield from table_lines(["command", "seconds", "of count"], body)


def processor_time(command: list[str]) -> float:
    """Run a command; return the processor time that it took."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise InputError(f"{' '.join(command[1:])} failed with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime
