"""What Dask costs on one machine: the same jobs on threads of one process and on processes of a LocalCluster.

    python benchmarks/cluster.py            (about ten minutes; draws docs/pictures/tasks.png)

Trains on 30,000 and 100,000 synthetic words x 300 (30,000 is a thousandth of 30 million), counts co-occurrences of a
text of 20 million synthetic words, and embeds a million unseen words. Results must be the same byte for byte. Times are
wall-clock times, best of two, without starting the cluster. The picture shows which worker did which part of a
training when, as Dask's dashboard does.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measure import CACHE
from scale import make_table, read_words

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "tasks.png"
WORKERS, TIMES = os.cpu_count() or 2, 2
LINES, LINE = 1_000_000, 20  # of the text
COLORS = ("#8c8c8c", "#b8b8b8", "#c44e52", "#dd8452", "#937860", "#4c72b0", "#55a868", "#8172b3")


def make_text(path: Path) -> None:
    """Write a text whose words follow Zipf's law."""
    words, _ = read_words(200_000)
    random = np.random.default_rng(0)
    chances = 1 / np.arange(1, len(words) + 1)
    numbers = random.choice(len(words), (LINES, LINE), p=chances / chances.sum())
    with path.open("w", encoding="ascii") as file:
        file.writelines(" ".join([words[row] for row in line]) + "\n" for line in numbers.tolist())


def same(one: Path, other: Path) -> bool:
    """Return whether two folders have the same files."""
    names = sorted(path.name for path in one.iterdir() if path.name != "_job.json")
    match, *_ = filecmp.cmpfiles(one, other, names, shallow=False)
    return sorted(match) == names


def compare(name: str, job: Callable, client, folder: Path) -> dict:
    """Measure a job here and there."""
    seconds = {}
    for place, scheduler in (("threads", None), ("dask", client)):
        for _ in range(TIMES):
            shutil.rmtree(folder / place, ignore_errors=True)
            started = time.perf_counter()
            job(folder / place, scheduler)
            seconds[place] = min(time.perf_counter() - started, seconds.get(place, np.inf))
    assert same(folder / "threads", folder / "dask"), name
    print(json.dumps({"job": name, **{place: round(value, 2) for place, value in seconds.items()}}), flush=True)
    return seconds


def draw(tasks: list[dict], title: str) -> None:
    """Draw which worker did what when."""
    import matplotlib.pyplot as plt

    bars = []
    for task in tasks:
        stage = task["key"].rsplit("-", 2)[0]
        bars += [
            (task["worker"], stage, one["start"], one["stop"])
            for one in task["startstops"]
            if one["action"] == "compute"
        ]
    first = min(start for *_, start, _ in bars)
    workers = sorted({worker for worker, *_ in bars})
    stages = list(dict.fromkeys(stage for _, stage, *_ in sorted(bars, key=lambda bar: bar[2])))
    figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
    for stage, color in zip(stages, COLORS, strict=False):
        for row, worker in enumerate(workers):
            spans = [(start - first, stop - start) for who, what, start, stop in bars if (who, what) == (worker, stage)]
            axes.broken_barh(spans, (row + 0.1, 0.8), color=color, label=stage if row == 0 else None, linewidth=0)
    axes.set(title=title, xlabel="seconds", yticks=[row + 0.5 for row in range(len(workers))])
    axes.set_yticklabels([f"worker {row + 1}" for row in range(len(workers))])
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    """Measure and draw."""
    from distributed import Client, LocalCluster, get_task_stream

    import pbos

    text = CACHE / "text.txt"
    if not text.exists():
        make_text(text)
    _, unseen = read_words(1_000_000)
    tables = {n_words: make_table(n_words, 300) for n_words in (30_000, 100_000)}
    options = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    scratch = tempfile.TemporaryDirectory(dir=CACHE)
    with scratch as place, LocalCluster(**options) as cluster, Client(cluster) as client:
        folder = Path(place)
        words = folder / "words.txt"
        words.write_text("".join(f"{word}\n" for word in unseen), encoding="ascii")

        def train(n_words: int, output: Path, scheduler) -> None:
            pbos.train(tables[n_words], output=output, scheduler=scheduler, threads=WORKERS, progress=False)

        def count(output: Path, scheduler) -> None:
            output.mkdir()
            pbos.count(text, output / "counts.tsv", scheduler=scheduler, threads=WORKERS, progress=False)

        def embed(output: Path, scheduler) -> None:
            pbos.embed_files(None, words, output, scheduler=scheduler, threads=WORKERS, progress=False)

        compare("embed a million words", embed, client, folder)
        compare("count 20 million words", count, client, folder)
        compare("train 30,000 words x 300", lambda *where: train(30_000, *where), client, folder)
        compare("train 100,000 words x 300", lambda *where: train(100_000, *where), client, folder)
        shutil.rmtree(folder / "dask")
        with get_task_stream(client) as tasks:
            train(100_000, folder / "dask", client)
        draw(tasks.data, f"training on 100,000 words x 300, {WORKERS} workers")


if __name__ == "__main__":
    main()
