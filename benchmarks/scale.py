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
import contextlib
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("PBOS_DATA") or HERE.parents[1] / "shared" / "data")
CACHE = HERE / ".cache"
RESULTS = CACHE / "scale.jsonl"
FIGURE = HERE.parent / "docs" / "scale.png"

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
    random, chances, real = np.random.default_rng(0), transitions(real_words()), real_lengths()
    made = np.bincount([len(word) for word in draw(chances, 1_000_000, random)], minlength=LONGEST + 1)
    keep = np.divide(real, made, out=np.zeros(LONGEST + 1), where=made > 1000)
    keep /= keep.max()
    words: dict[str, None] = {}
    while len(words) < n_words:
        drawn = draw(chances, 1_000_000, random)
        lengths = np.fromiter(map(len, drawn), np.int64, len(drawn))
        words.update(dict.fromkeys(itertools.compress(drawn, random.random(len(drawn)) < keep[lengths])))
    return list(itertools.islice(words, n_words))


def real_lengths() -> np.ndarray:
    """Return how many real words there are of each length."""
    return np.bincount([min(len(word), LONGEST) for word in real_words()], minlength=LONGEST + 1)


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


def make_vectors(words: list[str], dims: int) -> np.ndarray:
    """Return unit vectors, half determined by the first and last three letters of each word and half random."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((len(words), dims), np.float32)
    vectors *= np.float32(np.sqrt(2))
    for part in (slice(None, 3), slice(-3, None)):
        pieces, numbers = np.unique([word[part] for word in words], return_inverse=True)
        own = random.standard_normal((pieces.size, dims), np.float32)
        for first in range(0, len(words), 1 << 16):
            vectors[first : first + (1 << 16)] += own[numbers[first : first + (1 << 16)]]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


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
    """Return the best times of several runs; fewer runs if they take long."""
    runs: list[dict[str, float]] = []
    while len(runs) < times and sum(run["seconds"] for run in runs) < max_seconds:
        clock = Clock()
        function()
        runs.append(clock.read())
    return {key: min(run[key] for run in runs) for key in runs[0]}


def training(words: int, dims: int, threads: int | None, kind: str, model: str) -> dict:
    """Measure training, step by step, and save the model."""
    import pbos
    from pbos import solvers, training

    given, _ = read_words(words, kind)
    vectors = make_vectors(given, dims)

    def train(n_words: int) -> pbos.Model:
        pair = given[:n_words], vectors[:n_words]
        return pbos.train(pair, lam=LAM, threads=threads, progress=False)

    train(500)  # loads the kernels
    steps = Steps()
    for owner, name, label in (
        (training, "make_index", "index"),
        (training, "make_system", "weights"),
        (solvers.Ridge, "__init__", "equations"),
        (solvers.Ridge, "solve", "solver"),
    ):
        steps.watch(owner, name, label)
    sizes: list[int] = []  # numbers of weights
    solve = training.solve

    def counted(system, *arguments):
        sizes.append(system.weights.data.size)
        return solve(system, *arguments)

    training.solve = counted
    memory_peak()
    before = memory_peak()
    made: list[pbos.Model] = []

    def run() -> None:
        made.clear()
        made.append(train(words))

    result = {
        **best(run, times=3),
        "gib": max(steps.peak, memory_peak()),
        "gib_before": before,
        "steps": steps.steps,  # of the last run
        "spans": sum((len(word) + 2) * (len(word) + 3) // 2 for word in given),  # with boundary marks
        "weights": sizes[-1],
        "subwords": len(made[0].index),
        "columns": len(made[0].subword_vectors),
        "iterations": made[0].info["training"]["iterations"],
    }
    made[0].save(model)
    return result


def embedding(words: int, dims: int, threads: int | None, kind: str, model: str) -> dict:
    """Measure embedding unseen words with a saved model."""
    import pbos

    _, unseen = read_words(words, kind)
    loaded = pbos.load(model)
    loaded.embed(unseen[:500], threads=threads)
    memory_peak()
    before = memory_peak()
    seconds = best(lambda: loaded.embed(unseen, threads=threads))
    return {**seconds, "gib": memory_peak(), "gib_before": before, "words": len(unseen)}


def long_words(letters: int) -> dict[str, dict]:
    """Measure one long word, made by joining other words."""
    import pbos

    model = pbos.load()
    text = "".join(read_words(max(letters, 100))[1])
    results = {}
    word = (text * (letters // len(text) + 1))[:letters]
    for name, function in {"embed": model.__getitem__, "segment": model.segment}.items():
        function(word)
        memory_peak()
        before = memory_peak()
        calls = max(10_000 // letters, 1)
        seconds = best(lambda calls=calls, function=function: [function(word) for _ in range(calls)], 3.0)
        seconds = {key: value / calls for key, value in seconds.items()}
        results[name] = {**seconds, "gib": memory_peak(), "gib_before": before}
    return results


# -- all points --------------------------------------------------------------------------------------------------------


def settings(curve: str, x: int) -> dict:
    """Return the training settings of a point."""
    point = {"words": WORDS, "dims": DIMS, "threads": None, "kind": "real" if curve == "real words" else "synthetic"}
    if curve == "threads":
        point["dims"] = THREADS_DIMS
    return point | {curve.removeprefix("real "): x}


def run_point(curve: str, x: int, most_gib: float) -> list[dict]:
    """Run the processes of a point; return one result per step."""
    if curve == "letters":
        found = in_process({"function": "long_words", "letters": x}, most_gib)
        return [{"curve": curve, "x": x, "step": step, **one} for step, one in found.items()]
    model = str(CACHE / f"model-{curve.replace(' ', '-')}-{x}")
    results = []
    steps = [("train", "training"), ("embed", "embedding")]
    for step, function in steps[:1] if curve == "real words" else steps:  # no unseen real words are left to embed
        found = in_process({"function": function, **settings(curve, x), "model": model}, most_gib)
        results.append({"curve": curve, "x": x, "step": step, **found})
        if "failed" in found:
            break
    shutil.rmtree(model, ignore_errors=True)
    return results


def in_process(task: dict, most_gib: float) -> dict:
    """Run a task in a new process; return its result, or its error as "failed"."""
    command = [sys.executable, __file__, "--task", json.dumps(task), "--most-gib", str(most_gib)]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        return {"failed": (process.stderr.strip() or f"exit status {process.returncode}")[-2000:]}
    return json.loads(process.stdout.splitlines()[-1])


def run_task(task: dict, most_gib: float) -> None:
    """Run one step in this process, with limited memory; exceeding the limit fails with a traceback."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(most_gib * 2**30),) * 2)
    function = {"training": training, "embedding": embedding, "long_words": long_words}[task.pop("function")]
    print(json.dumps(function(**task)))


