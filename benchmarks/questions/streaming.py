"""Embed ten million words with `pbos embed` on all cores: time and peak memory of one run."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import inputs
from measure import Row

import pbos

WORDS = 10_000_000


def rows():
    with tempfile.TemporaryDirectory(dir=inputs.CACHE) as folder:
        file = Path(folder) / "words.txt"
        with file.open("w") as stream:
            for start in range(0, WORDS, 100_000):
                stream.writelines(f"unfriendli{i:x}st\n" for i in range(start, start + 100_000))
        command = [Path(sys.executable).parent / "pbos", "embed", "-i", file, "-o", Path(folder) / "out.npy"]
        started = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:  # rusage of the child would include the memory of this process at the fork
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))])
            time.sleep(0.05)
        seconds = time.perf_counter() - started
        assert process.returncode == 0
    question = f"`pbos embed` of {WORDS:,} words to .npy, {pbos.load().dims} dimensions"
    yield Row(question, seconds)
    yield Row("peak memory of the same", peak / 1000, "MB")
