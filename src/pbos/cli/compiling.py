"""Compiling all kernels before they are needed: `pbos compile`."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

from numba.core import event

from pbos.corpus.learn import learn
from pbos.errors import PbosWarning
from pbos.kernels.vectors import compose
from pbos.model import Model, load
from pbos.segmenter import Segmenter
from pbos.settings import DTYPES
from pbos.training.train import train

N_WORDS = 1200  # enough for a confidence
OTHER_LETTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))  # more letters than a byte can count


def compile_kernels() -> tuple[int, str | None]:
    """Compile what reading, training and using models need, by doing so once with small examples.

    Returns how many functions were compiled (0 if all were in the cache), and the folder of the cache, or None if no
    folder can be written.
    """
    counter = Compilations()
    event.register("numba:compile", counter)
    try:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", PbosWarning)  # about the examples
            use_everything(Path(folder))
    finally:
        event.unregister("numba:compile", counter)
    stats = getattr(compose, "stats", None)
    return counter.count, stats and stats.cache_path


class Compilations(event.Listener):  # type: ignore[misc]  # Numba is untyped
    """Counts the kernels that Numba compiles."""

    count = 0

    def on_start(self, event: Any) -> None:
        """Count one of ours."""
        self.count += event.data["dispatcher"].py_func.__module__.startswith("pbos.")

    def on_end(self, event: Any) -> None:
        """Ignore."""


def use_everything(folder: Path) -> None:
    """Read, train and use small models of every kind."""
    english = load()
    use(english)
    words = english.words[:N_WORDS]
    vectors = english.embed(words)[:, :8]
    file, text = folder / "vectors.vec", folder / "text.txt"
    rows = (f"{word} {' '.join(map(str, row))}" for word, row in zip(words, vectors.tolist(), strict=True))
    file.write_text("\n".join([f"{len(words)} 8", *rows]) + "\n", encoding="utf-8")
    text.write_text((" ".join(words) + "\n") * 5, encoding="utf-8")
    model = train(file, progress=False)
    model.save(folder / "model")
    foreign = train((list(OTHER_LETTERS), english.embed(list(OTHER_LETTERS))[:, :8] + 1), progress=False)
    for each in (model, load(folder / "model"), foreign):
        for dtype in DTYPES:
            use(each.compress(dtype=dtype))
    train(file, preset="pbos", progress=False)
    learn(text, dims=4, progress=False)
    segmenter = Segmenter.from_counts(dict.fromkeys(words, 1), boundaries=True, min_prob_words=2, em_rounds=1)
    segmenter.segment("higher")


def use(model: Model) -> None:
    """Use a model in every way."""
    model.embed("higher")
    model.segment("higher")
    model.sample("higher")
    model.explain("higher").to_dict()
