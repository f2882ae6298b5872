"""Measure how time and memory grow with words, dimensions, letters and threads; draw docs/scale.png.

    python benchmarks/scale.py                          (all points, then table and figure)
    python benchmarks/scale.py --points words dims      (only these curves; --points alone measures nothing)

Each point is measured in a separate process and saved in benchmarks/.cache/scale.jsonl; points that are already there
are not measured again. Words are synthetic (see `make_words`), because no list of millions of words is available.
Training uses the preset default with a fixed lam; its peak memory includes the given words and vectors. Both wall-clock
time and CPU time of all threads are measured. The exponents are fitted to CPU time, which is more reliable on a shared
machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measure import CACHE, DATA

RESULTS = CACHE / "scale.jsonl"
FIGURE = Path(__file__).resolve().parents[1] / "docs" / "scale.png"

POINTS = {
    "words": [10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000],
    "dims": [64, 128, 256, 512, 1024],
    "letters": [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000],
    "threads": [n for n in (1, 2, 4, 8, 16, 32) if n <= (os.cpu_count() or 1)],
    "real words": [10_000, 30_000, 100_000, 300_000],
}
WORDS, DIMS = 30_000, 64  # for curves that vary something else
THREADS_DIMS = 256
LAM = 0.001
ORDER = 4  # of the Markov chain: letters of context
LETTERS = 27  # with the word boundary
LONGEST = 40  # letters in a word
ROWS = 1 << 16  # vectors made at a time


# -- words and vectors -------------------------------------------------------------------------------------------------


def real_words() -> list[str]:
    """Return the lower-case ASCII words of the unigram list, most frequent first."""
    from pbos import WordCounts

    words = WordCounts.read(DATA / "unigram_freq.csv").words
    return [word for word in words if word.isascii() and word.isalpha() and word.islower()]


def make_words(n_words: int) -> list[str]:
    """Generate distinct words with a Markov chain over the letters of real words, in the order they are drawn.

    Probable words come first, as in a frequency list, so the counts that `train` derives from ranks follow Zipf's law.
    The chain generates too many long words, so words are accepted at a rate per length that gives the real lengths.
    """
    real = real_words()
    random, chances = np.random.default_rng(0), transitions(real)
    wanted = np.bincount([min(len(word), LONGEST) for word in real], minlength=LONGEST + 1)
    made = np.bincount([len(word) for word in draw(chances, 1_000_000, random)], minlength=LONGEST + 1)
    keep = np.divide(wanted, made, out=np.zeros(LONGEST + 1), where=made > 1000)
    keep /= keep.max()
    words: dict[str, None] = {}
    while len(words) < n_words:
        drawn = draw(chances, 1_000_000, random)
        lengths = np.fromiter(map(len, drawn), np.int64, len(drawn))
        words.update(dict.fromkeys(itertools.compress(drawn, random.random(len(drawn)) < keep[lengths])))
    return list(itertools.islice(words, n_words))


def transitions(words: list[str]) -> np.ndarray:
    """Return the cumulative probabilities of the letter after each ORDER letters; letter 0 is the word boundary."""
    boundary = "`" * ORDER  # the character before "a"
    letters = np.frombuffer((boundary + boundary.join(words) + boundary).encode(), np.uint8).astype(np.int64) - ord("`")
    following = letters[ORDER:]
    before = np.zeros(following.size, np.int64)
    for k in range(ORDER):
        before = before * LETTERS + letters[k : k + before.size]
    valid = np.where(before == 0, following > 0, before % LETTERS > 0)  # not within a boundary
    counts = np.bincount(before[valid] * LETTERS + following[valid], minlength=LETTERS ** (ORDER + 1))
    sums = np.cumsum(counts.reshape(-1, LETTERS), axis=1)
    return (sums / np.maximum(sums[:, -1:], 1)).astype(np.float32)


def draw(chances: np.ndarray, n_words: int, random: np.random.Generator) -> list[str]:
    """Draw words, possibly with duplicates."""
    letters = np.zeros((n_words, LONGEST), np.uint8)
    unfinished, before = np.arange(n_words), np.zeros(n_words, np.int64)
    for place in range(LONGEST):
        following = (random.random(unfinished.size, np.float32)[:, None] >= chances[before]).sum(axis=1)
        unfinished, before, following = (array[following > 0] for array in (unfinished, before, following))
        letters[unfinished, place] = following + ord("`")
        before = (before * LETTERS + following) % LETTERS**ORDER
    return letters.view(f"S{LONGEST}")[:, 0].astype(str).tolist()


def read_words(n_words: int, kind: str = "synthetic") -> tuple[list[str], list[str]]:
    """Return the training words, and as many unseen words, which follow them in the list."""
    if kind == "real":
        words = real_words()
        return words[:n_words], words[n_words : 2 * n_words] or words[:1]
    with (CACHE / "words.txt").open(encoding="ascii") as file:
        words = [line[:-1] for line in itertools.islice(file, 2 * n_words)]
    return words[:n_words], words[n_words:]


def make_vectors(words: list[str], dims: int) -> Iterator[np.ndarray]:
    """Yield unit vectors, ROWS at a time, half determined by the first and last three letters, half random."""
    random = np.random.default_rng(0)
    ends = []
    for part in (slice(None, 3), slice(-3, None)):
        pieces, numbers = np.unique([word[part] for word in words], return_inverse=True)
        ends.append((random.standard_normal((pieces.size, dims), np.float32), numbers))
    for first in range(0, len(words), ROWS):
        rows = slice(first, min(first + ROWS, len(words)))
        vectors = random.standard_normal((rows.stop - rows.start, dims), np.float32) * np.float32(np.sqrt(2))
        for own, numbers in ends:
            vectors += own[numbers[rows]]
        yield vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def make_table(n_words: int, dims: int) -> Path:
    """Return a folder of synthetic words and vectors, which is written a few rows at a time if it is not there."""
    folder = CACHE / f"table-{n_words}-{dims}"
    if not folder.exists():
        folder.mkdir(parents=True)
        words = make_words(n_words)
        (folder / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="ascii")
        vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (n_words, dims))
        for number, rows in enumerate(make_vectors(words, dims)):
            vectors[number * ROWS : number * ROWS + len(rows)] = rows
    return folder


# -- one point, in its own process -------------------------------------------------------------------------------------


def memory_peak() -> float:
    """Return the peak memory in GiB since the last call, and reset it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return kib / 2**20


