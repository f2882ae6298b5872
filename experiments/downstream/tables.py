"""The tables of results/tasks.md."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.downstream.measures import COMPOSED, EDITS, RERANKED, SENTENCES, Measured, Prepared, measured
from experiments.downstream.network import TAGGING, TEXTS
from experiments.downstream.rivals import DEFAULT, NEAREST, RIVALS, TYPOS, Rivals
from experiments.downstream.scores import draws, f1, score
from experiments.downstream.sources import LABELED, LEVELS, PAIRS, TAGGED, TERMS, TREEBANK, Sources
from experiments.report import cell, table_lines
from experiments.tasks import GROUPS
from pbos.errors import InputError
from pbos.evaluation.results import Score, bootstrap
from pbos.evaluation.words import spearman
from pbos.tables.published import say

COMPARED = ("zeros", NEAREST, "bos")  # to whom the lead of the default is shown
BASE = DEFAULT


def make(names: Iterable[str], folder: Path, treebank: Path) -> Iterator[str]:
    """Yield the named tables in Markdown; `folder` has the repositories, `treebank` the tagged sentences."""
    names = list(names)
    for name in names:
        if name not in EXPERIMENTS:
            raise InputError(f"unknown task {name!r}; choose from: {', '.join(EXPERIMENTS)}")
    rivals, start = Rivals(Sources(folder, treebank)), time.process_time()
    for name in names:
        yield f"## {name}\n"
        yield from EXPERIMENTS[name](rivals)
        yield ""
        say(f"{name}: {time.process_time() - start:.0f} processor seconds so far")


def compared(rivals: Rivals, task: str, names: Iterable[str]) -> dict[str, Measured]:
    """Measure some rivals in a task."""
    found = {}
    for name in names:
        found[name] = measured(rivals, task, name)
        say(f"{task}, {name}: {float(found[name]['seconds']):.0f} processor seconds")
    return found


def columns(found: dict[str, Measured], groups: Iterable[str], base: str = BASE) -> Iterator[list[str]]:
    """Yield a line for each rival: its scores with intervals, and the base's lead over it in the first group."""
    drawn = {(name, group): draws(one[group]) for name, one in found.items() for group in groups}
    first = next(iter(groups))
    for name in found:
        cells = [cell(score(drawn[name, group]), 1) for group in groups]
        yield [name, *cells, "–" if name == base else lead(drawn[base, first] - drawn[name, first])]


def lead(values: Any) -> str:
    """Format a difference with its interval; bold if the interval lacks 0."""
    one = score(values)
    assert one.low is not None and one.high is not None
    shown = f"{one.value:+.1f} [{one.low:+.1f}, {one.high:+.1f}]"
    return f"**{shown}**" if one.low > 0 or one.high < 0 else shown


# Tables ---------------------------------------------------------------------------------------------------------------


def entities(rivals: Rivals) -> Iterator[str]:
    """Yield F1 of named entities, for those with an unknown word and the others apart."""
    for task in TAGGED:
        found = compared(rivals, task, RIVALS)
        sizes = {group: int(found["zeros"][group][0, :, 2].sum()) for group in ("", "unknown")}
        yield f"### {task}\n\n{sizes['']:,} entities to find, {sizes['unknown']:,} with an unknown word. F1 x 100.\n"
        head = ["unknown words are", "entities with an unknown word", "other entities", "all", "the default's lead"]
        yield from table_lines(head, columns(found, ("unknown", "known", "")))
        yield ""


def tags(rivals: Rivals) -> Iterator[str]:
    """Yield accuracies of part-of-speech tags, for unknown words and the others apart."""
    found = compared(rivals, TREEBANK, RIVALS)
    sizes = {group: int(found["zeros"][group][0, :, 2].sum()) for group in ("", "unknown")}
    yield f"{TREEBANK}: {sizes['']:,} words, {sizes['unknown']:,} unknown. Accuracy x 100.\n"
    head = ["unknown words are", "unknown words", "other words", "all", "the default's lead"]
    yield from table_lines(head, columns(found, ("unknown", "known", "")))


def texts(rivals: Rivals) -> Iterator[str]:
    """Yield accuracies of texts with and without unknown words."""
    for task in LABELED[1:]:
        found = compared(rivals, task, RIVALS)
        size, has = (int(found["zeros"][group][0, :, 2].sum()) for group in ("", "unknown"))
        yield f"### {task}\n\n{size:,} texts, {has:,} with an unknown word. Accuracy x 100.\n"
        head = ["unknown words are", "texts with an unknown word", "other texts", "all", "the default's lead"]
        yield from table_lines(head, columns(found, ("unknown", "known", "")))
        yield ""


def typos(rivals: Rivals) -> Iterator[str]:
    """Yield accuracies on SST-2 by the share of words with a typo, and what misspelled training words change."""
    found = compared(rivals, "SST-2", (*RIVALS, *TYPOS))
    levels = [f"{level} %" for level in LEVELS]
    for one in found.values():
        one["all"] = np.concatenate(
            [one[level + ", "] if level + ", " in one else one[level] for level in levels], axis=1
        )
    groups = ("all", *levels)
    drawn = {(name, group): draws(one[group]) for name, one in found.items() for group in groups}
    yield "Accuracy x 100 by the share of misspelled words; the mean of all with its interval.\n"
    body = [
        [name, cell(score(drawn[name, "all"]), 1), *(f"{drawn[name, level][0]:.1f}" for level in levels)]
        for name in found
    ]
    yield from table_lines(["unknown words are", "mean", *levels], body)
    yield "\nThe default's lead over each, and that of models with misspelled training words over the default.\n"
    body = [
        [name, *(lead(drawn[BASE, group] - drawn[name, group]) for group in SHOWN)] for name in RIVALS if name != BASE
    ]
    body += [
        [f"{name}, over the default", *(lead(drawn[name, group] - drawn[BASE, group]) for group in SHOWN)]
        for name in TYPOS
    ]
    yield from table_lines(["", *("mean" if group == "all" else group for group in SHOWN)], body)


