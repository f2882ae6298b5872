"""How large a training job is, before it starts: subwords, weights, memory, disk."""

from __future__ import annotations

import math
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

SAMPLE = 1 << 16  # words whose subwords are counted to find out how many all words have
SEARCHED = 200  # dimensions solved to choose lam and to fit the confidence, about
GIB = 1 << 30

# Bytes, measured on tables of 100,000 to 3,000,000 words (see docs/scale.md).
BASE = 300 << 20  # of the program itself
PER_WORD = 350  # the words as Python has them, their code points, their order
PER_SUBWORD = 80  # while subwords are counted, fitted and merged
PER_INDEXED = 60  # afterwards
PER_WEIGHT = 8


class Plan(NamedTuple):
    """What a training job is expected to need; sizes in bytes."""

    words: int
    dims: int
    subwords: int
    weights: int  # of all words
    shared: int  # vectors that several words share; these are solved for
    vectors: int  # of the model
    threads: int
    memory: int | None  # the most to use; None for no limit
    fixed: int = 0  # what SGD has in memory besides: the weights twice, and for unit vectors all dimensions

    @classmethod
    def of(
        cls, words: list[str], dims: int, recipe: Preset, threads: int | None = None, memory: int | None = None
    ) -> Plan:
        """Estimate a job from a sample of its words."""
        n = min(len(words), SAMPLE)
        sample = [words[at] for at in np.random.default_rng(0).choice(len(words), n, replace=False)]
        found = []
        for size in (max(n // 4, 1), n):
            codes, ones = encode(sample[:size], recipe), np.ones(size)
            alphabet, whole = characters_of(codes.codes), slice(0, size)
            counts = count_part(codes, ones, ones > 0, alphabet, recipe.max_len, Workspace(), whole)
            found.append((counts.labels.size, int((counts.n_words >= 2).sum())))
        # Distinct subwords grow with a power of the number of words.
        powers = (math.log(max(many / max(few, 1), 1), 4) for few, many in zip(*found, strict=True))
        growth = [(len(words) / n) ** min(power, 1) for power in powers]
        subwords, shared = (int(number * factor) for number, factor in zip(found[1], growth, strict=True))
        lengths, longest = np.diff(codes.offsets), recipe.max_len or math.inf
        spans = np.where(lengths <= longest, lengths * (lengths + 1) / 2, lengths * longest).sum()
        weights, vectors = int(spans * len(words) / n), subwords
        if recipe.merge:  # many subwords have the same words; a word has about two vectors of its own
            shared = int(0.75 * shared)
            vectors, weights = shared + 2 * len(words), int(0.85 * weights)
        fixed = 2 * PER_WEIGHT * weights if recipe.solver == "sgd" else 0
        if recipe.unit_length:
            fixed += 4 * dims * (2 * vectors + len(words))
        return cls(len(words), dims, subwords, weights, shared, vectors, thread_count(threads), memory, fixed)

    @property
    def for_slices(self) -> int:
        """The memory for the dimensions that are solved at the same time."""
        kept = BASE + PER_WORD * self.words + PER_INDEXED * self.subwords + self.fixed
        return PLENTY if self.memory is None else max(self.memory - kept, 0)

    @property
    def _stages(self) -> tuple[int, int]:
        """The peaks while subwords are counted and while dimensions are solved, if large arrays are in files."""
        words, per_dim = BASE + PER_WORD * self.words, bytes_per_dim(self.words, self.shared, self.vectors)
        at_once = max(LEAST_SLICE, min(self.for_slices // per_dim, self.threads * SLICE, self.dims))
        solving = words + PER_INDEXED * self.subwords + self.fixed + at_once * per_dim
        return words + PER_SUBWORD * self.subwords, solving

    @property
    def in_files(self) -> int:
        """The peak if large arrays are in files."""
        return max(self._stages)

    @property
    def in_memory(self) -> int:
        """The peak if everything is in memory."""
        (counting, solving), weights = self._stages, PER_WEIGHT * self.weights
        return max(counting + 3 * weights, solving + 2 * weights + 4 * self.dims * (self.vectors + self.words))

    @property
    def spills(self) -> bool:
        """Whether large arrays have to be in files."""
        return self.memory is not None and self.in_memory > self.memory

    def checked(self) -> Plan:
        """Return the plan, or raise InputError if the memory does not suffice."""
        if self.memory is not None and self.in_files > self.memory:
            raise InputError(
                f"{self.words:,} words x {self.dims} need about {math.ceil(self.in_files / GIB * 2) / 2:g}G of memory, "
                f"but only {self.memory / GIB:.3g}G may be used; allow more, or use fewer words (limit)"
            )
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as numbers, ready for JSON; `peak` and `disk` are those of the way it will run."""
        peak, disk = self.in_memory, 0  # on disk: until the model is complete
        if self.spills:
            vectors = 4 * (2 * self.dims + SEARCHED) * (self.vectors + self.words)
            peak, disk = self.in_files, vectors + 3 * PER_WEIGHT * self.weights
        names = "words", "dims", "subwords", "vectors", "weights", "threads", "memory"
        return {**{name: getattr(self, name) for name in names}, "peak": peak, "disk": disk}

    def facts(self) -> dict[str, str]:
        """Return the plan as text."""
        sizes = self.to_dict()
        allowed = f" of {self.memory / GIB:.3g}" if self.memory else ""
        facts = {
            "words": f"{self.words:,} x {self.dims}",
            "subwords": f"about {self.subwords:,}, {self.vectors:,} vectors",
            "weights": f"about {self.weights:,}",
            "memory": f"about {sizes['peak'] / GIB:.1f} GiB at most{allowed}",
        }
        if self.spills:
            facts["disk"] = f"about {sizes['disk'] / GIB:.1f} GiB until the model is complete"
        return facts
