"""How large a training job is, before it starts: subwords, weights, memory, disk, time."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np

from pbos.errors import InputError
from pbos.jobs.pools import PLENTY
from pbos.jobs.threads import thread_count
from pbos.jobs.workspace import Workspace
from pbos.settings import Preset
from pbos.training.counting import characters_of, count_part
from pbos.training.solve import LEAST_SLICE, SLICE, bytes_per_dim
from pbos.words.text import encode

LEAST_MEMORY = 512 << 20
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SAMPLE = 1 << 16  # words whose subwords are counted to find out how many all words have
SEARCHED = 200  # dimensions solved to choose lam and to fit the confidence, about

# Bytes and seconds, measured on tables of 100,000 to 3,000,000 words (see docs/scale.md).
BASE = 300 << 20  # of the program itself
PER_WORD = 350  # the words as Python has them, their code points, their order
PER_SUBWORD = 80  # while subwords are counted, fitted and merged
PER_INDEXED = 60  # afterwards
PER_WEIGHT = 8
SECONDS_PER_WEIGHT = 1.0e-6  # of one core, to count subwords and to weigh words
SECONDS_PER_PRODUCT = 0.6e-9  # of one core, for each weight, dimension and iteration, while vectors are in the cache
CACHED = 60_000  # shared vectors; with ten times as many, a product takes longer by SLOWER times
SLOWER = 0.85
ITERATIONS = 14


def memory_size(memory: int | str) -> int:
    """Return an amount of memory in bytes.

    >>> memory_size("1.5G")
    1610612736
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", str(memory).strip(), re.IGNORECASE)
    size = float(match[1]) * UNITS[match[2].upper()] if match else 0.0
    if not 0 < size < math.inf:
        raise InputError(f"memory must be a number of bytes or such as '4G', got {memory!r}")
    if size < LEAST_MEMORY:
        raise InputError(f"memory must be at least {LEAST_MEMORY >> 20}M, got {memory!r}")
    return int(size)


