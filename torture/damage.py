"""Damaged and crafted models: every bit flipped, every truncation, extreme headers, and indexes that only look valid.

A damaged model gives the same answers as before, or one clear error. An index that passes the checks of loading never
makes a kernel leave its arrays, whatever is in it: kernels run with bounds checks.
"""

from __future__ import annotations

import copy
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import pbos
from pbos import ModelError
from pbos.contexts import AMOUNTS, KINDS, N_FACTS, ContextMap, Expected
from pbos.files.model_folder import NUMPY_TYPES
from pbos.model import Model
from pbos.settings import Spelling
from pbos.words.confidence import CURVE, Confidence, Regression
from pbos.words.index import SubwordIndex
from pbos.words.text import pack_strings
from pbos.words.vectors import SubwordVectors
from torture.children import rounds

WORDS = ["high", "higher", "lower", "straße", "東京", "x-ray"]
ASKED = ["highest", "東京都", "x", "<>", "lowhighlow"]
FILES = ("config.json", "model.safetensors")


def answers(path: Path) -> list[Any]:
    """Load a model; return what it says about some words."""
    model = pbos.load(path)
    found = [model.embed(ASKED).tobytes(), model.segment(ASKED, 3), model.words, model.spelling, model.info]
    sentence = f"{model.words[0]} xyz" if model.has_contexts else None
    found.append(b"" if sentence is None else model.embed("xyz", contexts=sentence).tobytes())
    return [*found, model.confidence(ASKED).tobytes() if model.has_confidence else b""]


# Every bit and every truncation ---------------------------------------------------------------------------------------


def damaged_files(path: Path, generator: random.Random, share: float) -> Iterator[tuple[str, bytes]]:
    """Yield a share of all files in which one bit is flipped or which are cut: names and contents."""
    for name in FILES:
        content = (path / name).read_bytes()
        for at in range(len(content)):
            for bit in range(8):
                if generator.random() < share:
                    changed = bytearray(content)
                    changed[at] ^= 1 << bit
                    yield name, bytes(changed)
            if generator.random() < share:
                yield name, content[:at]


def small_models() -> dict[str, Model]:
    """Return small models of all kinds."""
    table = WORDS, np.eye(6, 4)
    levels = pbos.train(table, lam=0.1, keep_targets=True, progress=False)
    return {
        "exact": pbos.train(table, preset="pbos", epochs=3, progress=False),
        "levels": levels,
        "int8": levels.compress(dtype="int8", keep_targets=False),
        "float16": levels.compress(dtype="float16"),
        "contexts": with_contexts(levels),
    }


