"""Writes the pages of `results/`, a short one and those with every table, and the pictures."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from experiments import data
from experiments.datasets import MULTILINGUAL, MULTILINGUAL_KINDS
from experiments.figures import by_dataset, draw_all
from experiments.report import (
    NOTES,
    Found,
    ablation_table,
    affix_table,
    by_label,
    known_summary,
    language_table,
    real_heldout_table,
    real_similarity_table,
    real_unseen_table,
    segmentation_table,
    similarity_groups,
    similarity_table,
    size_table,
    sources,
    tagging_summary,
    unseen_table,
    verdict,
)
from experiments.reproduce import HELDOUT, LANGUAGES, SIMILARITY, Runner
from experiments.rows import TABLES, read_rows
from pbos.evaluation.results import Result
from pbos.files.atomic import write_whole


def write_report(runner: Runner, folder: Path) -> list[Path]:
    """Write the pages and the pictures from the cached results; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {row: runner.cached(row) for row in read_rows()}
    losses = {row: runner.losses(row) for row in found if row.table == "similarity" and row.targets == "minilm-en"}
    figures = draw_all(found, {row.label: values for row, values in losses.items() if values}, folder)
    origin = f"Commit: `{commit()}`. Figures are ours unless they are marked as the paper's.\n"
    outdated = [row.name for row, results in found.items() if results and not runner.is_current(row)]
    if outdated:
        origin += f"Computed by earlier code: {', '.join(f'`{name}`' for name in outdated)}.\n"
    pages = {
        "paper.md": paper(found, origin, figures),
        "heldout.md": heldout(found, origin, figures),
        "published.md": published(found, origin, figures),
    }
    if {row.table for row, results in found.items() if results} == set(TABLES):  # its text speaks of all tables
        pages["README.md"] = front(found, origin)
    for name, lines in pages.items():
        with write_whole(folder / name) as stream:
            stream.write("\n".join(lines).encode())
    return [*(folder / name for name in pages), *figures]


def front(found: Found, origin: str) -> Iterable[str]:
    """Yield the short page, whose text is in `results.md`."""
    hidden = {row: results for row, results in found.items() if row.table == "real-unseen"}
    parts = {
        "hidden": real_unseen_table(hidden, ("RareWord", "SimLex999", "MEN")),
        "known": known_summary(similarity_groups(found)),
        "tagging": tagging_summary(by_label(found, "tagging")),
        "failing": (line.split(" (")[0].rstrip(".") + "." for line in orderings(found) if "does not hold" in line),
        "origin": [origin.rstrip()],
    }
    text = Path(__file__).with_name("results.md").read_text(encoding="utf-8")
    yield text.format(**{name: "\n".join(lines) for name, lines in parts.items()})


def paper(found: Found, origin: str, figures: list[Path]) -> Iterable[str]:
    """Yield the page of the paper's tables."""
    yield f"# The paper's tables\n\n{origin}"
    yield "All of them, by `python -m experiments reproduce all`; a single row by `--row NAME`. Where we do not have"
    yield "the paper's vectors, the table names the targets used instead.\n"
    yield from orderings(found)
    yield NOTES["originals"]
    for table, make in {
        "segmentation": segmentation_table,
        "affix": affix_table,
        "similarity": similarity_table,
        "unseen": unseen_table,
        "multilingual": lambda rows: language_table(
            rows, [f"{kind}-{code}" for code in MULTILINGUAL for kind in MULTILINGUAL_KINDS], 1
        ),
        "tagging": lambda rows: language_table(rows, list(LANGUAGES), 3),
    }.items():
        yield from section(found, figures, table, make)
        if table in ("unseen", "tagging"):
            yield from ahead(by_label(found, table))


def heldout(found: Found, origin: str, figures: list[Path]) -> Iterable[str]:
    """Yield the page of held-out words of the vectors that stand in for the paper's."""
    yield f"# Held-out words\n\n{origin}"
    yield from section(found, figures, "heldout", lambda rows: language_table(rows, list(HELDOUT), 3))
    yield from ahead(by_label(found, "heldout"))
    yield from section(found, figures, "ablation", ablation_table)
    yield from section(found, figures, "size", size_table)


