"""Compiling: once for all processes, into a cache that may be missing."""

import os
import subprocess
import sys
import warnings

import numba.core.caching
import numpy as np
import pytest

from pbos import kernels
from pbos.errors import PbosWarning

CODE = """
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event): pass
event.register("numba:compile", Listener())
import pbos
model = pbos.load()
print(model.embed("unfriendliest").tobytes().hex(), model.segment("unfriendliest", 3))
print(len(compiled))
"""


def test_many_processes_on_an_empty_cache(tmp_path):
    """They all compile, do each other no harm, and the next one starts warm."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CODE]
    crowd = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = [process.communicate()[0].splitlines() for process in crowd]
    later = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert all(process.returncode == 0 for process in crowd)
    assert {answer[0] for answer in answers} == {later[0]}
    assert max(int(answer[1]) for answer in answers) > 5
    assert int(later[1]) == 0


CHANGED = """
import os, sys
from numba.core.caching import IndexDataCacheFile
from pbos.kernels import kernel
from changing import answer
if sys.argv[1] == "killed":
    IndexDataCacheFile._save_data = lambda self, name, data: os._exit(9)
print(kernel(answer)(1))
"""


def test_code_of_an_older_source_is_never_run(tmp_path):
    """Even if the first process with the new source is killed while it fills the cache."""
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}

    def run(result, *arguments):
        (tmp_path / "changing.py").write_text(f"def answer(x):\n    return x + {result}\n")
        os.utime(tmp_path / "changing.py", (result, result))
        command = [sys.executable, "-B", "-c", CHANGED, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    assert run(10, "whole").stdout == "11\n"
    assert run(20, "killed").returncode == 9
    assert run(20, "whole").stdout == "21\n"
    assert list((tmp_path / "cache").rglob("*.nbc"))


EVIL = """
import os, sys
class Evil:
    def __reduce__(self):
        return os.mkdir, (sys.argv[1],)
import pickle
sys.stdout.buffer.write(pickle.dumps(Evil()))
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files")
@pytest.mark.parametrize("who", ["everybody", "another user"])
def test_compiled_code_that_others_may_have_written_is_not_run(tmp_path, who):
    """NUMBA_CACHE_DIR may be a folder that all users share, such as one in /tmp. Numba unpickles what is there."""
    if who == "another user" and os.geteuid() != 0:
        pytest.skip("needs root, to give files to another user")
    (tmp_path / "changing.py").write_text("def answer(x):\n    return x + 10\n")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}

    def run():
        command = [sys.executable, "-B", "-c", CHANGED, "whole"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        return done.stdout, done.stderr.count("set NUMBA_CACHE_DIR")

    assert run() == ("11\n", 0)
    (index,) = (tmp_path / "cache").glob("*/*.nbi")
    evil = [sys.executable, "-c", EVIL, tmp_path / "marker"]
    index.write_bytes(subprocess.run(evil, capture_output=True, check=True).stdout)
    if who == "everybody":
        index.parent.chmod(0o777)
    else:
        os.chown(index, 65534, 65534)
    found = run()
    assert not (tmp_path / "marker").exists()
    assert found == ("11\n", 1)


def test_without_a_cache_it_compiles_and_says_so_once(monkeypatch):
    monkeypatch.setattr(numba.core.caching.FunctionCache._impl_class, "_locator_classes", [])
    kernels.warn_once.cache_clear()

    def doubled(numbers):
        return numbers * 2

    with pytest.warns(PbosWarning, match="set NUMBA_CACHE_DIR"):
        first = kernels.kernel(doubled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = kernels.kernel(doubled)
    assert first(np.ones(1)) == second(np.ones(1)) == 2
