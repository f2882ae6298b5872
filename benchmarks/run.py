"""Measure speed and memory; print a Markdown table. `make bench` runs this; README.md here keeps the last full run."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numba
import numpy as np
import textbook

import pbos
from pbos.model import Model
from pbos.spelling import Spelling
from pbos.subword_vectors import SubwordVectors
from pbos.subwords import count_subwords
from pbos.text import encode, pack_strings

DATA = Path(os.environ.get("PBOS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", choices=[[], *QUESTIONS], help="which questions; by default all")
    chosen = parser.parse_args().only or list(QUESTIONS)
    print(
        f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy {np.__version__}, ", end=""
    )
    print(f"Numba {numba.__version__}, pbos {pbos.__version__}\n")
    print("| question | figure |\n|---|---|")
    for name in chosen:
        for question, figure in QUESTIONS[name]():
            print(f"| {question} | {figure} |", flush=True)


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def default_training():
    """100,000 words x 300 with the default preset, all steps, lam chosen."""
    vectors = pbos.WordVectors.read(DATA / "vectors" / "minilm-en")
    seconds = min(textbook.clock(lambda: pbos.train(vectors, progress=False))[0] for _ in range(3))
    yield "train 100,000 words x 300, preset default, lam chosen, two threads", f"{seconds:.1f} s"


def training():
    """100,000 words x 300, 50 epochs, beside the textbook."""
    vectors = pbos.WordVectors.read(DATA / "vectors" / "minilm-en")
    counts = pbos.WordCounts.read(DATA / "unigram_freq.csv")
    seconds = textbook.compare(vectors, counts, epochs=50)
    yield "train 100,000 words x 300, 50 epochs, preset pbos, two threads", f"{seconds['pbos']:.1f} s"
    for kind, label in (("plain", "plain Python"), ("numpy", "Python with NumPy vectors")):
        ratio = seconds[kind] / seconds["pbos"]
        yield (
            f"the same in a textbook version, {label} (extrapolated)",
            f"{seconds[kind]:,.0f} s: pbos is {ratio:.0f}x faster",
        )


def opening():
    """A model of 1 GB, opened in a new process."""
    folder = Path(tempfile.mkdtemp())
    try:
        random = np.random.default_rng(0)
        words = sorted({"".join(map(chr, 97 + random.integers(0, 26, 9))) for _ in range(24_000)})
        index = count_subwords(encode(words), np.ones(len(words)), np.ones(len(words), np.bool_))
        rows = len(index.owners())
        dims = 1_000_000_000 // (4 * rows)
        vectors = SubwordVectors(random.random((rows, dims), np.float32))
        Model(index, Spelling(), vectors, pack_strings(words)).save(folder / "large")
        size = (folder / "large" / "model.safetensors").stat().st_size
        code = (
            "import time, sys, resource, pbos.model as m\n"
            "def rss(): return int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize() / 1e6\n"
            "m.load()['warm'], time.sleep(0); before = rss(); started = time.perf_counter()\n"
            "model = m.load(sys.argv[1]); seconds = time.perf_counter() - started; after = rss()\n"
            "model['abcdefghi']; print(seconds * 1000, after - before, rss() - before)"
        )
        runs = [
            subprocess.run([sys.executable, "-c", code, folder / "large"], capture_output=True, text=True, check=True)
            for _ in range(5)
        ]
        opened, added, used = min(tuple(map(float, run.stdout.split())) for run in runs)
        yield (
            f"open a model of {size / 1e9:.2f} GB",
            f"{opened:.1f} ms, {added:.1f} MB of memory ({used:.1f} after a word)",
        )
    finally:
        shutil.rmtree(folder)


def streaming():
    """Ten million words through `pbos embed`."""
    words = 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "words.txt"
        with file.open("w") as stream:
            for start in range(0, words, 100_000):
                stream.writelines(f"unfriendli{i:x}st\n" for i in range(start, start + 100_000))
        command = [Path(sys.executable).parent / "pbos", "embed", "-i", file, "-o", Path(folder) / "out.npy"]
        started = time.perf_counter()
        process = subprocess.Popen(command)
        peak = 0
        while process.poll() is None:  # the children's rusage would count this process's own memory at the fork
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))])
            time.sleep(0.05)
        seconds = time.perf_counter() - started
        assert process.returncode == 0
    figure = f"{seconds:.0f} s, {peak / 1000:.0f} MB of memory at most"
    yield f"`pbos embed` of 10,000,000 words to .npy, {pbos.load().dims} dimensions", figure


def long_word():
    """A string of 100,000 characters."""
    segmenter = pbos.Segmenter.from_counts(DATA / "unigram_freq.csv")
    word = "penpineapplepie" * 6_667
    model = pbos.load()
    for name, function in {
        "segment": lambda: segmenter.segment(word[:100_000]),
        "weights": lambda: segmenter.weights(word[:100_000]),
        "embed": lambda: model[word[:100_000]],
    }.items():
        function()
        best = min(textbook.clock(function)[0] for _ in range(3))
        yield f"{name} a string of 100,000 characters", f"{best:.2f} s"


def starting():
    """The command line, once kernels are cached."""
    for arguments in (["--help"], ["segment", "higher"]):
        command = [Path(sys.executable).parent / "pbos", *arguments]
        best = min(textbook.clock(lambda c=command: subprocess.run(c, capture_output=True))[0] for _ in range(6))
        yield f"`pbos {' '.join(arguments)}`", f"{best:.2f} s"


QUESTIONS = {
    "starting": starting,
    "long-word": long_word,
    "opening": opening,
    "streaming": streaming,
    "default-training": default_training,
    "training": training,
}

if __name__ == "__main__":
    main()
