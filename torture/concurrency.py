"""One model used by many at once, and replaced while it is read: every answer is that of a serial call, bit for bit."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import hashlib
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

import pbos
from pbos.files.model_folder import DATA
from torture.children import Failure, forked, rounds

QUERIES = 12
READERS = 4
METHODS = ("fork", "spawn", "forkserver")
SAMPLES = 20  # of the memory, during a soak
GROWTH = 4 << 20  # bytes that the memory may grow from the first to the last quarter of a soak
WARM_UP = 100  # rounds of a soak, in which the heap grows to its size


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Run all attacks of this module, each for its share of the time; with 25 minutes, the soak has ten."""
    attacks = {threads: 1, tasks: 1, processes: 2, replaced: 2, soak: 4}
    share = seconds / sum(attacks.values())
    return {attack.__name__: attack(parts * share, seed) for attack, parts in attacks.items()}


def answer(model: pbos.Model, words: list[str]) -> str:
    """Return a hash of what a model says about words."""
    found = hashlib.sha256()
    arrays = [model.embed(words), model.embed(words, threads=1)]
    arrays += [model.confidence(words)] if model.has_confidence else []
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    few = words[:3]
    found.update(repr((model.segment(few, n=3), model.neighbors(few, 3), model.explain(few[0]).to_dict())).encode())
    return found.hexdigest()


def queries(model: pbos.Model, seed: int, number: int = QUERIES) -> list[list[str]]:
    """Return lists of words, known and new ones."""
    numbers = random.Random(seed)
    return [
        ["".join(numbers.choices(model.words, k=numbers.randint(1, 3))) for _ in range(numbers.randint(3, 100))]
        for _ in range(number)
    ]


def check(found: str, wanted: str | set[str], what: str) -> None:
    """Raise Failure if an answer is not one of those of serial calls."""
    if found not in ({wanted} if isinstance(wanted, str) else wanted):
        raise Failure(f"{what}: the answer is not that of a serial call")


