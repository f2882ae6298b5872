"""Hostile files: random and damaged bytes for every reader of pbos.

Each case has to end within `MOST_SECONDS` of the processor, take less than `MOST_BYTES` of memory, and give a result or
an error of `pbos.errors`. Inputs are mutations of small valid files. Run `python -m torture.fuzz TARGET SECONDS SEED`;
with `--coverage`, atheris (`pip install atheris`) finds inputs that reach new code.
"""

from __future__ import annotations

import asyncio
import atexit
import bz2
import gzip
import importlib
import json
import lzma
import os
import pickle
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple

import numpy as np

MOST_SECONDS = 10  # of the processor, for a case
PATIENCE = 120  # seconds that a case may take in all: on a busy machine it waits for the processor
MOST_BYTES = 1 << 30  # for a process, in addition to what it has before the first case
WORDS = ["high", "higher", "lower", "straße", "東京", "x-ray"]
NUMBERS = [0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 32767, 65535, 2**20, 2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**40]
NUMBERS += [2**62, 2**63 - 1, 2**63, 2**64 - 1]
TOKENS = b"""nan inf -1 1e308 1e-400 3.5e38 0x1p9 " [ ] { } [[[[ {"a": null true \\u0000 \\ud800 word count dtype shape
data_offsets F32 U8 __metadata__ <U9 |O8 descr fortran_order""".split()
TOKENS += [b"\0", b"\xff", b"\n", b"\r", b"\r\n", b"\t", b" ", b",", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"PK\x03\x04"]


class Target(NamedTuple):
    """A reader: what it does with bytes, and small valid inputs."""

    read: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    needs: str = "numpy"  # a module without which there is nothing to test