class Clock:
    """Wall-clock time and CPU time since its creation."""

    def __init__(self) -> None:
        self.started = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return both times, in seconds."""
        return {"seconds": time.perf_counter() - self.started[0], "cpu": time.process_time() - self.started[1]}


class Steps:
    """Records the time and peak memory of selected functions."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self.peak = 0.0

    def watch(self, owner, name: str, label: str) -> None:
        """Measure a function of a module or class from now on, under a label."""
        function = getattr(owner, name)

        def watched(*arguments, **named):
            self.peak = max(self.peak, memory_peak())
            clock = Clock()
            result = function(*arguments, **named)
            step = clock.read() | {"gib": memory_peak()}
            self.steps[label] = {key: round(value, 4) for key, value in step.items()}
            self.peak = max(self.peak, step["gib"])
            return result

        setattr(owner, name, watched)


def best(function, max_seconds: float = 10.0, times: int = 7) -> dict[str, float]:
    """Return the best times of several runs, and the peak memory; fewer runs if they take long."""
    memory_peak()
    runs: list[dict[str, float]] = []
    while len(runs) < times and sum(run["seconds"] for run in runs) < max_seconds:
        clock = Clock()
        function()
        runs.append(clock.read())
    return {key: min(run[key] for run in runs) for key in runs[0]} | {"gib": memory_peak()}


