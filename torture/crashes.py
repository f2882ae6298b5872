"""Kills, full disks, failing writes, Ctrl-C and closed pipes, at random moments of every command that writes.

Afterwards the old output or the new one is there, whole; the same command again makes the new one, and nothing else is
left. Commands run in forked children, except for `interpreters` and `compilers`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pbos
from pbos.training.plan import Plan
from torture.children import (
    PATIENCE,
    Child,
    Ended,
    Failure,
    at_file_event,
    count_file_events,
    die,
    digest,
    fail_with,
    rounds,
)

STEMS, ENDS = ("high", "low", "fast", "slow", "kind", "light"), ("", "er", "est", "ly", "ness")
WORDS = [f"{stem}{end}" for stem in STEMS for end in ENDS]
JOBS = {  # name: (output, command); NEW is a or b
    "train": ("model", "train IN/NEW.vec --force -o model"),
    "train-memory": ("model", "train IN/NEW.vec --memory 1G --force -o model"),
    "learn": ("model", "learn IN/NEW.txt --dims 3 --force -o model"),
    "compress": ("model", "compress -m IN/NEW --dtype int8 --force -o model"),
    "embed-text": ("out.txt", "embed -m IN/NEW -i IN/words -o out.txt"),
    "embed-npy": ("out.npy", "embed -m IN/NEW -i IN/words -o out.npy"),
    "count": ("out.tsv", "count IN/NEW.txt -o out.tsv"),
    "complete": ("out.vec.gz", "complete IN/NEW.vec IN/words -m IN/NEW -o out.vec.gz"),
    "convert": ("out", "convert IN/NEW.vec out"),
}
PRINTING = ("embed", "segment -n 3", "explain", "neighbors", "info", "--help")
INTERRUPTED = "pbos: interrupted; nothing was left half-written"
STRIDE = 997  # a prime: going on in such steps, every operation comes once, and early and late ones in turn
MOUNTED = 4 << 20  # bytes of a small disk
WARM_SECONDS, COLD_SECONDS = 3, 20  # what a command takes, in a process of its own, and when it has to compile


class Bench:
    """Inputs, and what jobs make of them.

    Attributes:
        folder: Where everything is.
        jobs: The names of the jobs.
        wanted: The hash of the output, by job and input, a or b.
        events: How many operations on files each job does.
        seconds: How long each job takes.
    """

    def __init__(self, folder: Path, jobs: tuple[str, ...]) -> None:
        self.folder, self.jobs = folder, jobs
        self.wanted: dict[tuple[str, str], str | None] = {}
        self.events: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self._make_inputs()
        for job in jobs:
            for name in "ab":
                place, began = self.emptied(), time.perf_counter()
                counter = folder / f"{job}.events"
                counter.unlink(missing_ok=True)
                self.finish(job, place, partial(count_file_events, place, counter), name=name)
                self.seconds[job], self.events[job] = time.perf_counter() - began, counter.stat().st_size
                self.wanted[job, name] = digest(place / JOBS[job][0])
                (place / JOBS[job][0]).rename(folder / f"{job}-{name}")
            assert self.wanted[job, "a"] != self.wanted[job, "b"]  # so that the new can be told from the old

    def _make_inputs(self) -> None:
        inputs = self.folder / "in"
        inputs.mkdir()
        numbers = np.random.default_rng(0)
        for name in "ab":
            vectors = pbos.WordVectors(WORDS, numbers.normal(size=(len(WORDS), 6)).astype(np.float32))
            vectors.write(inputs / f"{name}.vec")
            lines = [" ".join(numbers.choice(WORDS, 12)) for _ in range(60)]
            (inputs / f"{name}.txt").write_text("\n".join(lines))
            model = pbos.train(vectors, output=inputs / name)
        words = [f"{one}{other}" for one in WORDS for other in WORDS]
        (inputs / "words").write_text("\n".join(words) + "\n")
        pbos.learn(lines, dims=3)  # and so on: all kernels are compiled here, children need not
        pbos.complete(vectors, words[:10], model=model.compress(dtype="int8"))

    def emptied(self, folder: Path | None = None) -> Path:
        """Return an empty folder to work in."""
        place = folder or self.folder / "work"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    def put_before(self, job: str, before: str | None, place: Path) -> None:
        """Put the output of an earlier run in a folder, if there is to be any."""
        if before is not None:
            kept = self.folder / f"{job}-{before}"
            copy: Any = shutil.copytree if kept.is_dir() else shutil.copy
            copy(kept, place / JOBS[job][0])

    def start(self, job: str, place: Path, prepare: Callable[[], Any], name: str = "b", *more: str) -> Child:
        """Start a job in a child."""

        def prepare_child() -> None:
            if job == "train-memory":
                Plan.in_memory = 1 << 50  # type: ignore[assignment,method-assign]  # as if the job were large
            prepare()

        return Child([*self.arguments(job, name), *more], place, prepare_child)

    def arguments(self, job: str, name: str = "b") -> list[str]:
        """Return the command line of a job."""
        return JOBS[job][1].replace("IN", str(self.folder / "in")).replace("NEW", name).split()

    def finish(self, job: str, place: Path, prepare: Callable[[], Any] = lambda: None, name: str = "b") -> None:
        """Run a job that should succeed; what is left from counting a text is resumed."""
        ended = self.start(job, place, prepare, name).wait()
        if ended.code == 2 and "resume" in ended.said:
            check_sentence(ended, job)
            ended = self.start(job, place, prepare, name, "--resume").wait()
        if ended.code:
            raise Failure(f"{job} ended with {ended.code} and said:\n{ended.said}")

    def check(self, job: str, before: str | None, place: Path) -> str:
        """Check that the output is the old or the new; return which."""
        found = digest(place / JOBS[job][0])
        if found == self.wanted[job, "b"]:
            return "new"
        if found == (None if before is None else self.wanted[job, before]):
            return "old"
        raise Failure(f"the output is neither the old nor the new; there are {names_in(place)}")

    def check_again(self, job: str, place: Path) -> None:
        """Run a job again, after something has happened to it; check that it succeeds and nothing else is left."""
        self.finish(job, place)
        if self.check(job, None, place) != "new" or names_in(place) != [JOBS[job][0]]:
            raise Failure(f"run again, there are {names_in(place)}")


@contextmanager
def bench(jobs: tuple[str, ...] = tuple(JOBS)) -> Iterator[Bench]:
    """Make a bench in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        yield Bench(Path(folder).resolve(), jobs)


def names_in(place: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(path.name for path in place.iterdir())


def check_sentence(ended: Ended, what: str) -> None:
    """Raise Failure if a command did not end with an error of lines such as `pbos: what is wrong`."""
    lines = ended.said.splitlines()
    if ended.code != 2 or not lines or not all(line.startswith("pbos: ") for line in lines):
        raise Failure(f"{what} ended with {ended.code} and said:\n{ended.said}")


# -- the attacks -------------------------------------------------------------------------------------------------------


class Case:
    """A job to attack, in an empty folder or beside an earlier output.

    Attributes:
        place: The bench.
        job: The job.
        turn: How often the job was attacked before, from the seed on.
        numbers: Random numbers of this case.
        report: What happened, counted.
        before: Which output is there, a or None.
        work: The folder.
    """

    def __init__(self, place: Bench, job: str, turn: int, numbers: random.Random, report: Counter[str]) -> None:
        self.place, self.job, self.turn, self.numbers, self.report = place, job, turn, numbers, report
        self.before, self.work = (None, "a")[turn % 2], place.folder / "work"

    def begin(self, folder: Path | None = None) -> None:
        """Make the folder."""
        self.work = self.place.emptied(folder)
        self.place.put_before(self.job, self.before, self.work)

    def some_event(self) -> int:
        """Return one of the job's operations on files."""
        return self.numbers.randrange(self.place.events[self.job] + 1)

    def found(self, ended: Ended, what: str) -> str:
        """Check that the output is the old or the new, and count it; return which."""
        state = self.place.check(self.job, self.before, self.work)
        self.report[f"{self.job}: {state} after {what if ended.code else 'its end'}"] += 1
        return state


def attack(name: str, place: Bench, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Attack one job after the other, for a time or a number of cases."""
    one, _, wanted = ATTACKS[name]
    jobs = [job for job in place.jobs if job in wanted]
    report: Counter[str] = Counter()
    for number in rounds(seconds, cases):
        what = name, seed, number, jobs[number % len(jobs)]
        try:
            one(Case(place, what[-1], seed + number // len(jobs), random.Random(repr(what)), report))
        except Failure as found:
            raise Failure(f"{what}: {found}") from None
    return dict(sorted(report.items()))


def kills(case: Case) -> None:
    """SIGKILL, before each operation on files in turn; then perhaps again, before some operation or at any time."""
    case.begin()
    at: int | None = case.turn // 2 * STRIDE % (case.place.events[case.job] + 1)
    for _ in range(case.numbers.randint(1, 3)):
        if case.found(killed(case, at), "a kill") == "new":
            break
        at = case.numbers.choice((None, case.some_event()))
    case.place.check_again(case.job, case.work)


def killed(case: Case, at: int | None) -> Ended:
    """Start a job and kill it, before an operation on files or at any time, if it does not end before."""
    more = ["--resume"] if case.job in ("learn", "count") else []
    prepare = (lambda: None) if at is None else partial(at_file_event, at, case.work, die)
    child = case.place.start(case.job, case.work, prepare, "b", *more)
    if at is None:
        time.sleep(case.numbers.uniform(0, case.place.seconds[case.job]))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    ended = child.wait()
    if ended.code not in (0, -signal.SIGKILL):
        raise Failure(f"the child ended with {ended}")
    return ended


def failures(case: Case) -> None:
    """An operation on files fails, or a file cannot grow."""
    case.begin()
    if case.numbers.random() < 0.7:
        what = partial(fail_with, case.numbers.choice((errno.ENOSPC, errno.EIO, errno.EACCES)))
        may_fail(case, partial(at_file_event, case.some_event(), case.work, what))
    else:
        most = int(10 ** case.numbers.uniform(0, 5))
        may_fail(case, partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY)))
    case.place.check_again(case.job, case.work)


def may_fail(case: Case, prepare: Callable[[], Any]) -> None:
    """Run a job; if it fails, then with a sentence."""
    ended = case.place.start(case.job, case.work, prepare).wait()
    if ended.code:
        check_sentence(ended, case.job)
    case.found(ended, "an error")


def full_disks(case: Case) -> None:
    """A disk with little room; needs root, because it is mounted."""
    disk = case.place.folder / "disk"
    disk.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={MOUNTED}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        case.report["skipped, because nothing can be mounted"] += 1
        return
    try:
        case.begin(disk / "work")
        with (disk / "ballast").open("wb") as ballast:
            room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
            os.posix_fallocate(ballast.fileno(), 0, max(1, room - case.numbers.randrange(0, 200_000, 4096)))
        may_fail(case, lambda: None)
        (disk / "ballast").unlink()
        case.place.check_again(case.job, case.work)
    finally:
        subprocess.run(["umount", disk], check=True)


def resumed(case: Case) -> None:
    """A job is killed again and again, and goes on each time: to the same bytes."""
    case.before = None
    case.begin()
    for _ in range(100):
        if not killed(case, case.some_event()).code:
            break
        case.report[f"{case.job}: kills"] += 1
    output = JOBS[case.job][0]
    if case.place.check(case.job, None, case.work) != "new" or names_in(case.work) != [output]:
        raise Failure(f"there are {names_in(case.work)}")
    case.report[f"{case.job}: same bytes"] += 1


def interrupts(case: Case) -> None:
    """Ctrl-C, before an operation on files or a moment later."""
    case.begin()
    later = threading.Timer(case.numbers.uniform(0, 0.05), interrupt_here)
    send = case.numbers.choice((interrupt_here, later.start))
    prepare = partial(at_file_event, case.some_event(), case.work, send)
    check_interrupted(case, case.place.start(case.job, case.work, prepare).wait())


def check_interrupted(case: Case, ended: Ended) -> None:
    """Raise Failure if Ctrl-C did not end a job with one line, or has left something."""
    lines = ended.said.splitlines()
    if ended.code and (ended.code != 130 or [line for line in lines if line == INTERRUPTED] != lines[-1:]):
        raise Failure(f"the child ended with {ended.code} and said:\n{ended.said}")
    if any(not line.startswith("pbos: ") for line in lines):
        raise Failure(f"the child said:\n{ended.said}")
    case.found(ended, "Ctrl-C")
    case.place.check_again(case.job, case.work)


def interrupt_here() -> None:
    """Send SIGINT to this process."""
    os.kill(os.getpid(), signal.SIGINT)


def writers(case: Case) -> None:
    """Several processes make one output at once: all succeed, one wins, whole."""
    case.begin()
    place, job = case.place, case.job
    for child in [place.start(job, case.work, lambda: None, name) for name in case.numbers.sample("aabb", 3)]:
        ended = child.wait()
        if ended.code:
            raise Failure(f"a child ended with {ended.code} and said:\n{ended.said}")
    found = digest(case.work / JOBS[job][0])
    if found not in (place.wanted[job, "a"], place.wanted[job, "b"]) or names_in(case.work) != [JOBS[job][0]]:
        raise Failure(f"the output is none of the outputs; there are {names_in(case.work)}")
    case.report[f"{job}: {'a' if found == place.wanted[job, 'a'] else 'b'} won"] += 1


def interpreters(case: Case) -> None:
    """Ctrl-C at any time, and readers that stop, in processes of their own."""
    inputs, command = case.place.folder / "in", case.numbers.choice(PRINTING)
    arguments = command.split()
    if command in PRINTING[:4]:
        arguments += ["-m", str(inputs / "a"), "-i", str(inputs / "words")]
    process = interpreter(arguments, case.place.emptied(), stderr=subprocess.PIPE)
    assert process.stdout is not None
    if case.numbers.random() < 0.5:
        time.sleep(case.numbers.uniform(0, WARM_SECONDS))
        process.send_signal(signal.SIGINT)
        kind, allowed = "Ctrl-C", {0, 130}
    else:
        if case.numbers.random() < 0.5:
            process.stdout.readline()
        process.stdout.close()
        process.stdout, kind, allowed = None, "a reader that stops", {0, 1}
    _, said = process.communicate(timeout=PATIENCE)
    if process.returncode not in allowed or said not in ("", f"{INTERRUPTED}\n"):
        raise Failure(f"{kind}: pbos {command} ended with {process.returncode} and said:\n{said}")
    case.report[f"{kind}: exit code {process.returncode}"] += 1


def compilers(case: Case) -> None:
    """Ctrl-C at any time of jobs in processes of their own, on one core or all; each third one has to compile."""
    case.begin()
    has_to_compile, cores = case.turn % 3 == 0, os.sched_getaffinity(0)
    scratch, cache = (case.place.emptied(case.place.folder / name) for name in ("scratch", "cache"))
    settings = {"TMPDIR": str(scratch), **({"NUMBA_CACHE_DIR": str(cache)} if has_to_compile else {})}
    os.sched_setaffinity(0, case.numbers.choice((cores, {min(cores)})))
    process = interpreter(case.place.arguments(case.job), case.work, settings, stderr=subprocess.STDOUT)
    os.sched_setaffinity(0, cores)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=case.numbers.uniform(0, COLD_SECONDS if has_to_compile else WARM_SECONDS))
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    said, _ = process.communicate(timeout=PATIENCE)
    check_interrupted(case, Ended(process.returncode, said))
    if left := names_in(scratch):
        raise Failure(f"there are {left} among the temporary files")
    slowest = "milliseconds from Ctrl-C to the end, at most"
    case.report[slowest] = max(case.report[slowest], int(1000 * (time.monotonic() - sent)))


def interpreter(arguments: list[str], folder: Path, settings: Any = None, **options: Any) -> subprocess.Popen[str]:
    """Start a command in a process of its own, which can be interrupted when this returns."""
    code = "import sys; from pbos.cli import main; print('ready', flush=True); main()"
    paths = {"PYTHONPATH": str(Path(pbos.__file__).parents[1])}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would hand on SIG_IGN
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env={**os.environ, **paths, **(settings or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )
    signal.signal(signal.SIGINT, before)
    assert process.stdout is not None
    process.stdout.readline()
    return process


ATTACKS: dict[str, tuple[Callable[[Case], None], int, tuple[str, ...]]] = {  # the share of the time, and the jobs
    "kills": (kills, 4, tuple(JOBS)),
    "failures": (failures, 2, tuple(JOBS)),
    "full_disks": (full_disks, 1, tuple(JOBS)),
    "resumed": (resumed, 2, ("train-memory", "learn", "count")),
    "interrupts": (interrupts, 2, tuple(JOBS)),
    "writers": (writers, 1, ("train", "compress", "embed-text", "convert")),
    "interpreters": (interpreters, 2, tuple(JOBS)),
    "compilers": (compilers, 2, ("train", "learn", "complete", "embed-text")),
}


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Run all attacks of this module, each for its share of the time."""
    total, report = sum(share for _, share, _ in ATTACKS.values()), {}
    with bench() as place:
        for name, (_, share, _) in ATTACKS.items():
            report[name] = attack(name, place, share * seconds / total, seed)
            sys.stderr.write(f"{name}: {json.dumps(report[name])}\n")
    return report