def with_contexts(model: Model) -> Model:
    """Return a model with a confidence and a map from contexts, of random numbers: a table of few words has none."""
    generator = np.random.default_rng(0)

    def numbers(*shape: int) -> Any:
        return generator.random(shape).astype(np.float32) + np.float32(0.01)

    def regression(n: int) -> Regression:
        return Regression(numbers(n), numbers(n), numbers(1 + n + n * (n + 1) // 2), numbers(CURVE))

    dims, frequent = model.dims, ["high", "the"]
    evidence = numbers(len(model.subword_vectors), 2).astype(np.float16)
    found = regression(6)
    arrays = found.center, found.spread, found.coefficients, found.curve
    confidence = Confidence(evidence, numbers(dims), numbers(1), *arrays, is_word=regression(7))
    kept, counting = np.array([0.5, 0.25], np.float32), np.array([5, 1, 0])
    contexts = ContextMap(
        numbers(KINDS * dims, dims).astype(np.float16),
        tuple(Expected(regression(N_FACTS), regression(N_FACTS)) for _ in (*AMOUNTS, None)),
        pack_strings(frequent),
        kept,
        counting,
    )
    parts = model.index, model.spelling, model.subword_vectors, pack_strings(model.words)
    return Model(*parts, info=model.info, confidence=confidence, contexts=contexts)


def flips(seconds: float, seed: int, share: float = 1.0) -> dict[str, int]:
    """Damage small models, one bit or one cut at a time, until the time is over."""
    generator = random.Random(seed)
    until = time.monotonic() + seconds
    counts = {"damaged models": 0, "errors": 0, "same answers": 0}
    with tempfile.TemporaryDirectory() as folder:
        for kind, model in small_models().items():
            whole, damaged = Path(folder, kind), Path(folder, f"{kind}-damaged")
            model.save(whole)
            expected = answers(whole)
            for name, content in damaged_files(whole, generator, share):
                if time.monotonic() > until:
                    return counts
                shutil.rmtree(damaged, ignore_errors=True)  # the old files may still be mapped
                shutil.copytree(whole, damaged)
                (damaged / name).unlink()
                (damaged / name).write_bytes(content)
                counts["damaged models"] += 1
                try:
                    found = answers(damaged)
                except ModelError:
                    counts["errors"] += 1
                    continue
                if found != expected:
                    kept = tempfile.mkdtemp(prefix="pbos-damage-")
                    shutil.copytree(damaged, kept, dirs_exist_ok=True)
                    raise AssertionError(f"a damaged model has other answers: {kept}, {name} of {kind}")
                counts["same answers"] += 1
    return counts


# Headers with extreme numbers -----------------------------------------------------------------------------------------

EXTREMES: list[Any] = [0, 1, 2, -1, -8, *(2**bits + more for bits in (31, 32, 40, 62, 63, 64) for more in (-1, 0, 1))]
EXTREMES += [10**30, True, None, 1.5, "5", [], {}, "F32"]
LARGEST = 256 << 20  # bytes of a tensor that is in the file, which has a hole there
LARGEST_FILE = 1 << 40  # which disks can have; it is nearly all hole


def strange_header(header: dict[str, Any], config: dict[str, Any], size: int, generator: random.Random) -> int:
    """Change a header and its config, as somebody would who wants kernels to leave the file; return its new size."""
    name = generator.choice(sorted(header))
    entry, other = header[name], header[generator.choice(sorted(header))]
    match generator.randrange(7):
        case 0:
            entry["shape"][generator.randrange(len(entry["shape"]))] = generator.choice(EXTREMES)
        case 1:
            entry["data_offsets"][generator.randrange(2)] = generator.choice(EXTREMES)
        case 2:
            entry["data_offsets"] = [at + generator.choice(EXTREMES[:20]) for at in entry["data_offsets"]]
        case 3:
            entry["dtype"] = generator.choice([*NUMPY_TYPES, "U64", "BF16", None, []])
        case 4:
            entry[generator.choice(["shape", "data_offsets"])] = generator.choice([[], [0], [0, 1, 2], "11", None, 5])
        case 5:
            entry |= {key: copy.deepcopy(other[key]) for key in generator.sample(sorted(other), 2)}
        case _:  # much larger, and the file has room for that
            rows, width = generator.choice([0, 1, 1 << 16, 1 << 20, 1 << 26]), int(NUMPY_TYPES[entry["dtype"]][-1])
            n_bytes = rows * width * math.prod(entry["shape"][1:])
            if n_bytes <= LARGEST:
                start = size + -size % 8
                size = start + n_bytes
                entry |= {"shape": [rows, *entry["shape"][1:]], "data_offsets": [start, size]}
            key = {"subword_vectors": "vectors", "words.offsets": "words", "index.labels": "subwords"}.get(name)
            if key:
                config[key] = rows - (key != "vectors")
    return size


def headers(seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Load small models whose headers have extreme numbers, and use those that load."""
    generator = random.Random(seed)
    counts = {"headers": 0, "errors": 0, "loaded": 0}
    with tempfile.TemporaryDirectory() as folder:
        contents = []
        for kind, model in small_models().items():
            model.save(Path(folder, kind))
            raw, config = ((Path(folder, kind, name)).read_bytes() for name in ("model.safetensors", "config.json"))
            contents.append((raw, config))
        for _ in rounds(seconds, cases):
            raw, content = generator.choice(contents)
            end = 8 + int.from_bytes(raw[:8], "little")
            header, config, size = json.loads(raw[8:end]), json.loads(content), len(raw) - end
            del header["__metadata__"], config["checksum"]
            with suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):  # it is strange already
                for _ in range(generator.choice([1, 1, 2, 3])):
                    size = strange_header(header, config, size, generator)
            path = Path(tempfile.mkdtemp(dir=folder))
            written = json.dumps(header).encode()
            written += b" " * (-len(written) % 8)
            with (path / "model.safetensors").open("wb") as stream:
                stream.write(len(written).to_bytes(8, "little") + written + raw[end:])
                end = 8 + len(written) + generator.choice([size, size, size, max(0, size - 9), size + 99])
                stream.truncate(min(end, LARGEST_FILE))
            (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
            counts["headers"] += 1
            try:
                with np.errstate(all="ignore"):
                    answers(path)
                counts["loaded"] += 1
            except ModelError:
                counts["errors"] += 1
            shutil.rmtree(path)
    return counts


# Indexes that look valid ----------------------------------------------------------------------------------------------


def random_index(generator: np.random.Generator) -> SubwordIndex:
    """Return a random trie; about two in three then get a few random numbers in the wrong places."""
    n_letters = int(generator.choice([0, 1, 2, 5, 60, 130, 300]))
    alphabet = np.unique(np.concatenate([[ord(c) for c in "<>abcdehigrstw"], generator.integers(32, 0x3000, 300)]))
    alphabet = np.sort(generator.permutation(alphabet)[:n_letters])
    labels, children = [0, *range(alphabet.size)], [0]
    most = int(generator.choice([3, 50, 500]))
    node = 1
    while node < len(labels):
        count = int(generator.choice([0, 0, 0, 1, 1, 2, min(5, n_letters), n_letters]))
        count = count if len(labels) + count <= 1 + n_letters + most else 0
        labels += sorted(generator.permutation(alphabet.size)[:count].tolist())
        children.append(min(count, alphabet.size))
        node += 1
    n_nodes = len(labels)
    probs = np.where(generator.random(n_nodes) < 0.7, 10.0 ** -generator.uniform(0, 40, n_nodes), 0).astype(np.float32)
    rows = np.where(generator.random(n_nodes) < 0.5, generator.integers(0, 9, n_nodes), -1).astype(np.int32)
    probs[0], rows[0] = 0, -1
    if generator.random() < 0.3:
        children[0] = 0
    index = SubwordIndex.of(alphabet, np.array(labels), np.array(children), probs, rows)
    if generator.random() < 0.3:
        index = index.with_prob_levels()
    return broken(index, generator) if generator.random() < 0.67 else index


def broken(index: SubwordIndex, generator: np.random.Generator) -> SubwordIndex:
    """Return an index in which a few numbers are changed, exchanged or moved."""
    arrays = {name: array.copy() for name, array in index.arrays._asdict().items()}
    for _ in range(int(generator.choice([1, 1, 2, 4]))):
        name = str(generator.choice(["alphabet", "labels", "children", "children", "labels", "probs", "rows"]))
        flat = arrays[name].reshape(-1)
        if not flat.size:
            continue
        at, to = generator.integers(0, flat.size, 2)
        match int(generator.integers(4)):
            case 0:
                flat[at], flat[to] = flat[to], flat[at]
            case 1:
                flat[at] = generator.choice([0, 1, 2, 255 if flat.dtype.kind == "u" else -1])
            case 2 if flat.dtype.kind == "u":
                flat[at] += flat.dtype.type(1)
                flat[to] -= flat.dtype.type(1)
            case _:
                bits = flat.view(np.uint8)
                bits[generator.integers(bits.size)] ^= 1 << generator.integers(8)
    return SubwordIndex(index.arrays._replace(**arrays))


def random_model(index: SubwordIndex, generator: np.random.Generator) -> Model:
    """Return a model with an index, and numbers that may be anything, as nothing checks them."""
    rows, dims = 9, 3

    def numbers(*shape: int) -> Any:
        values = generator.normal(size=shape)
        odd = generator.choice([np.nan, np.inf, -np.inf, 1e38, -1.0, 0.0], size=shape)
        return np.where(generator.random(shape) < generator.choice([0, 0.3]), odd, values).astype(np.float32)

    is_int8 = generator.random() < 0.5
    values = generator.integers(-128, 128, (rows, dims)).astype(np.int8) if is_int8 else numbers(rows, dims)
    vectors = SubwordVectors(values, numbers(rows)) if is_int8 else SubwordVectors(values, norms=numbers(rows))
    with np.errstate(all="ignore"):
        evidence = numbers(rows, 2).astype(np.float16)
    scale, spread = (np.abs(generator.normal(size=size)).astype(np.float32) + np.float32(1e-6) for size in (1, 6))
    others = numbers(28), numbers(CURVE)
    confidence = Confidence(evidence, numbers(dims), scale, numbers(6), spread, *others)
    marks = bool(generator.random() < 0.5)
    spelling = Spelling(boundaries=marks, inner_boundaries=marks, weighting=generator.choice(["posterior", "both"]))
    return Model(index, spelling, vectors, pack_strings(WORDS), None, {}, confidence)


def walk_indexes(seconds: float, seed: int, cases: int | None = None) -> dict[str, int]:
    """Walk random indexes that pass the checks; kernels have to be checked for bounds, see `indexes`."""
    generator = np.random.default_rng(seed)
    counts = {"indexes": 0, "valid": 0}
    for _ in rounds(seconds, cases):
        index = random_index(generator)
        counts["indexes"] += 1
        if not (index.has_sizes() and index.is_valid(9)):
            continue
        counts["valid"] += 1
        characters = [chr(code) for code in index.alphabet.tolist()] + ["\u4e00", "x", "-"]
        words = ["".join(generator.choice(characters, size)) for size in (1, 2, 5, 12, 40)] + list(index.strings())[-3:]
        words = [word for word in words if word.strip()]
        with np.errstate(all="ignore"):
            model = random_model(index, generator)
            model.embed(words, threads=1)
            model.confidence(words, threads=1)
            model.segment(words, 3, threads=1)
            model.sample(words, 2, seed=1, threads=1)
            model.subwords.weights(words, threads=1)
            model.subwords.spans(words[0])
    return counts


def indexes(seconds: float, seed: int, cases: int | None = None, jit: bool = True) -> dict[str, int]:
    """Do what `walk_indexes` does with bounds checks."""
    return checked("walk_indexes", seconds, seed, cases, jit)


def checked(attack: str, seconds: float, seed: int, cases: int | None = None, jit: bool = True) -> dict[str, int]:
    """Run an attack in a process with bounds checks: compiled, or without `jit` as plain Python."""
    checks = {"NUMBA_BOUNDSCHECK": "1"} if jit else {"NUMBA_DISABLE_JIT": "1"}
    cache = {"NUMBA_CACHE_DIR": str(Path(tempfile.gettempdir(), "pbos-bounds-checked"))}
    command = [sys.executable, "-m", "torture.damage", attack, str(seconds), str(seed), str(cases or 0)]
    done = subprocess.run(command, env={**os.environ, **checks, **cache}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} with {checks} ended with {done.returncode}: {done.stderr[-2000:]}")
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Flip and cut for half of the time, walk indexes and write strange headers for the other half."""
    return {
        "flips": flips(seconds / 2, seed),
        "indexes": indexes(seconds / 4, seed),
        "headers": checked("headers", seconds / 4, seed),
    }


if __name__ == "__main__":
    function, *numbers = sys.argv[1:]
    found = globals()[function](float(numbers[0]), int(numbers[1]), int(numbers[2]) or None)
    sys.stdout.write(json.dumps(found) + "\n")