@cache
def folder() -> Path:
    """Return a folder for the files that readers read, in memory if possible."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    path = tempfile.mkdtemp(prefix="pbos-fuzz-", dir=base)
    atexit.register(shutil.rmtree, path, ignore_errors=True)  # after a crash it stays, with the last input
    return Path(path)


def file_with(data: bytes, name: str) -> Path:
    """Return a file with some content. The old one is removed, since it may be mapped into memory."""
    path = folder() / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def joined(parts: list[bytes]) -> bytes:
    """Return the content of several files as one input."""
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def files_with(data: bytes, names: list[str]) -> Path:
    """Write an input of several files; return their folder."""
    for name in names:
        size = int.from_bytes(data[:4], "little")
        target, data = file_with(data[4 : 4 + size], name), data[4 + size :]
    return target.parent


# Readers --------------------------------------------------------------------------------------------------------------


def vectors() -> Any:
    """Return small vectors."""
    from pbos.tables.word_vectors import WordVectors

    return WordVectors(WORDS, np.arange(24, dtype=np.float32).reshape(6, 4) / 7 - 1)


def written(write: Callable[[Path], None], name: str) -> bytes:
    """Return what is written to a file."""
    path = folder() / name
    write(path)
    return path.read_bytes()


def vector_seeds(*names: str) -> Callable[[], list[bytes]]:
    """Return a function that writes small vectors in some formats."""
    return lambda: [written(vectors().write, name) for name in names]


def read_vectors(name: str) -> Callable[[bytes], object]:
    """Return a function that reads bytes as a file of vectors."""

    def read(data: bytes) -> object:
        from pbos.tables.word_vectors import WordVectors

        return WordVectors.read(file_with(data, name), progress=False)

    return read


def read_counts(data: bytes) -> object:
    """Read word counts, and count the letters of words if these are few."""
    from pbos.tables.counts import WordCounts

    return WordCounts.read(file_with(data, "counts"))


def count_seeds() -> list[bytes]:
    """Return word counts in all dialects."""
    return [
        b"the\t12\nhigher\t3\n" * 3,
        'word,count\n"a, b",5\nstraße,1.5\n'.encode(),
        b"  12 the\n   3 high\n",
        b"rank,token,freq\n1,the,12\n2,high,3e2\n",
    ]


def read_word_list(data: bytes) -> object:
    """Read a list of words, as a whole and in two parts."""
    from pbos.files.paths import decoded_lines, lines_between, open_bytes

    path = file_with(data, "words.txt")
    for first, end in ((0, None), (0, len(data) // 2), (len(data) // 2, None)):
        with open_bytes(path) as stream:
            found = list(decoded_lines(lines_between(stream, first, end), "line"))
    return found


def compressed_seeds() -> list[bytes]:
    """Return compressed word counts."""
    data = b"the\t12\nhigher\t3\n" * 3
    found = [gzip.compress(data), bz2.compress(data), lzma.compress(data)]
    if find_spec("zstandard"):
        import zstandard

        found.append(zstandard.ZstdCompressor(write_checksum=True).compress(data))
    return found


def pickle_seeds() -> list[bytes]:
    """Return KeyedVectors as gensim saves them."""
    plain = {"index_to_key": WORDS, "vectors": np.eye(6, 4, dtype=np.float32), "next_index": 6}
    return [*vector_seeds("x.kv")(), *(as_keyed_vectors(pickle.dumps(plain, protocol)) for protocol in (0, 2, 4, 5))]


def as_keyed_vectors(state: bytes) -> bytes:
    """Return a pickle of an object with the state that another pickle has."""
    body = state[:-1] if state[:1] != b"\x80" else state[2:-1]
    return b"\x80\x04cgensim.models.keyedvectors\nKeyedVectors\n)\x81" + body + b"b."


def read_polyglot(data: bytes) -> object:
    """Read a pickle of Polyglot."""
    from pbos.tables.pickles import read_polyglot

    return read_polyglot(file_with(data, "polyglot.pkl"))


def polyglot_seeds() -> list[bytes]:
    """Return pickles as Polyglot has them."""
    matrix = np.eye(6, 4, dtype=np.float32)
    return [pickle.dumps((tuple(WORDS), matrix), protocol) for protocol in (0, 1, 2, 4, 5)]


def read_vector_folder(data: bytes) -> object:
    """Read a folder of vectors."""
    from pbos.tables.word_vectors import WordVectors

    return WordVectors.read(files_with(data, ["folder/words.txt", "folder/vectors.npy"]))


def vector_folder_seeds() -> list[bytes]:
    """Return folders of vectors."""
    vectors().write(folder() / "vectors", format="folder")
    return [joined([(folder() / "vectors" / name).read_bytes() for name in ("words.txt", "vectors.npy")])]


def use_model(path: Path, has_vectors: bool) -> object:
    """Load a model or a segmenter and use everything in it."""
    import pbos

    loaded: Any = pbos.load(path) if has_vectors else pbos.Segmenter.load(path)
    asked = ["highest", "東京都", "x", "\u4e00\u4e01", "<>"]
    found = [loaded.segment(asked, 3), loaded.sample(asked, 2, seed=0), loaded.weights("higher")]
    if has_vectors:
        found += [loaded.embed(asked), loaded.words, loaded.neighbors("high", 2), list(loaded.index.strings())]
        if loaded.has_confidence:
            found.append(loaded.confidence(asked))
        repr(loaded), loaded.card(), json.dumps(loaded.config())
    return found


def read_model(data: bytes) -> object:
    """Load a model and use it."""
    return use_model(files_with(data, ["model/config.json", "model/model.safetensors"]), has_vectors=True)


def read_segmenter(data: bytes) -> object:
    """Load a segmenter and use it."""
    return use_model(files_with(data, ["segmenter/config.json", "segmenter/model.safetensors"]), has_vectors=False)


def without_checksums(path: Path) -> bytes:
    """Return the files of a model as one input, without checksums: these would find nearly every mutation."""
    config = json.loads((path / "config.json").read_text("utf-8"))
    del config["checksum"]
    data = (path / "model.safetensors").read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    del header["__metadata__"]
    new = json.dumps(header, separators=(",", ":")).encode()
    new += b" " * (-len(new) % 8)
    return joined([json.dumps(config).encode(), len(new).to_bytes(8, "little") + new + data[end:]])


@cache
def models() -> dict[str, Any]:
    """Return small models of all kinds, and a segmenter."""
    import pbos

    table = WORDS, np.eye(6, 4)
    exact = pbos.train(table, preset="pbos", epochs=3, keep_targets=True, progress=False)
    levels = pbos.train(table, lam=0.1, progress=False)
    return {
        "exact": exact,
        "levels": levels,
        "float16": exact.compress(dtype="float16"),
        "int8": levels.compress(dtype="int8"),
        "segmenter": pbos.Segmenter.from_counts({word: 3 for word in WORDS}, boundaries=True),
    }


def model_seeds() -> list[bytes]:
    """Return small models."""
    return [saved(name) for name in models() if name != "segmenter"]


def saved(name: str) -> bytes:
    """Return a small model as one input."""
    models()[name].save(folder() / name)
    return without_checksums(folder() / name)


def read_table(name: str) -> Callable[[bytes], object]:
    """Return a function that reads the words of a table, and copies it."""

    def read(data: bytes) -> object:
        from pbos.tables.columns import open_table, words_of_table, write_table

        path = file_with(data, name)
        words = list(words_of_table(path, None))
        with (
            open_table(path) as table,
            write_table(folder() / f"copy-{name}", table.schema, table.schema.names) as write,
        ):
            for batch in table.batches:
                write(batch.columns)
        return words

    return read


def table_seeds(name: str) -> Callable[[], list[bytes]]:
    """Return a function that makes small tables."""

    def seeds() -> list[bytes]:
        import pyarrow as pa
        from pyarrow import feather, parquet

        plain = pa.table({"word": [*WORDS, None], "n": range(7)})
        lists = pa.table({"word": pa.array(WORDS).dictionary_encode(), "l": [[1.5], [], None, [2, 3], [4], [5]]})

        def make(table: Any, **options: Any) -> bytes:
            write = parquet.write_table if name.endswith("parquet") else feather.write_feather
            return written(lambda path: write(table, path, **options), name)

        kinds = ("none", "snappy", "zstd") if name.endswith("parquet") else ("uncompressed", "lz4", "zstd")
        return [make(table, compression=kind) for table in (plain, lists) for kind in kinds]

    return seeds


COOCCURRENCE_FILES = [f"pairs/{name}" for name in ("info.json", "words.txt", "counts.npy", "indptr.npy")]
COOCCURRENCE_FILES += [f"pairs/{name}" for name in ("indices.npy", "data.npy")]


def read_cooccurrences(data: bytes) -> object:
    """Load co-occurrences and add them to themselves, which reads everything."""
    from pbos.corpus.cooccurrences import Cooccurrences, merge

    loaded = Cooccurrences.load(files_with(data, COOCCURRENCE_FILES))
    merge([loaded, loaded], folder() / "merged")
    return loaded.words


def cooccurrence_seeds() -> list[bytes]:
    """Return small co-occurrences."""
    from pbos.corpus.cooccurrences import Cooccurrences, Counting

    found = []
    for window in (0, 5):
        counted = Cooccurrences.of_block("the higher the lower\nx ray\n" * 3, Counting(window=window), ["block"])
        counted.save(folder() / f"pairs-{window}")
        names = [Path(name).name for name in COOCCURRENCE_FILES]
        found.append(joined([(folder() / f"pairs-{window}" / name).read_bytes() for name in names]))
    return found


def read_evaluation(data: bytes) -> object:
    """Read a benchmark of word similarity."""
    from pbos.evaluation.datasets import read_pairs

    return read_pairs(file_with(data, "pairs.txt"))


def evaluation_seeds() -> list[bytes]:
    """Return such files."""
    return [b"word1\tword2\tscore\nhigh\tlow\t3.5\n", b"high,low,3.5\nlow,lower,9\n", b"high low N 3.5\n"]


PATHS = ("/embed", "/segment", "/similarity", "/map", "/confidence", "/weights")


@cache
def server() -> Any:
    """Return the server of a small model, as an ASGI app."""
    from pbos.server.app import make_app

    return make_app(models()["levels"])


def read_request(data: bytes) -> object:
    """Post a body to the server, without a network; its first byte chooses the path."""
    from pbos.errors import InputError

    status = asyncio.run(post(PATHS[data[0] % len(PATHS)] if data else PATHS[0], data[1:]))
    if status in (400, 413, 422, 429):
        raise InputError(f"refused with {status}")
    if status != 200:
        raise RuntimeError(f"the server answered {status}")
    return status


async def post(path: str, body: bytes) -> int:
    """Post a body to a path of the server; return the status of the answer."""
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
    }
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80)}
    parts = [{"type": "http.request", "body": body}]
    answered: list[Any] = []

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await asyncio.sleep(MOST_SECONDS)  # the client stays
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        answered.append(message.get("status"))

    await server()(scope, receive, send)
    return int(answered[0])


def request_seeds() -> list[bytes]:
    """Return requests to all paths."""
    bodies: dict[str, Any] = {"/segment": {"words": WORDS, "n": 3}, "/similarity": {"pairs": [WORDS[:2], WORDS[2:4]]}}
    paths = [path for path in PATHS if path != "/confidence"]  # which the small model has not
    return [bytes([PATHS.index(path)]) + json.dumps(bodies.get(path, {"words": WORDS})).encode() for path in paths]


TARGETS = {
    "counts": Target(read_counts, count_seeds),
    "compressed": Target(read_counts, compressed_seeds),
    "word-list": Target(read_word_list, lambda: ["high\nhigher\r\nstraße\n\n東京".encode()]),
    "text": Target(read_vectors("x.vec"), vector_seeds("x.vec", "x.glove")),
    "binary": Target(read_vectors("x.bin"), vector_seeds("x.bin")),
    "npz": Target(read_vectors("x.npz"), vector_seeds("x.npz")),
    "safetensors": Target(read_vectors("x.safetensors"), vector_seeds("x.safetensors")),
    "gensim": Target(read_vectors("x.kv"), pickle_seeds, "gensim"),
    "polyglot": Target(read_polyglot, polyglot_seeds),
    "vector-folder": Target(read_vector_folder, vector_folder_seeds),
    "model": Target(read_model, model_seeds),
    "segmenter": Target(read_segmenter, lambda: [saved("segmenter")]),
    "arrow": Target(read_table("x.arrow"), table_seeds("x.arrow"), "pyarrow"),
    "parquet": Target(read_table("x.parquet"), table_seeds("x.parquet"), "pyarrow"),
    "cooccurrences": Target(read_cooccurrences, cooccurrence_seeds),
    "evaluation": Target(read_evaluation, evaluation_seeds),
    "request": Target(read_request, request_seeds, "fastapi"),
}


# Inputs ---------------------------------------------------------------------------------------------------------------


def mutated(data: bytes, others: list[bytes], generator: random.Random) -> bytes:
    """Return an input with a few changes of all kinds."""
    changed = bytearray(data)
    for _ in range(generator.choice((1, 1, 1, 2, 3, 5, 10))):
        size = len(changed)
        at = generator.randrange(size + 1)
        end = min(size, at + generator.choice((1, 1, 2, 4, 8, 16, 100)))
        match generator.randrange(10):
            case 0 if at < size:
                changed[at] ^= 1 << generator.randrange(8)
            case 1 if at < size:
                changed[at] = generator.choice((0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)))
            case 2:
                del changed[at:end]
            case 3:
                changed[at:at] = generator.choice(TOKENS) * generator.choice((1, 1, 1, 2, 100))
            case 4:
                changed[at:end] = generator.choice(TOKENS)
            case 5:
                number = generator.choice(NUMBERS) + generator.choice((0, 0, 1))
                width = generator.choice((1, 2, 4, 8))
                order: Any = generator.choice(("little", "little", "big"))
                changed[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, order)
            case 6:
                changed[at:at] = changed[at:end] * generator.choice((1, 2, 50))
            case 7:
                numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?", changed[:4096]))
                if numbers:
                    start, stop = generator.choice(numbers).span()
                    changed[start:stop] = str(generator.choice(NUMBERS) * generator.choice((1, 1, -1))).encode()
            case 8:
                other = generator.choice(others)
                start = generator.randrange(len(other) + 1)
                changed[at:end] = other[start : start + generator.choice((4, 16, 64, 1024))]
            case _:
                if generator.random() < 0.2:
                    del changed[at:]
    return bytes(changed[: 1 << 16])


# Runs -----------------------------------------------------------------------------------------------------------------


class Failure(Exception):
    """A case that ended with anything but a result or an error of pbos."""


def used_bytes() -> int:
    """Return how much memory the process has, without what is mapped from files."""
    fields = Path("/proc/self/status").read_text()
    return int(re.search(r"VmData:\s+(\d+)", fields)[1]) << 10  # type: ignore[index]


@contextmanager
def bounded() -> Iterator[None]:
    """Limit the memory of this process; more is a MemoryError, which is a failure."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used_bytes() + MOST_BYTES, before[1]))

    def stop(*_: object) -> None:
        raise TimeoutError(f"it took over {MOST_SECONDS} seconds of the processor, or {PATIENCE} in all")

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        set_timers(0, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_DATA, before)


