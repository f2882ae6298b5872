"""Short cuts of some attacks in torture/, in processes of their own, because they fork and kill."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pbos
from torture.determinism import digests

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

CRASHES = """
from torture import crashes
cases = {"kills": 12, "failures": 8, "full_disks": 4, "resumed": 2, "interrupts": 8, "writers": 2}
cases |= {"interpreters": 2, "compilers": 4}
with crashes.bench(("train-memory", "convert", "learn", "embed-text")) as place:
    for name, number in cases.items():
        print(name, crashes.attack(name, place, 0, 1, number))
"""
CONCURRENCY = """
from torture import concurrency
cases = {"threads": 1, "tasks": 1, "processes": 2, "replaced": 3, "soak": 4}
if __name__ == "__main__":
    for name, number in cases.items():
        print(name, getattr(concurrency, name)(0, 1, number))
"""


@pytest.mark.parametrize("code", [CRASHES, CONCURRENCY], ids=["crashes", "concurrency"])
def test_an_attack(code, tmp_path):
    (tmp_path / "attack.py").write_text(code)
    paths = os.pathsep.join(map(str, (Path(__file__).parents[2], Path(pbos.__file__).parents[1])))
    done = subprocess.run(
        [sys.executable, tmp_path / "attack.py"],
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["attack.py"]


def test_bytes_depend_on_neither_threads_nor_hash_seeds():
    assert digests(sys.executable, 1, 0, None) == digests(sys.executable, 3, 1, None)
