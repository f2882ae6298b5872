"""Time and memory to load a 1 GB model in a new process and get its first vector.

Our model is trained on random words, 300 dimensions; the peers' models are those of `embed`, 2.4 GB each. All files are
in the page cache. The process uses a small pbos model first, so that the kernels are already loaded, like the peers'
compiled code after their import.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path
from string import ascii_lowercase

import inputs
import numpy as np
import peers
from measure import ROUNDS, Row

import pbos

N_WORDS = 45_000  # gives a model of 1 GB
MEASURE = """
import resource, sys, time
def memory():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6
def measure(first_vector):
    before, started = memory(), time.perf_counter()
    kept = first_vector()
    print(time.perf_counter() - started, memory() - before)
"""
OURS = "import pbos; pbos.load(sys.argv[2])['warm']; measure(lambda: (m := pbos.load(sys.argv[1]), m['unfriendliest']))"
FASTTEXT = """
import fasttext; fasttext.FastText.eprint = lambda text: None
measure(lambda: (m := fasttext.load_model(sys.argv[1]), m.get_word_vector("unfriendliest")))
"""
GENSIM = """
from gensim.models import KeyedVectors
measure(lambda: (m := KeyedVectors.load(sys.argv[1], mmap="r"), m["unfriendliest"]))
"""


def rows():
    fasttext, gensim = peers.fasttext_file(), peers.gensim_folder() / "vectors"
    with tempfile.TemporaryDirectory(dir=inputs.CACHE) as folder:
        ours, small = Path(folder) / "large", Path(folder) / "small"
        save_random_model(ours, N_WORDS)
        save_random_model(small, 100)
        processes = {
            "ours": (OURS, ours, small),
            "fasttext": (FASTTEXT, fasttext),
            "gensim, mmap": (GENSIM, gensim),
        }
        best = dict.fromkeys(processes, (math.inf, math.inf))
        for _ in range(ROUNDS):
            for name, (code, *arguments) in processes.items():
                best[name] = min(best[name], run(code, arguments))
        files = {"ours": ours, "fasttext": fasttext, "gensim, mmap": gensim.parent}
        size = {name: f"{gigabytes(path):.2f} GB" for name, path in files.items()}
    for peer, at_most in {"fasttext": 0.05, "gensim, mmap": None}.items():
        (seconds, memory), (their_seconds, their_memory) = best["ours"], best[peer]
        question, name = f"load a model of {size['ours']} and get the first vector", f"{peer} ({size[peer]})"
        yield Row(question, seconds, "s", name, their_seconds, at_most=at_most)
        yield Row("memory for the same", memory, "MB", name, their_memory)


def save_random_model(path: Path, n_words: int) -> None:
    """Save a model of random words of nine letters, which share few long subwords."""
    random = np.random.default_rng(0)
    words = {"".join(letters) for letters in random.choice(list(ascii_lowercase), (n_words, 9))}
    vectors = random.standard_normal((len(words), 300), np.float32)
    pbos.train((sorted(words), vectors), preset="pbos", epochs=1, progress=False).save(path)


def gigabytes(path: Path) -> float:
    """Return the size of a file or folder in GB."""
    return sum(file.stat().st_size for file in (path.iterdir() if path.is_dir() else [path])) / 1e9


def run(code: str, arguments: list) -> tuple[float, float]:
    """Return the seconds and megabytes measured in a new process."""
    command = [sys.executable, "-c", MEASURE + code, *map(str, arguments)]
    seconds, megabytes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), float(megabytes)