def threads(seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Threads share a model."""
    model = pbos.load()
    asked = queries(model, seed)
    wanted = [answer(model, words) for words in asked]
    report: Counter[str] = Counter()
    with ThreadPoolExecutor(2 * READERS) as pool:
        for number in rounds(seconds, cases):
            fresh = pbos.load()  # what it computes at first use is computed by several threads at once
            order = random.Random(f"{seed} {number}").choices(range(QUERIES), k=4 * READERS)
            for at, found in zip(order, pool.map(lambda at: answer(fresh, asked[at]), order), strict=True):  # noqa: B023
                check(found, wanted[at], f"threads, seed {seed}, round {number}, query {at}")
                report["answers"] += 1
    return dict(report)


def tasks(seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Tasks of asyncio share a model."""
    model = pbos.load()
    asked = queries(model, seed)
    wanted = [answer(model, words) for words in asked]
    report: Counter[str] = Counter()

    async def ask_all() -> list[str]:
        return await asyncio.gather(*(asyncio.to_thread(answer, model, words) for words in asked))

    for number in rounds(seconds, cases):
        if asyncio.run(ask_all()) != wanted:
            raise Failure(f"tasks, seed {seed}, round {number}: an answer is not that of a serial call")
        report["answers"] += len(asked)
    return dict(report)


def answer_in_process(model: pbos.Model | str, words: list[str]) -> str:
    """Return the answer of a model that comes with the call, or of one in a folder."""
    return answer(pbos.load(model) if isinstance(model, str) else model, words)


def processes(seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Processes get a model by pickle or load it; those that are forked are made while threads use it."""
    model = pbos.load()
    asked = queries(model, seed, 8)
    wanted = [answer(model, words) for words in asked]
    report: Counter[str] = Counter()
    for number in rounds(seconds, cases):
        method = METHODS[number % len(METHODS)]
        stop = threading.Event()
        busy = threading.Thread(target=ask_until, args=(model, asked[0], stop))
        busy.start()
        try:
            with multiprocessing.get_context(method).Pool(2) as pool:
                given = [(model if at % 2 else str(DATA / "english"), words) for at, words in enumerate(asked)]
                found = pool.starmap_async(answer_in_process, given).get(timeout=300)
        except multiprocessing.TimeoutError:
            raise Failure(f"processes, seed {seed}, round {number}: {method} hangs") from None
        finally:
            stop.set()
            busy.join()
        if found != wanted:
            raise Failure(f"processes, seed {seed}, round {number}, {method}: an answer is not that of a serial call")
        report[f"{method}: answers"] += len(asked)
    return dict(report)


def ask_until(model: pbos.Model, words: list[str], stop: threading.Event) -> None:
    """Ask a model again and again."""
    while not stop.is_set():
        model.embed(words, threads=1)


@contextmanager
def two_models() -> Iterator[tuple[Path, list[pbos.Model]]]:
    """Yield a temporary folder and two models of the same words, which differ in everything else."""
    words = [f"{stem}{end}" for stem in ("high", "low", "fast", "slow") for end in ("", "er", "est", "ly", "ness")]
    numbers = np.random.default_rng(0)
    options: list[dict[str, Any]] = [{}, {"normalization": "casefold", "dtype": "int8", "boundaries": False}]
    models = [pbos.train(dict(zip(words, numbers.normal(size=(20, 6)), strict=True)), **some) for some in options]
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        yield Path(folder), models


def replaced(seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """A model is replaced again and again, by two processes, while threads load and ask it: it is one or the other."""
    report: Counter[str] = Counter()
    with two_models() as (folder, models):
        words = [*models[0].words, "HIGHEST", "slowness"]
        wanted = {answer(model, words) for model in models}
        assert len(wanted) == 2
        models[0].save(folder / "model")
        pbos.load(folder / "model")
        writers = [forked(save_forever, models, folder / "model") for _ in range(2)]
        kept: list[pbos.Model] = []
        try:
            with ThreadPoolExecutor(READERS) as pool:
                for number in rounds(seconds, cases):
                    found = [model for model, _ in pool.map(load_and_ask, [(folder / "model", words)] * 20)]
                    kept = [*kept[-20:], *found[:1]]  # of a folder that is gone
                    for model in [*found, *kept]:
                        check(answer(model, words), wanted, f"replaced, seed {seed}, round {number}")
                    report["loads"] += len(found)
        finally:
            for writer in writers:
                os.kill(writer, signal.SIGKILL)
                os.waitpid(writer, 0)
        models[0].save(folder / "model")
        if (names := [path.name for path in folder.iterdir()]) != ["model"]:
            raise Failure(f"replaced, seed {seed}: there are {names}")
    return dict(report)


def load_and_ask(given: tuple[Path, list[str]]) -> tuple[pbos.Model, str]:
    """Load a model and ask it."""
    model = pbos.load(given[0])
    return model, answer(model, given[1])


def save_forever(models: list[pbos.Model], target: Path) -> None:
    """Save models, one after the other, until this process is killed."""
    while True:
        for model in models:
            model.save(target)


def soak(seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Soak in a process of its own, with one heap for all threads: otherwise what is free is scattered over several."""
    code = f"import json, torture.concurrency as it; print(json.dumps(it.soak_here({seconds}, {seed}, {cases})))"
    paths = os.pathsep.join(map(str, (Path(__file__).parents[1], Path(pbos.__file__).parents[1])))
    settings = {**os.environ, "MALLOC_ARENA_MAX": "1", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(done.stderr)
    return dict(json.loads(done.stdout))


def soak_here(seconds: float, seed: int, cases: int | None) -> dict[str, int]:
    """Load, ask, save and train for a while; once warm, the memory of the last quarter is that of the first."""
    model, report = pbos.load(), Counter[str]()
    asked = queries(model, seed, 8)
    wanted = [answer(model, words) for words in asked]
    sizes: list[int] = []
    with two_models() as (folder, models), ThreadPoolExecutor(READERS) as pool:
        began = time.monotonic()
        for number in rounds(seconds, cases):
            if list(pool.map(answer, [pbos.load()] * len(asked), asked)) != wanted:
                raise Failure(f"soak, seed {seed}, round {number}: an answer is not that of a serial call")
            models[number % 2].save(folder / "model")
            loaded = pbos.load(folder / "model")
            pbos.train((loaded.words, loaded.embed(loaded.words)))
            report["rounds"] += 1
            share = (number + 1) / cases if cases is not None else (time.monotonic() - began) / seconds
            if number >= WARM_UP and share * SAMPLES >= len(sizes) + 1:
                sizes.append(memory_in_use())
    sizes = sizes or [memory_in_use()]  # there were too few rounds to tell
    quarter = len(sizes) // 4
    grown = min(sizes[-quarter:]) - max(sizes[: quarter + 1]) if quarter else 0
    if grown > GROWTH:
        raise Failure(f"soak, seed {seed}: the memory grew by {grown / 2**20:.1f} MiB; samples: {sizes}")
    return {**report, "MB at the start": sizes[0] >> 20, "MB at the end": sizes[-1] >> 20}


def memory_in_use() -> int:
    """Return the memory that this process has allocated and holds, in bytes; 0 where the system does not say."""
    gc.collect()
    file = Path("/proc/self/status")
    if not file.exists():
        return 0
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # what is free goes back to the system
    return 1024 * int(re.findall(r"RssAnon:\s+(\d+)", file.read_text())[0])
