"""train(): from word vectors and word counts to a model."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos import __version__
from pbos.corpus.count import contexts_of
from pbos.errors import InputError, warn, whole_number
from pbos.files.model_folder import check_writable, plain, target_of
from pbos.files.paths import absolute, is_remote, resolve_links, to_local_path
from pbos.jobs.interrupts import interruptible
from pbos.jobs.pools import check_scheduler, pool_of
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import blocks, memory_size, one_blas_thread, thread_count
from pbos.jobs.workspace import Workspace, check_folder, workspace
from pbos.kernels.solving import NO_NORM
from pbos.model import Model
from pbos.settings import DTYPES, Preset, Settings, check_choice
from pbos.tables.counts import WordCounts
from pbos.tables.word_vectors import WordVectors
from pbos.training.contexts import TextContexts, with_contexts, words_in
from pbos.training.counting import make_index
from pbos.training.fit import fit, most_important, with_lengths
from pbos.training.neighbors import LEAST_WORDS, with_neighbors
from pbos.training.plan import Plan
from pbos.training.solve import Solution
from pbos.training.system import Run, System, make_system
from pbos.words.arrays import FloatMatrix, cosines, held_out_rows, rows_of, unit_rows
from pbos.words.index import SubwordIndex
from pbos.words.readonly import locked, owned, read_only
from pbos.words.text import encode, first_of_equal, pack_strings
from pbos.words.variants import resolved
from pbos.words.vectors import SubwordVectors

if TYPE_CHECKING:
    from typing_extensions import Unpack

LEAST_FOR_CONTEXTS = 1000  # words of a table: with fewer, models have no confidence
LARGEST = 1e15  # of the values of given vectors: sums of squares then fit a float32


@interruptible
def train(
    vectors: WordVectors | str | PathLike[str] | tuple[Any, Any] | Mapping[str, Any] | Any,
    counts: WordCounts | Mapping[str, float] | str | PathLike[str] | None = None,
    *,
    text: Any = None,
    preset: str = "default",
    limit: int | None = None,
    heldout: float = 0.0,
    keep_targets: bool | None = None,
    dtype: str = "float32",
    output: str | PathLike[str] | None = None,
    memory: int | str | None = None,
    scheduler: Any = None,
    parts: str | PathLike[str] | None = None,
    info: Mapping[str, Any] | None = None,
    threads: int | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **settings: Unpack[Settings],
) -> Model:
    """Train a model: find the subword vectors whose weighted sums are closest to the given word vectors.

    The model is the same byte for byte for any number of threads, any amount of memory, and on a cluster.

    Args:
        vectors: A vector file (see `WordVectors.read`), WordVectors, a pair (words, matrix), a mapping from words to
            vectors, or gensim's KeyedVectors. A mapped file stays mapped.
        counts: How often words occur: a file (see `WordCounts.read`), a mapping, a language code ("en", needs the extra
            `wordfreq`), or None for 1/rank in the order of the vectors. The preset "default" counts every word once, so
            it needs none.
        text: A text, as for `learn`, that has words of the table: the model learns from it how to use contexts, the
            sentences in which a word occurs (see `Model.embed`). It may also be co-occurrences or their folder.
        preset: "default", or "pbos", "pbos-n" or "bos" with the settings of the paper.
        limit: Use only the first N words.
        heldout: The share of words (0 to 1) to hold out; the mean cosine between their composed and given vectors is
            in `model.info["training"]["heldout_cosine"]`, and that of the most frequent and the rarest third beside it.
        keep_targets: Keep the given vectors in the model, for `embed(..., exact=True)`. They are about a quarter of
            its size. None keeps them unless `max_vectors` or `dtype` asks for a small model.
        dtype: How to store the subword vectors: "float32", "float16" or "int8".
        output: A folder to save the model to.
        memory: The most memory to use, in bytes or as "8G"; needs `output`. Large arrays are kept in files, if they
            have to be, until the model is complete.
        scheduler: A Dask cluster to work on (extra `dask`): the address of its scheduler, "local" for processes on this
            machine, or Dask's client; needs `output`.
        parts: The folder of these files, which all workers must share; by default OUTPUT.parts. A call that was
            interrupted goes on from there if it is repeated. It is removed when the model is complete. Needs `memory`
            or `scheduler`.
        info: More about the model, as plain data, for `model.info`; without the name "training", which is for pbos.
        threads: The number of threads; None for one per core.
        device: Where to solve the ridge regression: "cuda", "cuda:1" or another PyTorch device (extra `torch`). Falls
            back to the CPU if it is not available. The vectors are as good as the CPU's, but not identical.
        seed: Determines the order of the words and which ones are held out.
        progress: Show a progress bar; None for "if stderr is a terminal".
        **settings: Settings to use in place of the preset's; see `pbos.Settings`.

    >>> model = train({"high": [1.0, 0.0], "higher": [1.0, 1.0], "lower": [0.0, 1.0]}, lam=1e-4)
    >>> print(model["higher"].round(1), model.embed("higher", exact=True))  # a mix; as given
    [0.8 0.6] [1. 1.]
    """
    arguments = {**locals()}  # before there are other names
    checked = check_arguments(**arguments.pop("settings"), **arguments)
    seed, most, folder, used_device = checked.seed, checked.memory, checked.parts, None
    if device is not None and not device.startswith("cpu"):
        from pbos.training import gpu  # here, because importing PyTorch is slow

        used_device = gpu.find_device(device)
    known = None if counts is None else WordCounts.of(counts)
    given = read_vectors(vectors, limit, progress, None if most is None or folder is None else folder.parent)
    recipe = resolved(checked.recipe, given.words)
    words, rows, table = unique_words(given, known, recipe.normalization)
    n_hidden = round(heldout * len(words))
    if n_hidden == len(words):
        raise InputError(f"holding out {heldout} of {n_hidden} words would leave none to train on")
    hidden = held_out_rows(len(words), n_hidden, seed)
    kept = np.setdiff1d(np.arange(len(words)), hidden)
    if text is not None and len(kept) < LEAST_FOR_CONTEXTS:
        raise InputError(f"a text needs a table of at least {LEAST_FOR_CONTEXTS:,} words, got {len(kept):,}")
    if recipe.spelling_neighbors and len(kept) < LEAST_WORDS:
        raise InputError(f"spelling_neighbors needs a table of at least {LEAST_WORDS:,} words, got {len(kept):,}")
    training_words = [words[at] for at in kept.tolist()]
    if keep_targets is None:
        keep_targets = recipe.max_vectors is None and dtype == "float32"
    plan = None if most is None else Plan.of(words, given.dims, recipe, threads, most).checked()
    if scheduler is None and not (plan is not None and plan.spills):
        folder = None  # as everything fits in memory

    def describe() -> dict[str, Any]:
        examples = hashlib.blake2b(json.dumps([words, table.words]).encode())
        arrays: list[npt.NDArray[Any]] = [table.counts, rows, hidden]
        for array in arrays + [given.vectors[block] for block in blocks(len(given))]:
            examples.update(f"{array.shape}".encode())
            examples.update(np.ascontiguousarray(array).data)
        job = {"version": __version__, "preset": asdict(recipe), "seed": seed, "device": str(used_device)}
        return {**job, "examples": examples.hexdigest()}

    with (
        contexts_of(text, recipe.normalization, memory=most, threads=threads, progress=progress) as pairs,
        pool_of(scheduler, threads, plan and plan.for_slices) as pool,
        workspace(folder, describe) as work,
    ):
        in_text = None if pairs is None else words_in(pairs, training_words, recipe.normalization)
        run = Run(recipe, seed, threads, used_device, progress, pool, work)
        codes, n_times = work.keep_all("codes", encode(training_words, recipe)), table.of_words(training_words)
        targets = gather(given.vectors, rows[kept], work, "targets", by_column=True)
        with progress_bar("counting subwords", None, progress):
            counted = work.step("counted", lambda: make_index(table, training_words, codes, run).tensors())
            index = counted_index = SubwordIndex.of_tensors(counted)
            system = make_system(index, training_words, codes, targets, n_times, run)
        if recipe.max_vectors is not None and system.weights.n_columns > recipe.max_vectors:
            with progress_bar("selecting subwords", None, progress), one_blas_thread():
                index = most_important(system, recipe.max_vectors, run)
                system = make_system(index, training_words, codes, targets, n_times, run)
            if not isinstance(recipe.own_share, str):  # words that have a vector of their own in a small model need it
                run = replace(run, preset=replace(recipe, own_share=1.0))
        with one_blas_thread():
            solution = fit(system, run, in_text)
        model = make_model(system, solution, keep_targets, dtype, run)
        if index is not counted_index:
            model = model._with_nearness(lambda rows: rows_of(targets, np.arange(rows.start, rows.stop)))
        if pairs is not None:
            with progress_bar("learning from contexts", None, progress), one_blas_thread():
                model = with_contexts(model, TextContexts(pairs, model, threads), targets, solution.held_out, seed)
        if recipe.spelling_neighbors:

            def train_on(some: npt.NDArray[np.int64], confidence: bool) -> Model:
                chosen = {name: solution.report[name] for name in ("lam", "reliability")}
                chosen |= {"confidence": confidence, "spelling_neighbors": 0}
                part = [training_words[row] for row in some.tolist()], rows_of(targets, some)
                more = {**asdict(recipe), **chosen, "threads": threads, "device": device}
                return train(part, table, keep_targets=False, progress=False, **more)

            with progress_bar("learning from spelling neighbors", None, progress), one_blas_thread():
                model = with_neighbors(model, targets, n_times, train_on, recipe.spelling_neighbors)
        report = {"seed": seed, **solution.report}
        if hidden.size:
            hidden_words = [words[at] for at in hidden.tolist()]
            report |= heldout_report(model, hidden_words, given.vectors[rows[hidden]], table, threads)
        model.info = read_only({"preset": preset, **asdict(recipe), "training": report, **(info or {})})
        if output is not None:
            model.save(output)
    return model if output is None or folder is None else Model.load(output)


# -- arguments, checked before any work is done ------------------------------------------------------------------------


class Checked(NamedTuple):
    """The arguments of `train` that are not used as they are given."""

    recipe: Preset
    seed: int
    memory: int | None  # in bytes
    parts: Path | None  # the folder for large arrays, which may be needed


def check_arguments(**given: Any) -> Checked:
    """Raise an error about an argument of `train` that cannot be used; those that are not given have their defaults."""
    parameters = inspect.signature(train).parameters
    settings = {name: value for name, value in given.items() if name not in parameters}
    one = SimpleNamespace(**{name: given.get(name, parameter.default) for name, parameter in parameters.items()})
    recipe = Preset.named(one.preset, settings, others=parameters)
    if one.limit is not None:
        whole_number("limit", one.limit, 1)
    is_number = isinstance(one.heldout, Real) and not isinstance(one.heldout, bool)
    if not (is_number and 0 <= one.heldout < 1):
        raise InputError(f"heldout must be at least 0 and below 1, got {one.heldout}")
    check_choice("dtype", one.dtype, DTYPES)
    check_info(one.info)
    if one.device is not None and not re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", str(one.device)):
        raise InputError(
            f'unknown device {one.device!r}; choose cpu, cuda, mps or xpu, or one of several, as in "cuda:1"'
        )
    if one.device not in (None, "cpu") and recipe.solver == "sgd":
        raise InputError(f'device {one.device!r} needs solver="ridge": SGD takes one word after the other')
    if one.text is not None and not recipe.confidence:
        raise InputError("text needs a model that has a confidence; train it with confidence=True and solver='ridge'")
    if recipe.spelling_neighbors and (one.memory is not None or one.scheduler is not None):
        raise InputError("spelling_neighbors needs the whole table in memory; leave out memory and scheduler")
    check_scheduler(one.scheduler)
    thread_count(one.threads)
    has_parts = one.memory is not None or one.scheduler is not None
    for name, value in {"parts": one.parts, "scheduler": one.scheduler, "memory": one.memory}.items():
        if value is not None and one.output is None:
            raise InputError(f"{name} needs the folder of the model; pass output")
    if one.parts is not None and not has_parts:
        raise InputError("parts is a folder for what memory or scheduler needs; pass one of them, or leave it out")
    most = None if one.memory is None else memory_size(one.memory)
    if one.output is not None:
        check_writable(one.output)
    folder = folder_for_parts(one.output, one.parts) if one.output is not None and has_parts else None
    return Checked(recipe, whole_number("seed", one.seed, 0), most, folder)


def folder_for_parts(output: str | PathLike[str], parts: str | PathLike[str] | None) -> Path:
    """Return the folder for the large arrays of a job: by default next to the output, or here if that is remote."""
    target = str(output).rstrip("/")
    if parts is None:
        parts = f"{target.rpartition('/')[2] if is_remote(target) else target}.parts"
    if is_remote(parts):
        raise InputError(f"parts must be a folder that can be mapped into memory, got {parts}")
    folder = absolute(to_local_path(parts).expanduser())
    if not folder.parent.is_dir():
        raise InputError(f"cannot keep parts in {folder}: the folder {folder.parent} does not exist")
    one, other = resolve_links(folder), Path(target_of(target))
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise InputError(f"cannot keep parts in {folder}: it is removed at the end, and the model is {output}")
    check_folder(folder)
    return folder


def check_info(info: Mapping[str, Any] | None, own: str = "training") -> None:
    """Raise InputError if no model can be saved with this, or if it has the name of a report of pbos's own."""
    try:
        plain({**(info or {})})
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"info must be a mapping of names to plain data, as in JSON: {error}") from None
    if info and own in info:
        raise InputError(f'info has the name "{own}", under which pbos puts its own report; choose another')


