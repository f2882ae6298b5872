"""Ctrl-C: a plain KeyboardInterrupt, and on the command line one line and 130, wherever it comes."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba.core import event
from numba.core.caching import NullCache

import pbos
from pbos import kernels
from pbos.files import atomic
from pbos.jobs import threads
from pbos.jobs.threads import in_threads
from pbos.training import train as training

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
LINE = "pbos: interrupted; nothing was left half-written\n"
WORDS = ["high", "higher", "highest", "low", "lower", "lowest"]
VECTORS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def ctrl_c(*_):
    signal.raise_signal(signal.SIGINT)


def made_by(module, code):
    """The function f of some code, as if a module had it."""
    names = {"__name__": module, "ctrl_c": ctrl_c}
    exec(code, names)
    return names["f"]


# In Python ------------------------------------------------------------------------------------------------------------


def arrays(number):
    """Make arrays, as most kernels do, after a signal in compiled code."""
    raise_signal(number)  # noqa: F821
    size = number + 1
    return np.zeros(size), np.zeros(size), np.zeros(size)


def test_ctrl_c_in_a_kernel(monkeypatch):
    """Numba's Python code would make a SystemError of what is raised when a kernel returns."""
    raise_signal = getattr(ctypes.CDLL(None), "raise")
    raise_signal.argtypes, raise_signal.restype = [ctypes.c_int], ctypes.c_int
    monkeypatch.setitem(globals(), "raise_signal", raise_signal)
    monkeypatch.setattr(kernels, "Cache", lambda function: NullCache())  # what calls C cannot be cached
    kernel = kernels.kernel(arrays)
    assert len(kernel(0)) == 3  # no signal
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt) as raised:
            kernel(int(signal.SIGINT))
        assert raised.value.__cause__ is raised.value.__context__ is None


def test_ctrl_c_where_other_code_would_drop_it(monkeypatch):
    """Numba compiles with callbacks from C, in which Python drops errors."""
    call_back = made_by("numba.core.some", "import ctypes\ndef f(*_): ctypes.CFUNCTYPE(None)(ctrl_c)()")
    monkeypatch.setattr(training, "one_blas_thread", call_back)
    with pytest.raises(KeyboardInterrupt) as raised:
        pbos.train((WORDS, VECTORS))
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Passes(event.Listener):
    """Presses Ctrl-C in the third pass of Numba's compiler."""

    def __init__(self, wait=lambda: None):
        self.count, self.wait = 0, wait

    def on_start(self, event):
        self.count += 1
        if self.count == 3:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            self.wait()

    def on_end(self, event):
        pass


@pytest.fixture
def kernel(monkeypatch):
    """A kernel that has to be compiled."""
    monkeypatch.setattr(kernels, "Cache", lambda function: NullCache())
    return kernels.kernel(made_by("pbos.some", "def f(x): return x + 1"))


def test_ctrl_c_while_compiling(kernel):
    """It is raised between two passes, as a kernel takes seconds. Compiled again in the same process, it works."""
    passes = Passes()
    with event.install_listener("numba:run_pass", passes), pytest.raises(KeyboardInterrupt) as raised:
        kernel(1)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert passes.count <= 4
    assert kernel(1) == 2


def test_ctrl_c_while_another_thread_compiles(kernel):
    def wait():
        while not threads._here.stop.wait(30):
            pytest.fail("nothing has stopped this thread")

    passes = Passes(wait)
    with event.install_listener("numba:run_pass", passes), pytest.raises(KeyboardInterrupt):
        in_threads(lambda item: item and kernel(item), [1, 0], threads=2)
    assert passes.count <= 4
    assert kernel(1) == 2


def test_what_waits_for_a_thread_is_not_begun_after_ctrl_c(monkeypatch):
    """Also if it comes before all of it waits."""
    begun, go_on = [], threading.Event()
    submit, shutdown = ThreadPoolExecutor.submit, ThreadPoolExecutor.shutdown

    def press_at_the_end(pool, run, item):
        if item == 50:
            ctrl_c()
        return submit(pool, run, item)

    def go_on_at_the_end(pool, wait=True, **options):
        if wait:
            go_on.set()
        shutdown(pool, wait, **options)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", press_at_the_end)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", go_on_at_the_end)
    with pytest.raises(KeyboardInterrupt):
        in_threads(lambda item: begun.append(item) or go_on.wait(30), range(100), threads=2)
    assert len(begun) <= 2


@pytest.mark.parametrize("function", ["_open_folder", "discard"])
def test_ctrl_c_at_the_begin_or_end_of_writing_leaves_nothing(monkeypatch, tmp_path, function):
    found = getattr(atomic, function)
    monkeypatch.setattr(atomic, function, lambda *arguments: (ctrl_c(), found(*arguments))[1])
    with pytest.raises(KeyboardInterrupt):
        pbos.train((WORDS, VECTORS), output=tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


UPLOAD = """
from contextlib import contextmanager
@contextmanager
def uploaded():
    try:
        yield
        ctrl_c()
        ends.append("uploaded")
    finally:
        ends.append("cleaned")
def write():
    with uploaded():
        pass
"""


def test_an_upload_at_the_end_of_writing_can_be_interrupted(monkeypatch):
    """It takes long."""
    names = {"ctrl_c": ctrl_c, "ends": [], "__name__": "pbos.files.atomic"}
    exec(UPLOAD, names)
    monkeypatch.setattr(training, "one_blas_thread", names["write"])
    with pytest.raises(KeyboardInterrupt):
        pbos.train((WORDS, VECTORS))
    assert names["ends"] == ["cleaned"]


# On the command line --------------------------------------------------------------------------------------------------


def run_main(before, after="", **options):
    """Run a command in a process, with code before and after it."""
    code = f"import signal, sys\n{before}\nfrom pbos.cli import main\nmain()\n{after}"
    command = [sys.executable, "-c", code, "embed", "high"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def pressed_when_imported(module, times=1):
    """Code that presses Ctrl-C when a module is imported, or a part of it."""
    return f"""
left = [None] * {times}
def press(event, arguments):
    if left and event == "import" and arguments[0].startswith({module!r}):
        left.pop()
        signal.raise_signal(signal.SIGINT)
sys.addaudithook(press)
"""


@pytest.mark.parametrize("module", ["typer", "numba.core.dispatcher", "pbos.words.subwords"])
def test_ctrl_c_while_a_module_is_imported(module):
    done = run_main(pressed_when_imported(module))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", LINE)


def test_a_second_ctrl_c_ends_at_once():
    """Also while the first one waits."""
    done = run_main(pressed_when_imported("numba", times=2))
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_ctrl_c_after_the_work_is_done():
    done = run_main("", "signal.raise_signal(signal.SIGINT)")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


def test_ignored_ctrl_c_stays_ignored():
    """Shells ignore it for jobs in the background, as does nohup."""
    before = "signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + pressed_when_imported("pbos.words.subwords")
    done = run_main(before, "assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


# In these tests -------------------------------------------------------------------------------------------------------


def test_tests_do_not_depend_on_what_they_inherit():
    """One that presses Ctrl-C in its own process, where that is ignored, as in a job in the background."""
    test = f"{__file__}::{test_ctrl_c_while_compiling.__name__}"
    settings = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "COLUMNS": "7", "PBOS_TOKEN": "sesame"}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", test]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout
