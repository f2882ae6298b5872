"""Kills, full disks, failing writes, Ctrl-C and closed pipes, at random moments of every command that writes.

Afterwards the old output or the new one is there, whole; the same command again makes the new one, and nothing else is
left. Commands run in forked children, except for `interpreters`.
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
from pbos.planning import Plan
from torture.children import (
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
PRINTING = ("embed", "segment -n 3", "explain", "neighbors", "info", "eval data", "--help")
INTERRUPTED = "pbos: interrupted; nothing was left half-written"
STRIDE = 997  # a prime: going on in such steps, every operation comes once, and early and late ones in turn
MOUNTED = 4 << 20  # bytes of a small disk


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Run all attacks of this module, each for its share of the time."""
    attacks = {kills: 4, failures: 2, full_disks: 1, resumed: 2, interrupts: 2, writers: 1, interpreters: 2}
    with bench() as place:
        share = seconds / sum(attacks.values())
        report = {}
        for attack, parts in attacks.items():
            report[attack.__name__] = attack(place, parts * share, seed)
            sys.stderr.write(f"{attack.__name__}: {json.dumps(report[attack.__name__])}\n")
        return report


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

        command = JOBS[job][1].replace("IN", str(self.folder / "in")).replace("NEW", name)
        return Child([*command.split(), *more], place, prepare_child)

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


@contextmanager
def case(*what: Any) -> Iterator[random.Random]:
    """Yield random numbers for a case; what it finds says which one it was."""
    try:
        yield random.Random(repr(what))
    except Failure as found:
        raise Failure(f"{what}: {found}") from None


def names_in(place: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted(path.name for path in place.iterdir())


def check_sentence(ended: Ended, what: str) -> None:
    """Raise Failure if a command did not end with an error of lines such as `pbos: what is wrong`."""
    lines = ended.said.splitlines()
    if ended.code != 2 or not lines or not all(line.startswith("pbos: ") for line in lines):
        raise Failure(f"{what} ended with {ended.code} and said:\n{ended.said}")


def kills(place: Bench, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """SIGKILL, before each operation on files in turn; then perhaps again, before some operation or at any time."""
    report: Counter[str] = Counter()
    for number in rounds(seconds, cases):
        turn, job_at = divmod(number, len(place.jobs))
        job = place.jobs[job_at]
        with case("kills", seed, number, job) as numbers:
            before, work = (None, "a")[turn % 2], place.emptied()
            place.put_before(job, before, work)
            at: int | None = (seed + turn // 2 * STRIDE) % (place.events[job] + 1)
            for _ in range(numbers.randint(1, 3)):
                ended = killed(place, job, work, at, numbers)
                state = place.check(job, before, work)
                report[f"{job}: {state} after {'a kill' if ended.code else 'its end'}"] += 1
                if state == "new":
                    break
                at = numbers.choice((None, numbers.randrange(place.events[job] + 1)))
            place.check_again(job, work)
    return dict(sorted(report.items()))


def killed(place: Bench, job: str, work: Path, at: int | None, numbers: random.Random) -> Ended:
    """Start a job and kill it, before an operation on files or at any time, if it does not end before."""
    more = ["--resume"] if job in ("learn", "count") else []
    if at is not None:
        child = place.start(job, work, partial(at_file_event, at, work, die), "b", *more)
    else:
        child = place.start(job, work, lambda: None, "b", *more)
        time.sleep(numbers.uniform(0, place.seconds[job]))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    ended = child.wait()
    if ended.code not in (0, -signal.SIGKILL):
        raise Failure(f"the child ended with {ended}")
    return ended


def failures(place: Bench, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """An operation on files fails, or a file cannot grow."""
    report: Counter[str] = Counter()
    for number in rounds(seconds, cases):
        job = place.jobs[number % len(place.jobs)]
        with case("failures", seed, number, job) as numbers:
            before, work = numbers.choice((None, "a")), place.emptied()
            place.put_before(job, before, work)
            if numbers.random() < 0.7:
                what = partial(fail_with, numbers.choice((errno.ENOSPC, errno.EIO, errno.EACCES)))
                prepare: Callable[[], Any] = partial(
                    at_file_event, numbers.randrange(place.events[job] + 1), work, what
                )
            else:
                most = int(10 ** numbers.uniform(0, 5))
                prepare = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            ended = place.start(job, work, prepare).wait()
            if ended.code:
                check_sentence(ended, job)
            report[f"{job}: {place.check(job, before, work)} after {'an error' if ended.code else 'success'}"] += 1
            place.check_again(job, work)
    return dict(sorted(report.items()))


def full_disks(place: Bench, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """A disk with little room; needs root, because it is mounted."""
    report: Counter[str] = Counter()
    disk = place.folder / "disk"
    disk.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MOUNTED}", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        return {"skipped, because nothing can be mounted": 1}
    try:
        for number in rounds(seconds, cases):
            job = place.jobs[number % len(place.jobs)]
            with case("full_disks", seed, number, job) as numbers:
                before, work = numbers.choice((None, "a")), place.emptied(disk / "work")
                place.put_before(job, before, work)
                with (disk / "ballast").open("wb") as ballast:
                    room = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                    os.posix_fallocate(ballast.fileno(), 0, max(1, room - numbers.randrange(0, 200_000, 4096)))
                    ended = place.start(job, work, lambda: None).wait()
                if ended.code:
                    check_sentence(ended, job)
                report[f"{job}: {place.check(job, before, work)} after {'an error' if ended.code else 'success'}"] += 1
                (disk / "ballast").unlink()
                place.check_again(job, work)
    finally:
        subprocess.run(["umount", disk], check=True)
    return dict(sorted(report.items()))


def resumed(place: Bench, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """A job is killed again and again, and goes on each time: to the same bytes."""
    report: Counter[str] = Counter()
    jobs = [job for job in ("train-memory", "learn", "count") if job in place.jobs]
    for number in rounds(seconds, cases):
        job = jobs[number % len(jobs)]
        with case("resumed", seed, number, job) as numbers:
            work, resume = place.emptied(), [] if job == "train-memory" else ["--resume"]
            for _ in range(100):
                at = numbers.randrange(place.events[job])
                ended = place.start(job, work, partial(at_file_event, at, work, die), "b", *resume).wait()
                if not ended.code:
                    break
                if ended.code != -signal.SIGKILL:
                    raise Failure(f"the child ended with {ended}")
                report[f"{job}: kills"] += 1
            if place.check(job, None, work) != "new" or names_in(work) != [JOBS[job][0]]:
                raise Failure(f"there are {names_in(work)}")
            report[f"{job}: same bytes"] += 1
    return dict(sorted(report.items()))


def interrupts(place: Bench, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Ctrl-C, before an operation on files or a moment later."""
    report: Counter[str] = Counter()
    for number in rounds(seconds, cases):
        job = place.jobs[number % len(place.jobs)]
        with case("interrupts", seed, number, job) as numbers:
            before, work = numbers.choice((None, "a")), place.emptied()
            place.put_before(job, before, work)
            later = threading.Timer(numbers.uniform(0, 0.05), interrupt_here)
            send = numbers.choice((interrupt_here, later.start))
            at = numbers.randrange(place.events[job] + 1)
            ended = place.start(job, work, partial(at_file_event, at, work, send)).wait()
            lines = ended.said.splitlines()
            if ended.code and (ended.code != 130 or [line for line in lines if line == INTERRUPTED] != lines[-1:]):
                raise Failure(f"the child ended with {ended.code} and said:\n{ended.said}")
            if any(not line.startswith("pbos: ") for line in lines):
                raise Failure(f"the child said:\n{ended.said}")
            report[f"{job}: {place.check(job, before, work)} after {'Ctrl-C' if ended.code else 'its end'}"] += 1
            place.check_again(job, work)
    return dict(sorted(report.items()))


def interrupt_here() -> None:
    """Send SIGINT to this process."""
    os.kill(os.getpid(), signal.SIGINT)


def writers(place: Bench, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Several processes make one output at once: all succeed, one wins, whole."""
    report: Counter[str] = Counter()
    jobs = [job for job in ("train", "compress", "embed-text", "convert") if job in place.jobs]
    for number in rounds(seconds, cases):
        job = jobs[number % len(jobs)]
        with case("writers", seed, number, job) as numbers:
            before, work = numbers.choice((None, "a")), place.emptied()
            place.put_before(job, before, work)
            children = [place.start(job, work, lambda: None, name) for name in numbers.sample("aabb", 3)]
            for child in children:
                ended = child.wait()
                if ended.code:
                    raise Failure(f"a child ended with {ended.code} and said:\n{ended.said}")
            found = digest(work / JOBS[job][0])
            if found not in (place.wanted[job, "a"], place.wanted[job, "b"]) or names_in(work) != [JOBS[job][0]]:
                raise Failure(f"the output is none of the outputs; there are {names_in(work)}")
            report[f"{job}: {'a' if found == place.wanted[job, 'a'] else 'b'} won"] += 1
    return dict(sorted(report.items()))


def interpreters(place: Bench, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Ctrl-C at any time, and readers that stop, in processes of their own."""
    report: Counter[str] = Counter()
    code = "import sys; from pbos.cli import main; sys.stderr.write('ready\\n'); main()"
    inputs = place.folder / "in"
    for number in rounds(seconds, cases):
        with case("interpreters", seed, number) as numbers:
            work = place.emptied()
            command = PRINTING[number // 2 % len(PRINTING)]
            arguments = command.split()
            if command in PRINTING[:4]:
                arguments += ["-m", str(inputs / "a"), "-i", str(inputs / "words")]
            process = subprocess.Popen(
                [sys.executable, "-c", code, *arguments],
                cwd=work,
                env={**os.environ, "PYTHONPATH": str(Path(pbos.__file__).parents[1])},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            assert process.stdout is not None and process.stderr is not None
            if number % 2:
                process.stderr.readline()
                time.sleep(numbers.uniform(0, 3))
                process.send_signal(signal.SIGINT)
                kind, allowed = "Ctrl-C", {0, 130, -signal.SIGINT}
            else:
                if numbers.random() < 0.5:
                    process.stdout.readline()
                process.stdout.close()
                process.stdout, kind, allowed = None, "a reader that stops", {0, 1}
            _, err = process.communicate(timeout=120)
            said = [line for line in err.decode().splitlines() if line != "ready"]
            if process.returncode not in allowed or said not in ([], [INTERRUPTED]):
                raise Failure(f"{kind}: pbos {command} ended with {process.returncode} and said:\n{err.decode()}")
            report[f"{kind}: exit code {process.returncode}"] += 1
    return dict(sorted(report.items()))