def set_timers(processor_seconds: float, seconds: float) -> None:
    """Limit the time of what follows; 0 is no limit."""
    signal.setitimer(signal.ITIMER_PROF, processor_seconds)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def try_case(name: str, data: bytes) -> bool:
    """Read one input; return whether it was valid, or raise Failure with what reproduces it."""
    from pbos.errors import PbosError

    set_timers(MOST_SECONDS, PATIENCE)
    try:
        TARGETS[name].read(data)
        return True
    except PbosError:
        return False
    except BaseException as error:
        case = Path(tempfile.gettempdir()) / f"pbos-fuzz-{name}-{zlib.crc32(data):08x}"
        case.write_bytes(data)
        raise Failure(f"{name}: {type(error).__name__}: {error}; the input is {case}") from error
    finally:
        set_timers(0, 0)


def fuzz(name: str, seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Try mutations of the seeds of a target, for some time or a number of them; count them, and the valid ones."""
    generator = random.Random(f"{name}-{seed}")
    seeds = TARGETS[name].seeds()
    for data in seeds:
        TARGETS[name].read(data)  # raises an error if it is not valid; compiles what is needed
    tried = valid = 0
    with bounded():
        until = time.monotonic() + seconds
        while tried < cases if cases is not None else time.monotonic() < until:
            valid += try_case(name, mutated(generator.choice(seeds), seeds, generator))
            tried += 1
    return {"tried": tried, "valid": valid}


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Try all targets, each for its share of the time."""
    names = [name for name, target in TARGETS.items() if find_spec(target.needs)]
    return {name: fuzz(name, seconds / len(names), seed) for name in names}


def fuzz_with_coverage(name: str, seconds: float, seed: int) -> None:
    """Let atheris choose the inputs; does not return. Numbers of executions are in what libFuzzer prints at the end."""
    from pbos import kernels

    atheris: Any = importlib.import_module("atheris")

    for module in iter_modules(kernels.__path__, "pbos.kernels."):
        importlib.import_module(module.name)  # before, as Numba cannot compile instrumented code
    with atheris.instrument_imports(include=["pbos"]):
        seeds = TARGETS[name].seeds()
        for data in seeds:
            TARGETS[name].read(data)
    inputs = folder() / f"corpus-{name}"
    inputs.mkdir()
    for number, data in enumerate(seeds):
        (inputs / str(number)).write_bytes(data)
    limits = [f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-timeout={MOST_SECONDS}", "-rss_limit_mb=2048"]
    options = [*limits, "-print_final_stats=1", "-max_len=65536", f"-artifact_prefix={folder()}/{name}-", str(inputs)]

    def one(data: bytes) -> None:
        try_case(name, data)

    atheris.Setup([sys.argv[0], *options], one)
    with bounded():
        atheris.Fuzz()


def main() -> None:
    """Fuzz one target, and print the counts."""
    options = [option for option in sys.argv[1:] if option != "--coverage"]
    name, seconds, seed = options[0], float(options[1]), int(options[2])
    if "--coverage" in sys.argv:
        fuzz_with_coverage(name, seconds, seed)
    started = time.time()
    counts = fuzz(name, seconds, seed)
    sys.stdout.write(json.dumps({"target": name, "seed": seed, **counts, "seconds": int(time.time() - started)}) + "\n")


if __name__ == "__main__":
    main()
