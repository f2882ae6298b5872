"""Train on a large table within a limit of memory, and draw how much memory the process has allocated over time.

    python benchmarks/memory.py 3000000 300 8G      (half an hour and 40 GB of disk; draws docs/pictures/memory.png)

Words and vectors are synthetic, as in scale.py. The memory is what the process has allocated (RssAnon); mapped files
are not counted, since the system can drop them at any time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import threading
import time
from pathlib import Path

import numpy as np
from measure import CACHE
from scale import make_table

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "memory.png"
STEP = 0.25  # seconds between samples
STAGES = {  # by the names of the newest files
    "counted": "count subwords",
    "em": "fit probabilities",
    "part": "weigh words",
    "merged": "weigh words",
    "weights": "weigh words",
    "tuning": "choose lam",
    "rows": "choose lam",
    "calibration": "fit confidence",
    "facts": "fit confidence",
    "tuned": "solve dimensions",
    "own": "solve dimensions",
    "vectors": "solve dimensions",
}


def allocated() -> float:
    """Return what this process has allocated, in GiB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 2**20


def stage_of(parts: Path) -> str:
    """Return what is being done, by the newest file."""
    files = {path: path.stat().st_mtime for path in parts.glob("[a-z]*")} if parts.is_dir() else {}
    newest = max(files, key=files.__getitem__).name if files else ""
    return next((stage for start, stage in STAGES.items() if newest.startswith(start)), "read words")


def train(table: Path, model: Path, memory: str, samples: list[dict]) -> dict:
    """Train, and sample the memory meanwhile."""
    import pbos

    started, done = time.time(), threading.Event()

    def watch() -> None:
        while not done.wait(STEP):
            try:
                stage = stage_of(model.with_name(f"{model.name}.parts"))
            except FileNotFoundError:  # it was just removed
                continue
            samples.append({"seconds": time.time() - started, "gib": allocated(), "stage": stage})

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        made = pbos.train(table, output=model, memory=memory, dtype="float16", progress=False)
    finally:
        done.set()
        watcher.join()
    return {
        "seconds": time.time() - started,
        "cpu": time.process_time(),
        "peak": max(sample["gib"] for sample in samples),
        "vectors": len(made.subword_vectors),
        "training": made.info["training"],
    }


def draw(samples: list[dict], limit: float, title: str) -> None:
    """Draw the memory over time, with the stages."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    minutes = np.array([sample["seconds"] for sample in samples]) / 60
    axes.fill_between(minutes, [sample["gib"] for sample in samples], color="#4878a8", linewidth=0, alpha=0.8)
    axes.axhline(limit, color="#b03030", linestyle="--")
    axes.text(0, limit, " allowed", color="#b03030", va="bottom")
    stages = [sample["stage"] for sample in samples]
    starts = [row for row in range(len(stages)) if row == 0 or stages[row] != stages[row - 1]]
    for start, end in zip(starts, [*starts[1:], len(stages)], strict=True):
        if minutes[end - 1] - minutes[start] > 0.015 * minutes[-1]:
            axes.axvline(minutes[start], color="gray", linewidth=0.5)
            axes.text(minutes[start], 0.98 * limit, f" {stages[start]}", rotation=90, va="top", fontsize=8)
    axes.set(
        xlabel="minutes", ylabel="allocated memory, GiB", title=title, ylim=(0, 1.1 * limit), xlim=(0, minutes[-1])
    )
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    """Measure and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", type=int)
    parser.add_argument("dims", type=int)
    parser.add_argument("memory")
    options = parser.parse_args()
    table, model = make_table(options.words, options.dims), CACHE / "model-within-memory"
    samples: list[dict] = []
    result = train(table, model, options.memory, samples)
    size = sum(path.stat().st_size for path in model.iterdir())
    shutil.rmtree(model)
    print(json.dumps({**result, "model_bytes": size}))
    draw(
        samples, float(options.memory.rstrip("G")), f"{options.words:,} words x {options.dims} within {options.memory}"
    )


if __name__ == "__main__":
    main()