SHOWN = ("all", "0 %", "30 %", "60 %", "90 %")


def misspellings(rivals: Rivals) -> Iterator[str]:
    """Yield how well the right words of misspellings are found."""
    found = compared(rivals, "misspellings", ("bos", "pbos", DEFAULT, COMPOSED, RERANKED, EDITS, *TYPOS))
    size = found[DEFAULT]["MRR"].shape[1]
    yield f"{size:,} misspellings; 200,000 candidates. Percent, and 100 / rank.\n"
    head = ["search by", "first", "among ten", "MRR", *(f"among ten, {n} edits" for n in ("1", "2", "3 or more"))]
    groups = ("first", "ten", "MRR", *(f"ten, edits {n}" for n in (1, 2, 3)))
    yield from table_lines([*head, "the default's lead, first"], columns(found, groups))


def similarity(rivals: Rivals) -> Iterator[str]:
    """Yield Spearman's rho of pairs with unknown words, and of pairs of hidden words."""
    yield "Pairs of medical terms with at least one unknown word; rho x 100, and the default's lead.\n"
    yield from rhos(rivals, TERMS, RIVALS)
    yield "\nPairs of words that are all hidden from training.\n"
    yield from rhos(rivals, tuple(PAIRS), (NEAREST, "bos", "pbos", DEFAULT, *TYPOS))
    yield "\nCosines x 100 of hidden words with their true vectors.\n"
    found = compared(rivals, "hidden", ("mean", NEAREST, "bos", "pbos", DEFAULT, *TYPOS))
    yield from table_lines(["", "all", *GROUPS, "the default's lead"], columns(found, ("", *GROUPS)))


def rhos(rivals: Rivals, sets: tuple[str, ...], names: tuple[str, ...]) -> Iterator[str]:
    """Yield a table of word pairs."""
    body = {name: [name] for name in names}
    head = []
    for task in sets:
        found = compared(rivals, task, names)
        human = found[DEFAULT]["human"]
        head.append(f"{task} ({len(human)} pairs)")

        def measure(rows: Any, found: dict[str, Measured] = found, human: Any = human) -> dict[str, float]:
            rho = {name: spearman(one["near"][rows], human[rows]) for name, one in found.items()}
            return rho | {f"{name} lead": rho[BASE] - value for name, value in rho.items()}

        scores: dict[str, Score] = bootstrap(measure, len(human))
        for name in names:
            body[name] += [cell(scores[name], 1), "–" if name == BASE else as_lead(scores[f"{name} lead"])]
    yield from table_lines(["", *itertools.chain(*([one, "lead"] for one in head))], body.values())


def as_lead(one: Score) -> str:
    """Format a difference as `lead` does."""
    return lead(np.array([one.value, *np.linspace(one.low or 0, one.high or 0, 2)]))


def sentences(rivals: Rivals) -> Iterator[str]:
    """Yield Spearman's rho of pairs of sentences."""
    yield "STS-B: cosines of means by SIF with people's scores; rho x 100, and the default's lead.\n"
    yield from rhos(rivals, tuple(SENTENCES), (*RIVALS, *TYPOS))


def choose(rivals: Rivals) -> Iterator[str]:
    """Yield scores on development data by settings, with zeros for unknown words: how the settings were chosen."""
    body = []
    for tasks, settings in ((("WNUT17", "CoNLL-2003"), TAGGING), (("SST-2",), TEXTS)):
        for lr, dropout in itertools.product((1e-3, 3e-3), (0.3, 0.5)):
            tried = settings._replace(lr=lr, dropout=dropout, epochs=10)
            means = np.zeros(tried.epochs)
            for name, seed in itertools.product(tasks, range(2)):
                task = rivals.sources.task(name)[0]
                words = {word for items in (task.train, task.dev) for item in items for word in item[0]}
                prepared = Prepared(rivals, "zeros", words, task, name in LABELED)
                for epoch, network in enumerate(prepared.networks(task.train, tried, seed)):
                    means[epoch] += f1(np.sum(prepared.counts(network, task.dev)[""], axis=0)) / 2 / len(tasks)
            best = int(means.argmax())
            body.append([" ".join(tasks), f"{lr:g}", f"{dropout:g}", str(best + 1), f"{means[best]:.2f}"])
            say(" ".join(body[-1]))
    yield from table_lines(["task", "lr", "dropout", "best epoch", "score"], body)


EXPERIMENTS: dict[str, Callable[[Rivals], Iterator[str]]] = {
    "entities": entities,
    "tags": tags,
    "texts": texts,
    "typos": typos,
    "misspellings": misspellings,
    "similarity": similarity,
    "sentences": sentences,
    "choose": choose,
}
DEFAULTS = tuple(name for name in EXPERIMENTS if name != "choose")