def read_results() -> list[dict]:
    """Return the last result of every step of every point."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    results = {(one["curve"], one["x"], one["step"]): one for one in map(json.loads, lines)}
    return sorted(results.values(), key=lambda one: one["x"])


def slope(points: list[dict], x: str, y: str) -> float:
    """Return the fitted exponent: the slope of the regression line in log-log space."""
    return float(np.polyfit(np.log([one[x] for one in points]), np.log([one[y] for one in points]), 1)[0])


def time_key(curve: str) -> str:
    """Return which time to report: threads only reduce wall-clock time."""
    return "seconds" if curve == "threads" else "cpu"


def curves_of(results: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """Return the successful points, by curve and step."""
    curves: dict[tuple[str, str], list[dict]] = {}
    for curve in POINTS:
        for step in ("train", "embed", "segment"):
            points = [one for one in results if (one["curve"], one["step"]) == (curve, step) and "failed" not in one]
            if points:
                curves[curve, step] = points
    return curves


def row(*cells) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def tables(results: list[dict]) -> str:
    """Return the results as Markdown: a table of exponents, then one of training by number of words."""
    curves = curves_of(results)
    heads = (
        "variable",
        "step",
        "first point",
        "last point",
        "time exponent (last three)",
        "memory exponent (last three)",
    )
    lines = [row(*heads), row(*["---"] * len(heads))]
    for (curve, step), points in curves.items():
        key = time_key(curve)
        ends = [f"{one['x']:,}: {time_of(one[key])}, {one['gib']:.2f} GiB" for one in (points[0], points[-1])]
        if len(points) > 1:
            fits = [f"{slope(points, 'x', y):.2f} ({slope(points[-3:], 'x', y):.2f})" for y in (key, "gib")]
            lines.append(row(curve, step, *ends, *fits))
    points = curves.get(("words", "train"), [])
    if len(points) > 1:  # words have more weights in a longer list, because they share more subwords
        fits = [f"{slope(points, 'weights', y):.2f} ({slope(points[-3:], 'weights', y):.2f})" for y in ("cpu", "gib")]
        ends = [f"{one['weights']:,}" for one in (points[0], points[-1])]
        lines.append(row("weights", "train", *ends, *fits))
    steps = "index", "weights", "equations", "solver"
    heads = (
        "training",
        "spans per word",
        "weights per word",
        "iterations",
        "time",
        "µs per weight",
        *steps,
        "peak memory",
        "subwords",
        "vectors",
    )
    lines += ["", row(*heads), row(*["---"] * len(heads))]
    for one in curves.get(("words", "train"), []) + curves.get(("real words", "train"), []):
        name = f"{one['x']:,}" + (" real" if one["curve"] == "real words" else "")
        parts = [f"{one['steps'][step]['cpu']:.3g} s, {one['steps'][step]['gib']:.2f} GiB" for step in steps]
        work = f"{one['spans'] / one['x']:.1f}", f"{one['weights'] / one['x']:.1f}", one["iterations"]
        times = time_of(one["cpu"]), f"{1e6 * one['cpu'] / one['weights']:.2f}"
        sizes = f"{one['gib']:.2f} GiB", f"{one['subwords']:,}", f"{one['columns']:,}"
        lines.append(row(name, *work, *times, *parts, *sizes))
    for one in results:
        if "failed" in one:
            lines.append(f"\nFailed: {one['curve']} {one['x']:,}, {one['step']}: {one['failed'].splitlines()[-1]}")
    return "\n".join(lines)


def time_of(seconds: float) -> str:
    """Format a time.

    >>> time_of(0.00213)
    '2.13 ms'
    """
    unit, size = next((one for one in (("s", 1), ("ms", 1e-3)) if seconds >= one[1]), ("µs", 1e-6))
    return f"{seconds / size:.3g} {unit}"


def draw_ideal(panel, x: np.ndarray, y: list[float], ideal: int) -> None:
    """Draw a dashed line with the ideal slope through the largest point."""
    at = int(np.argmax(y))
    panel.plot(x, y[at] * (x / x[at]) ** ideal, "--", color="0.6", zorder=0)


def draw_figure(results: list[dict]) -> None:
    """Draw two panels per curve: time above, memory below."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.lines
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
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, len(labels), figsize=(14, 6.4), sharex="col")
    for (curve, label), (times, memories) in zip(labels.items(), axes.T, strict=True):
        for panel, key in ((times, time_key(curve)), (memories, "gib")):
            for step, look in looks.items():
                points = curves.get((curve, step), [])
                if points:
                    x, y = ([one[what] for one in points] for what in ("x", key))
                    panel.plot(x, y, linewidth=2, markersize=6, **look)
                    if key != "gib" or (curve, step) == ("words", "train"):
                        draw_ideal(panel, np.array(x), y, -1 if curve == "threads" else 1)
            panel.set(xscale="log", yscale="log")
            panel.grid(True, color="0.9", linewidth=0.8)
            if curve in ("dims", "threads"):
                panel.set_xticks(POINTS[curve], [str(one) for one in POINTS[curve]])
                panel.minorticks_off()
        times.set_ylabel("seconds" if curve == "threads" else "CPU seconds")
        memories.set(xlabel=label, ylabel="peak memory (GiB)", ylim=(0.1, 20))
        memories.set_yticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
        memories.minorticks_off()
    lines = [matplotlib.lines.Line2D([], [], linewidth=2, **look) for look in looks.values()]
    lines.append(matplotlib.lines.Line2D([], [], linestyle="--", color="0.6", label="proportional"))
    figure.legend(handles=lines, loc="upper center", ncols=len(lines), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", nargs="*", default=list(POINTS), metavar="CURVE", help=f"of: {', '.join(POINTS)}")
    parser.add_argument("--most", type=int, default=10**9, help="skip points above this number")
    parser.add_argument("--most-gib", type=float, default=18.0, help="memory limit of each process, in GiB")
    parser.add_argument("--task", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run_task(options.task, options.most_gib)
        return
    CACHE.mkdir(exist_ok=True)
    if options.points and not (CACHE / "words.txt").exists():
        words = make_words(2 * max(POINTS["words"]))
        (CACHE / "words.txt").write_text("".join(f"{word}\n" for word in words), encoding="ascii")
        show_lengths(words)
    done = {(one["curve"], one["x"]) for one in read_results()}
    for curve in options.points:
        for x in POINTS[curve]:
            if (curve, x) in done or x > options.most:
                continue
            for result in run_point(curve, x, options.most_gib):
                print(json.dumps(result), flush=True)
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")
    results = read_results()
    print("\n" + tables(results))
    with contextlib.suppress(ImportError):  # the table does not need Matplotlib
        draw_figure(results)


def show_lengths(words: list[str]) -> None:
    """Print the lengths of synthetic and of real words."""
    real = real_words()
    print("| words | mean length | real words | length quantiles 5, 25, 50, 75, 95 % | real words |\n|" + "---|" * 5)
    for n_words in (10_000, 100_000, 300_000, 3_000_000):
        columns = [[len(word) for word in some[:n_words]] for some in (words, real) if len(some) >= n_words]
        means = [f"{np.mean(lengths):.2f}" for lengths in columns] + [""] * (2 - len(columns))
        shares = [" ".join(f"{x:.0f}" for x in np.percentile(lengths, (5, 25, 50, 75, 95))) for lengths in columns]
        print(f"| {n_words:,} | " + " | ".join([*means, *shares, *[""] * (2 - len(columns))]) + " |", flush=True)


if __name__ == "__main__":
    main()