def published(found: Found, origin: str, figures: list[Path]) -> Iterable[str]:
    """Yield the page of published vectors."""
    yield f"# Published vectors\n\n{origin}\n{NOTES['real']}\n"
    yield from sources()
    yield from section(found, figures, "real-similarity", real_similarity_table)
    yield from section(found, figures, "real-heldout", real_heldout_table)
    yield from section(found, figures, "real-unseen", lambda rows: real_unseen_table(rows, data.ENGLISH))


def section(found: Found, figures: list[Path], table: str, make: Callable[[Found], Iterable[str]]) -> Iterable[str]:
    """Yield the heading of a table, its note, the table and its pictures."""
    yield f"## {table.replace('-', ' ').capitalize()}\n\n{NOTES[table]}\n"
    yield from make({row: results for row, results in found.items() if row.table == table})
    yield from (f"\n![{figure.stem}]({figure.name})" for figure in figures if figure.stem.startswith(table))
    yield ""


def ahead(models: dict[str, dict[str, Result]]) -> Iterable[str]:
    """Yield where the default preset is ahead of the other models, and where it is not."""
    ours = models.pop("default", {})
    for label, theirs in models.items():
        gaps = {name: ours[name].main.value - theirs[name].main.value for name in ours if name in theirs}
        behind = [f"{name} ({gap:+.3g})" for name, gap in gaps.items() if gap <= 0]
        if gaps:
            text = f"- The default preset is ahead of {label} in {len(gaps) - len(behind)} of {len(gaps)}"
            yield f"{text}; not in {', '.join(behind)}." if behind else f"{text}."
    yield ""


def orderings(found: Found) -> Iterable[str]:
    """Yield whether the order of models that the paper claims holds in our results."""
    yield "## Orderings the paper claims\n"
    similar = {
        (row.targets, row.label): {name: result.main.value for name, result in by_dataset(results).items()}
        for row, results in found.items()
        if row.table == "similarity" and results
    }
    targets = list(dict.fromkeys(name for name, _ in similar))
    for benchmark in ("WS353", "Card-660"):
        for name in targets:
            if {(name, "PBoS"), (name, "BoS")} <= similar.keys():
                ours, bos = similar[name, "PBoS"][benchmark], similar[name, "BoS"][benchmark]
                yield f"- PBoS ahead of BoS on {benchmark}, {name}: {verdict(ours > bos)} ({ours:.1f} and {bos:.1f})."
    better = {}
    for label in ("BoS", "KVQ-FH", "PBoS-n", "PBoS"):
        cases = [
            similar[name, label][test] > similar[name, "targets alone"][test]
            for name in targets
            if {(name, label), (name, "targets alone")} <= similar.keys()
            for test in SIMILARITY[:3]
        ]
        if cases:
            better[label] = all(cases)
            yield f"- {label} improves on the targets alone in {sum(cases)} of {len(cases)} cases."
    if "PBoS" in better:
        only = [label for label, every in better.items() if every] == ["PBoS"]
        yield f"- PBoS is the only one that improves on the targets alone in every case: {verdict(only)}."
    tags = by_label(found, "tagging")
    pbos = tags.get("PBoS", {})
    for label in ("BoS, with boundaries", "BoS, without boundaries", "KVQ-FH"):
        both = [name for name in LANGUAGES if name in pbos and name in tags.get(label, {})]
        won = {name: pbos[name].main.value > tags[label][name].main.value for name in both}
        if won:
            holds = verdict(sum(won.values()) >= 0.9 * len(won))
            behind = ", ".join(name for name, ahead in won.items() if not ahead) or "none"
            counted = f"{sum(won.values())} of {len(won)}; not: {behind}"
            yield f"- PBoS ahead of {label} in tagging in nearly all languages: {holds} ({counted})."
    yield ""


def commit() -> str:
    """Return the commit of this checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