class Plan(NamedTuple):
    """What a training job is expected to need; sizes in bytes.

    Attributes:
        words: The number of words.
        dims: The number of dimensions.
        subwords: How many subwords they have.
        weights: How many weights the words have, in all.
        shared: How many vectors are shared by words; these are solved for.
        vectors: How many vectors the model has.
        threads: How many threads work.
        memory: The most memory to use; None for no limit.
        fixed: What SGD has in memory besides: the weights twice, and for unit vectors all dimensions.
    """

    words: int
    dims: int
    subwords: int
    weights: int
    shared: int
    vectors: int
    threads: int
    memory: int | None
    fixed: int = 0

    @classmethod
    def of(
        cls, words: list[str], dims: int, recipe: Preset, threads: int | None = None, memory: int | None = None
    ) -> Plan:
        """Estimate a job from a sample of its words."""
        if not words:
            raise InputError("there are no words to train on; pass the vectors of at least one word")
        n = min(len(words), SAMPLE)
        chosen = np.random.default_rng(0).choice(len(words), n, replace=False)
        sample = [words[at] for at in chosen]
        longest = recipe.max_len or math.inf
        lengths = np.diff(encode(sample, recipe).offsets)
        spans = float(sum(length * (length + 1) / 2 if length <= longest else length * longest for length in lengths))
        few, many = (cls._counted(sample[:size], recipe) for size in (max(n // 4, 1), n))

        def grown(before: int, after: int) -> int:
            """Extrapolate: distinct subwords grow with a power of the number of words."""
            power = min(math.log(max(after / max(before, 1), 1), 4), 1)
            return int(after * (len(words) / n) ** power)

        subwords, shared = grown(few[0], many[0]), grown(few[1], many[1])
        weights, vectors = int(spans * len(words) / n), subwords
        if recipe.merge:  # many subwords have the same words; a word has about two vectors of its own
            shared = int(0.75 * shared)
            vectors, weights = shared + 2 * len(words), int(0.85 * weights)
        fixed = 2 * PER_WEIGHT * weights if recipe.solver == "sgd" else 0
        if recipe.unit_length:
            fixed += 4 * dims * (2 * vectors + len(words))
        return cls(len(words), dims, subwords, weights, shared, vectors, thread_count(threads), memory, fixed)

    @staticmethod
    def _counted(words: list[str], recipe: Preset) -> tuple[int, int]:
        """Return how many subwords some words have, and how many of these two words or more have."""
        codes = encode(words, recipe)
        ones = np.ones(len(words))
        counts = count_part(
            codes, ones, ones > 0, characters_of(codes.codes), recipe.max_len, Workspace(), slice(0, len(words))
        )
        return counts.labels.size, int((counts.n_words >= 2).sum())

    @property
    def _per_dim(self) -> int:
        return bytes_per_dim(self.words, self.shared, self.vectors)

    @property
    def _kept(self) -> int:
        """The memory for words and their index, while dimensions are solved."""
        return BASE + PER_WORD * self.words + PER_INDEXED * self.subwords + self.fixed

    @property
    def for_slices(self) -> int:
        """The memory for the slices of dimensions that are solved at the same time."""
        return PLENTY if self.memory is None else max(self.memory - self._kept, 0)

    @property
    def slices(self) -> int:
        """How many slices of dimensions are solved."""
        together = max(LEAST_SLICE, min(SLICE, self.for_slices // (self.threads * self._per_dim)))
        return 2 * -(-self.dims // (2 * together))

    @property
    def at_once(self) -> int:
        """How many of them are solved at the same time."""
        return max(1, min(self.threads, self.slices, self.for_slices // (self._width * self._per_dim)))

    @property
    def _width(self) -> int:
        return -(-self.dims // self.slices)

    @property
    def _preparing(self) -> int:
        return BASE + PER_WORD * self.words + PER_SUBWORD * self.subwords

    @property
    def _solving(self) -> int:
        return self._kept + self.at_once * max(self._width, LEAST_SLICE) * self._per_dim

    @property
    def in_memory(self) -> int:
        """The peak if everything is in memory."""
        matrices = 4 * self.dims * (self.vectors + self.words)
        return max(
            self._preparing + 3 * PER_WEIGHT * self.weights, self._solving + 2 * PER_WEIGHT * self.weights + matrices
        )

    @property
    def in_files(self) -> int:
        """The peak if large arrays are in files."""
        return max(self._preparing, self._solving)

    @property
    def spills(self) -> bool:
        """Whether large arrays have to be in files."""
        return self.memory is not None and self.in_memory > self.memory

    def check(self) -> None:
        """Raise InputError if the memory does not suffice."""
        if self.memory is not None and min(self.in_memory, self.in_files) > self.memory:
            needed = math.ceil(self.in_files / 2**30 * 2) / 2
            raise InputError(
                f"{self.words:,} words x {self.dims} need about {needed:g}G of memory, but only "
                f"{self.memory / 2**30:.3g}G may be used; allow more, or use fewer words (limit)"
            )

    @property
    def peak(self) -> int:
        """The most memory that is used."""
        return self.in_files if self.spills else self.in_memory

    @property
    def disk(self) -> int:
        """The bytes of files until the model is complete; 0 if everything is in memory."""
        if not self.spills:
            return 0
        return 4 * (self.dims + SEARCHED) * (self.vectors + self.words) + 3 * PER_WEIGHT * self.weights

    @property
    def seconds(self) -> float:
        """The time that the job takes, roughly."""
        products = self.weights * ITERATIONS * (self.dims + SEARCHED)
        slower = 1 + SLOWER * math.log10(max(self.shared / CACHED, 1))
        return (SECONDS_PER_WEIGHT * self.weights + SECONDS_PER_PRODUCT * slower * products) / self.threads

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as numbers, ready for JSON."""
        names = ("words", "dims", "subwords", "vectors", "weights", "threads", "slices", "at_once", "memory", "peak")
        return {name: getattr(self, name) for name in (*names, "disk", "seconds")}

    def facts(self) -> dict[str, str]:
        """Return the plan as text."""
        gib = 2**30
        facts = {
            "words": f"{self.words:,} x {self.dims}",
            "subwords": f"about {self.subwords:,}, {self.vectors:,} vectors",
            "weights": f"about {self.weights:,}",
            "dimensions": f"{self.slices} slices of {self._width}, {self.at_once} at a time",
            "memory": f"about {self.peak / gib:.1f} GiB at most"
            + (f" of {self.memory / gib:.3g}" if self.memory else ""),
        }
        if self.spills:
            facts["disk"] = f"about {self.disk / gib:.1f} GiB until the model is complete"
        seconds = self.seconds
        facts["time"] = f"about {seconds:.0f} seconds" if seconds < 120 else f"about {seconds / 60:.0f} minutes"
        return facts
