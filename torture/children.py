"""Commands in forked children of a warm process, which can be killed, interrupted or made to fail at any moment."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pbos.cli.app

with suppress(ImportError):
    import_module("typer._adapters")  # so that children need not do that

PATIENCE = 120.0  # seconds: a child that takes longer hangs
FILE_EVENTS = frozenset(("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir"))
Prepare = Callable[[], Any]


class Failure(AssertionError):
    """What an attack has found; the message says how to repeat it."""


class Ended(NamedTuple):
    """How a child has ended."""

    code: int  # of its exit; negative: the signal that has killed it
    said: str  # on stdout and stderr


def forked(action: Callable[..., Any], *arguments: Any) -> int:
    """Do something in a forked process; return its number."""
    if pid := os.fork():
        return pid
    code: Any = 70
    try:
        action(*arguments)
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code)


class Child:
    """A forked process that runs a pbos command.

    Args:
        arguments: The command line, without "pbos".
        folder: Where to run it.
        prepare: Called in the child before the command.
    """

    def __init__(self, arguments: list[str], folder: Path, prepare: Prepare = lambda: None) -> None:
        self.said, self.output = os.pipe()
        os.set_blocking(self.said, False)
        self.pid = forked(self._run, arguments, folder, prepare)

    def _run(self, arguments: list[str], folder: Path, prepare: Prepare) -> None:
        for number, handle in enumerate((os.open(os.devnull, os.O_RDONLY), self.output, self.output)):
            os.dup2(handle, number)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", 1)
        os.chdir(folder)
        sys.argv = ["pbos", *arguments]
        signal.signal(signal.SIGINT, lambda *_: None)  # before the command, when there is nothing to interrupt
        prepare()
        pbos.cli.main()

    def wait(self) -> Ended:
        """Wait for the end; a child that hangs is killed."""
        end = time.monotonic() + PATIENCE
        while not (found := os.waitpid(self.pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise Failure(f"a child hung for {PATIENCE:g} s; it said: {self._read()}")
            time.sleep(0.001)
        return Ended(os.waitstatus_to_exitcode(found[1]), self._read())

    def _read(self) -> str:
        os.close(self.output)
        with suppress(BlockingIOError), open(self.said, "rb", 0) as stream:  # noqa: PTH123
            return (stream.read(1 << 20) or b"").decode("utf-8", "replace")
        return ""


def on_file_events(folder: Path, action: Callable[[], object]) -> None:
    """In this process, do something before every operation on files of a folder, or with relative names."""
    place = str(folder)

    def is_here(name: Any) -> bool:
        return isinstance(name, str) and len(name) > 2 and (name.startswith(place) or name[0] != "/")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in FILE_EVENTS and any(map(is_here, arguments[:2])):
            action()

    sys.addaudithook(hook)


def at_file_event(number: int, folder: Path, action: Callable[[], object]) -> None:
    """In this process, do something before an operation on files of a folder: the first one is number 0."""
    events = itertools.count()
    on_file_events(folder, lambda: action() if next(events) == number else None)


def count_file_events(folder: Path, counter: Path) -> None:
    """In this process, count the operations on files of a folder: with the size of another file."""
    on_file_events(folder, partial(counter.open("ab", 0).write, b"."))


def fail_with(number: int) -> None:
    """Raise an error of the system."""
    raise OSError(number, os.strerror(number))


def die() -> None:
    """End this process as SIGKILL does."""
    os.kill(os.getpid(), signal.SIGKILL)


def digest(path: Path) -> str | None:
    """Return a hash of a file, or of the names and the content of a folder; None if there is nothing."""
    if not path.exists():
        return None
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        found.update(str(file.relative_to(path)).encode() + b"\0" + (file.read_bytes() if file.is_file() else b""))
    return found.hexdigest()


def rounds(seconds: float, cases: int | None) -> Iterator[int]:
    """Yield 0, 1, 2 and so on, for a time or, if `cases` is given, so many."""
    end, number = time.monotonic() + seconds, 0
    while number < cases if cases is not None else time.monotonic() < end:
        yield number
        number += 1