# -- inputs ------------------------------------------------------------------------------------------------------------


def read_vectors(vectors: Any, limit: int | None, progress: bool | None, scratch: Path | None = None) -> WordVectors:
    """Return the first words of what was given, reading no more of a file than needed."""
    if isinstance(vectors, (str, PathLike)):
        given = WordVectors.read(vectors, limit=limit, scratch=scratch, progress=progress)
    else:
        given = WordVectors.of(vectors)
        given = given if limit is None else WordVectors(given.words[:limit], given.vectors[:limit])
    if not given.words:
        raise InputError("there are no words to train on; pass the vectors of at least one word")
    for block in blocks(len(given)):
        if (large := np.abs(given.vectors[block]).max(axis=1) > LARGEST).any():
            word = given.words[block.start + int(large.argmax())]
            raise InputError(f"the vector of {word!r} has a value beyond {LARGEST:g}; divide all vectors by one number")
    return given


def unique_words(
    given: WordVectors, known: WordCounts | None, form: str
) -> tuple[list[str], npt.NDArray[np.int64], WordCounts]:
    """Return the normalized words, the first of those that become equal; their positions; and the normalized counts."""
    words, rows = first_of_equal(given.words, form)
    if dropped := len(given.words) - len(words):
        what = f"an earlier one after {form} normalization and"
        warn(f"1 word equals {what} is dropped" if dropped == 1 else f"{dropped} words equal {what} are dropped")
    if known is None:
        return words, rows, WordCounts.from_ranks(words)
    table = known.normalized(form)
    shared = len(set(table.words).intersection(words))
    if shared < 0.1 * len(words):
        warn(f"only {shared} of {len(words)} words with a vector have a count; are both in the same language and case?")
    return words, rows, table


