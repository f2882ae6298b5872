"""The same inputs give the same bytes: for any number of threads, any hash seed, cold and warm caches, other versions.

`PBOS_PYTHONS` names further interpreters that have pbos's dependencies, such as .venv-oldest/bin/python. `learn` is not
compared between them: it factors a matrix with NumPy's LAPACK, and other versions of it round differently.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
JOBS = """
import hashlib, json, sys, tempfile
from pathlib import Path
import numpy as np
import pbos

threads, fixtures = int(sys.argv[1]), Path(sys.argv[2])
vectors = pbos.WordVectors.read(fixtures / "vectors")
counts = pbos.WordCounts.read(fixtures / "counts.tsv")
text = [" ".join(counts.words[(i * j) % 997] for j in range(1, 12)) for i in range(1, 400)]
small = pbos.train(vectors, counts, threads=threads)
jobs = {
    "train": lambda: small,
    "train pbos": lambda: pbos.train(vectors, counts, preset="pbos", threads=threads),
    "train sgd": lambda: pbos.train(vectors, counts, preset="pbos", solver="sgd", epochs=3, threads=threads),
    "compress": lambda: small.compress(min_vector_words=3, dtype="int8", dims=16),
    "learn": lambda: pbos.learn(text, dims=8, min_count=1, threads=threads),
}

def digest(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        files = sorted(Path(folder, "model").iterdir())
        return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()

found = {name: digest(make()) for name, make in jobs.items()}
words = vectors.words[:500] + ["".join(pair) for pair in zip(vectors.words[:500], vectors.words[500:1000])]
answers = [small.embed(words, threads=threads), small.confidence(words), small.similarity(words[:100], words[100:200])]
found["embed"] = hashlib.sha256(b"".join(answer.tobytes() for answer in answers)).hexdigest()
found["segment"] = hashlib.sha256(repr(small.segment(words, n=3)).encode()).hexdigest()
print(json.dumps(found))
"""


def digests(python: str, threads: int, hash_seed: int, cache: str | None) -> dict[str, str]:
    """Do all jobs in a process of their own; return a hash of what each has made."""
    settings = {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT / "src")}
    settings |= {"NUMBA_CACHE_DIR": cache} if cache else {}
    command = [python, "-c", JOBS, str(threads), str(ROOT / "tests" / "fixtures")]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-2000:]}")
    found: dict[str, str] = json.loads(done.stdout)
    return found


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Repeat the jobs under other conditions; every result has to have the bytes of the first."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    pythons = [sys.executable, *os.environ.get("PBOS_PYTHONS", "").split()]
    allowed = {(python, "learn") for python in pythons[1:]}
    expected = digests(sys.executable, 1, 0, None)
    runs = 1
    for python in itertools.cycle(pythons):
        if time.monotonic() > end and runs > len(pythons):
            break
        threads, hash_seed, cold = chance.randint(1, 6), chance.randrange(2**32), chance.random() < 0.2
        with tempfile.TemporaryDirectory() as cache:
            found = digests(python, threads, hash_seed, cache if cold or python != sys.executable else None)
        wrong = [name for name in expected if found[name] != expected[name] and (python, name) not in allowed]
        if wrong:
            raise AssertionError(f"other bytes: {wrong} with {python}, {threads} threads, seed {hash_seed}, {cold=}")
        runs += 1
    return {"runs": runs, "jobs": len(expected), "interpreters": len(pythons)}