def training(words: int, dims: int, threads: int | None, kind: str, model: str) -> dict[str, dict]:
    """Measure training, step by step, and save the model."""
    import pbos
    from pbos.training import solve as solvers
    from pbos.training import train as training

    given, _ = read_words(words, kind)
    vectors = np.concatenate(list(make_vectors(given, dims)))

    def train(n_words: int) -> pbos.Model:
        pair = given[:n_words], vectors[:n_words]
        return pbos.train(pair, lam=LAM, threads=threads, progress=False)

    train(500)  # loads the kernels
    steps = Steps()
    steps.watch(training, "make_index", "index")
    steps.watch(training, "make_system", "weights")
    steps.watch(solvers.Ridge, "__init__", "equations")
    steps.watch(solvers.Ridge, "solve", "solver")
    sizes: list[int] = []  # numbers of weights
    fit = training.fit

    def counted(system, *arguments):
        sizes.append(system.weights.data.size)
        return fit(system, *arguments)

    training.fit = counted
    made: list[pbos.Model] = []

    def run() -> None:
        made.clear()
        made.append(train(words))

    found = best(run, times=3)
    made[0].save(model)
    facts = {
        "gib": max(steps.peak, found["gib"]),
        "steps": steps.steps,  # of the last run
        "spans": sum((len(word) + 2) * (len(word) + 3) // 2 for word in given),  # with boundary marks
        "weights": sizes[-1],
        "subwords": len(made[0].index),
        "columns": len(made[0].subword_vectors),
        "iterations": made[0].info["training"]["iterations"],
    }
    return {"train": found | facts}


def embedding(words: int, dims: int, threads: int | None, kind: str, model: str) -> dict[str, dict]:
    """Measure embedding unseen words with a saved model."""
    import pbos

    _, unseen = read_words(words, kind)
    loaded = pbos.load(model)
    loaded.embed(unseen[:500], threads=threads)
    return {"embed": best(lambda: loaded.embed(unseen, threads=threads))}


def long_words(letters: int) -> dict[str, dict]:
    """Measure one long word, made by joining other words."""
    import pbos

    model = pbos.load()
    text = "".join(read_words(max(letters, 100))[1])
    word, calls = (text * (letters // len(text) + 1))[:letters], max(10_000 // letters, 1)
    results = {}
    for name, function in {"embed": model.__getitem__, "segment": model.segment}.items():
        function(word)
        found = best(lambda function=function: [function(word) for _ in range(calls)], 3.0)
        results[name] = {key: value if key == "gib" else value / calls for key, value in found.items()}
    return results


# -- all points --------------------------------------------------------------------------------------------------------


def run_point(curve: str, x: int) -> list[dict]:
    """Run the processes of a point; return one result per step."""
    if curve == "letters":
        found = in_process("long_words", letters=x)
    else:
        model = CACHE / f"model-{curve.replace(' ', '-')}-{x}"
        point = {"words": WORDS, "dims": THREADS_DIMS if curve == "threads" else DIMS, "threads": None}
        point |= {curve.removeprefix("real "): x, "model": str(model)}
        point["kind"] = "real" if curve == "real words" else "synthetic"
        found = in_process("training", **point)
        if curve != "real words":  # no unseen real words are left to embed
            found |= in_process("embedding", **point)
        shutil.rmtree(model)
    return [{"curve": curve, "x": x, "step": step, **one} for step, one in found.items()]


def in_process(function: str, **arguments) -> dict[str, dict]:
    """Call a function of this file in a new process; return its result."""
    command = [sys.executable, __file__, "--task", json.dumps([function, arguments])]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


def read_results() -> list[dict]:
    """Return the last result of every step of every point."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    results = {(one["curve"], one["x"], one["step"]): one for one in map(json.loads, lines)}
    return sorted(results.values(), key=lambda one: one["x"])


def curves_of(results: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Return the points by curve and step."""
    kinds = itertools.product(POINTS, ("train", "embed", "segment"))
    curves = {kind: [one for one in results if (one["curve"], one["step"]) == kind] for kind in kinds}
    return {kind: points for kind, points in curves.items() if points}


def exponents(points: list[dict], x: str, y: str) -> str:
    """Return the slopes of the regression lines in log-log space: of all points, and of the last three."""

    def slope(points: list[dict]) -> float:
        return np.polyfit(*(np.log([one[key] for one in points]) for key in (x, y)), 1)[0]

    return f"{slope(points):.2f} ({slope(points[-3:]):.2f})"


def time_key(curve: str) -> str:
    """Return which time to report: threads only reduce wall-clock time."""
    return "seconds" if curve == "threads" else "cpu"


def table(*rows: list) -> list[str]:
    """Return the lines of a Markdown table, of which the first row has the heads."""
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def tables(results: list[dict]) -> str:
    """Return the results as Markdown: a table of exponents, then one of training by number of words."""
    curves = curves_of(results)
    rows = [["against", "step", "first point", "last point", "exponent of time (last three)", "of memory (last three)"]]
    for (curve, step), points in curves.items():
        key = time_key(curve)
        ends = [f"{one['x']:,}: {time_of(one[key])}, {one['gib']:.2f} GiB" for one in (points[0], points[-1])]
        if len(points) > 1:
            rows.append([curve, step, *ends, *(exponents(points, "x", y) for y in (key, "gib"))])
    points = curves.get(("words", "train"), [])
    if len(points) > 1:  # words have more weights in a longer list, because they share more subwords
        ends = [f"{one['weights']:,}" for one in (points[0], points[-1])]
        rows.append(
            ["weights of the words", "train", *ends, *(exponents(points, "weights", y) for y in ("cpu", "gib"))]
        )
    steps = "index", "weights", "equations", "solver"
    heads = ["training", "spans per word", "weights per word", "iterations", "time", "µs per weight", *steps]
    body = [[*heads, "peak memory", "subwords", "vectors"]]
    for one in points + curves.get(("real words", "train"), []):
        name = f"{one['x']:,}" + (" real" if one["curve"] == "real words" else "")
        parts = [f"{one['steps'][step]['cpu']:.3g} s, {one['steps'][step]['gib']:.2f} GiB" for step in steps]
        work = f"{one['spans'] / one['x']:.1f}", f"{one['weights'] / one['x']:.1f}", one["iterations"]
        times = time_of(one["cpu"]), f"{1e6 * one['cpu'] / one['weights']:.2f}"
        body.append(
            [name, *work, *times, *parts, f"{one['gib']:.2f} GiB", f"{one['subwords']:,}", f"{one['columns']:,}"]
        )
    return "\n".join([*table(*rows), "", *table(*body)])


def time_of(seconds: float) -> str:
    """Format a time.

    >>> time_of(0.00213)
    '2.13 ms'
    """
    unit, size = next((one for one in (("s", 1), ("ms", 1e-3)) if seconds >= one[1]), ("µs", 1e-6))
    return f"{seconds / size:.3g} {unit}"


def draw_figure(results: list[dict]) -> None:
    """Draw two panels per curve: time above, memory below; dashed lines are proportional to the largest point."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    curves = curves_of(results)
    looks = {  # distinguishable by marker and lightness too
        "train": {"color": "#0b3c6f", "marker": "o", "label": "training"},
        "embed": {"color": "#d9822b", "marker": "s", "label": "embedding"},
        "segment": {"color": "#4f9d69", "marker": "^", "label": "segmentation"},
    }
    labels = {
        "words": f"words ({DIMS} dimensions)",
        "dims": f"dimensions ({WORDS:,} words)",
        "letters": "letters of one word",
        "threads": f"threads ({WORDS:,} words x {THREADS_DIMS})",
    }
    dashed = {"linestyle": "--", "color": "0.6"}
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, len(labels), figsize=(14, 6.4), sharex="col")
    for (curve, label), (times, memories) in zip(labels.items(), axes.T, strict=True):
        for panel, key in ((times, time_key(curve)), (memories, "gib")):
            for step, look in looks.items():
                points = curves.get((curve, step), [])
                x, y = (np.array([one[what] for one in points]) for what in ("x", key))
                panel.plot(x, y, linewidth=2, markersize=6, **look)
                if points and (key != "gib" or (curve, step) == ("words", "train")):
                    largest = int(np.argmax(y))
                    panel.plot(x, y[largest] * (x / x[largest]) ** (-1.0 if curve == "threads" else 1.0), **dashed)
            panel.set(xscale="log", yscale="log")
            panel.grid(True, color="0.9", linewidth=0.8)
            if curve in ("dims", "threads"):
                panel.set_xticks(POINTS[curve], [str(one) for one in POINTS[curve]])
                panel.minorticks_off()
        times.set_ylabel("seconds" if curve == "threads" else "CPU seconds")
        memories.set(xlabel=label, ylabel="peak memory (GiB)", ylim=(0.1, 20))
        memories.set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
        memories.minorticks_off()
    lines = [plt.Line2D([], [], linewidth=2, **look) for look in looks.values()]
    lines.append(plt.Line2D([], [], label="proportional", **dashed))
    figure.legend(handles=lines, loc="upper center", ncols=len(lines), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    """Measure what is not there, then print the tables and draw the figure; or do the task of a process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", nargs="*", default=list(POINTS), metavar="CURVE", help=f"of: {', '.join(POINTS)}")
    parser.add_argument("--most", type=int, default=10**9, help="skip points above this number")
    parser.add_argument("--task", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        function, arguments = options.task
        print(json.dumps(globals()[function](**arguments)))
        return
    CACHE.mkdir(exist_ok=True)
    if options.points and not (CACHE / "words.txt").exists():
        words = make_words(2 * max(POINTS["words"]))
        (CACHE / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="ascii")
    done = {(one["curve"], one["x"]) for one in read_results()}
    for curve in options.points:
        for x in POINTS[curve]:
            if (curve, x) not in done and x <= options.most:
                for result in run_point(curve, x):
                    print(json.dumps(result), flush=True)
                    with RESULTS.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(result) + "\n")
    print("\n" + tables(read_results()))
    draw_figure(read_results())


if __name__ == "__main__":
    main()
