"""The command `pbos compile`: all kernels are compiled before they are needed."""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pbos.cli import options
from pbos.cli.common import write, write_json
from pbos.errors import PbosWarning
from pbos.settings import DTYPES

if TYPE_CHECKING:
    from pbos.model import Model

N_WORDS = 1200  # enough for a confidence
OTHER_LETTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))  # more letters than a byte can count


def compile(json: options.Json = False) -> None:
    """Compile the code now, so that other commands start at once.

    Otherwise each part is compiled when it is first used, which takes some seconds. Good in a Dockerfile: set
    NUMBA_CACHE_DIR there, to a folder of the image. Code is compiled for the processor of the machine.

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
    if json:
        write_json({"functions": count, "seconds": seconds, "folder": folder})
        return
    where = "kept nowhere: set NUMBA_CACHE_DIR to a folder that can be written" if folder is None else f"in {folder}"
    write(f"{count} functions compiled in {seconds:.0f} s, {where}")


def use_everything(folder: Path) -> None:
    """Read, train and use small models of every kind, which compiles all kernels."""
    from pbos import Segmenter, learn, load, train

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
