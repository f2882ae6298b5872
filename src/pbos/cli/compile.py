"""The command `pbos compile`: all kernels are compiled before they are needed."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path

from pbos.cli import options
from pbos.cli.common import write_result
from pbos.errors import PbosWarning
from pbos.settings import DTYPES

N_WORDS = 1200  # enough for a confidence
OTHER_LETTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))  # more letters than a byte can count


def compile(json: options.Json = False) -> None:
    """Compile the code now, so that other commands start at once.

    Otherwise each part is compiled when it is first used, which takes a few seconds. Useful in a Dockerfile: set
    NUMBA_CACHE_DIR there, to a folder in the image. Code is compiled for the machine's processor.

    \b
    Examples:
      pbos compile
      NUMBA_CACHE_DIR=/var/cache/pbos pbos compile
    """
    start = time.perf_counter()
    from numba.core import event

    from pbos.kernels.vectors import compose

    with (
        tempfile.TemporaryDirectory() as examples,
        warnings.catch_warnings(),
        event.install_recorder("numba:compile") as recorder,
    ):
        warnings.simplefilter("ignore", PbosWarning)  # about the examples
        use_everything(Path(examples))
    compiled = [one.data["dispatcher"].py_func for _, one in recorder.buffer if one.is_start]
    count = sum(function.__module__.startswith("pbos.") for function in compiled)
    cache = getattr(compose, "stats", None)  # there is none if Numba is switched off
    folder = cache and cache.cache_path
    seconds = time.perf_counter() - start
    where = "not kept: set NUMBA_CACHE_DIR to a writable folder" if folder is None else f"in {folder}"
    sentence = f"{count} functions compiled in {seconds:.0f} s, {where}"
    write_result(json, {"functions": count, "seconds": seconds, "folder": folder}, [[sentence]])


def use_everything(folder: Path) -> None:
    """Read, train and use small models of every kind, which compiles all kernels."""
    from pbos import Segmenter, WordVectors, learn, load, train

    english = load()
    words = english.words[:N_WORDS]
    vectors = english.embed(words)[:, :8]
    file, text = folder / "vectors.vec", folder / "text.txt"
    WordVectors(words, vectors).write(file)
    text.write_text((" ".join(words) + "\n") * 5, encoding="utf-8")
    model = train(file, text=text, progress=False)
    model.save(folder / "model")
    for each in (model, load(folder / "model")):
        each.embed("highest", contexts="higher than the highest")
    foreign = train((list(OTHER_LETTERS), english.embed(list(OTHER_LETTERS))[:, :8] + 1), progress=False)
    models = [each.compress(dtype=dtype) for each in (model, load(folder / "model"), foreign) for dtype in DTYPES]
    for each in (english, *models):
        each.embed("higher")
        each.segment("higher")
        each.sample("higher")
        each.explain("higher").to_dict()
    train(file, preset="pbos", progress=False)
    learn(text, dims=4, progress=False)
    segmenter = Segmenter.from_counts(dict.fromkeys(words, 1), boundaries=True, min_prob_words=2, em_rounds=1)
    segmenter.segment("higher")