def gather(
    vectors: FloatMatrix, rows: npt.NDArray[np.int64], work: Workspace, name: str, *, by_column: bool = False
) -> FloatMatrix:
    """Return some of the vectors; in a file, row by row or dimension by dimension."""
    if work.folder is None:
        return vectors if rows.size == len(vectors) else locked(vectors[rows])
    out = work.empty(name, (rows.size, vectors.shape[1]), np.float32, by_column=by_column)
    for block in blocks(rows.size):
        out[block] = vectors[rows[block]]
    return out


# -- the model ---------------------------------------------------------------------------------------------------------


def make_model(system: System, solution: Solution, keep_targets: bool, dtype: str, run: Run) -> Model:
    """Return the model; with a workspace, its vectors are in files there."""
    recipe, work, confidence, targets = run.preset, run.work, solution.confidence, None
    if work.folder is None:
        vectors, lengths = stored(solution.vectors, dtype, recipe)
        if keep_targets:
            targets = owned(np.ascontiguousarray(system.targets))
    else:
        values = work.empty("stored", solution.vectors.shape, np.dtype(dtype))
        known, lengths = np.empty(len(values), np.float32), np.empty(len(values), np.float32)
        for rows in blocks(len(values)):
            part, lengths[rows] = stored(solution.vectors[rows], dtype, recipe)
            values[rows], known[rows] = part.values, part.lengths
        vectors = SubwordVectors(values, known) if dtype == "int8" else SubwordVectors(values, norms=known)
        if keep_targets:
            targets = locked(gather(system.targets, np.arange(len(system.targets)), work, "kept-targets"))
    if confidence is not None:
        confidence = with_lengths(confidence, lengths)
    return Model(system.index, recipe.spelling, vectors, pack_strings(system.words), targets, None, confidence)


def stored(vectors: FloatMatrix, dtype: str, recipe: Preset) -> tuple[SubwordVectors, npt.NDArray[np.float32]]:
    """Return vectors as a model stores them, and their lengths."""
    # PBoS-n sums unit vectors; stored as such, they are summed like all others.
    values = SubwordVectors.of(unit_rows(vectors, NO_NORM) if recipe.unit_length else vectors)
    return values.astype(dtype), values.lengths


def heldout_report(
    model: Model, words: list[str], vectors: FloatMatrix, table: WordCounts, threads: int | None
) -> dict[str, Any]:
    """Return the mean cosine of the words held out: of all, the most frequent and the rarest."""
    found, third = cosines(model.embed(words, threads=threads), vectors), max(len(words) // 3, 1)
    by_count = np.argsort(-table.of_words(words), kind="stable")
    parts = {"": by_count, "_frequent": by_count[:third], "_rare": by_count[-third:]}
    means = {f"heldout_cosine{name}": round(float(found[rows].mean()), 4) for name, rows in parts.items()}
    return {"heldout_words": len(words), **means}
