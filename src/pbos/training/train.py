"""train(): joins the steps from word vectors and word counts to a model."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos import __version__
from pbos.errors import InputError, warn, whole_number
from pbos.files.model_folder import check_writable, new_folder, plain, target_of
from pbos.files.paths import absolute, is_remote, resolve_links, to_local_path
from pbos.jobs.interrupts import interruptible
from pbos.jobs.pools import check_scheduler, pool_of
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import blocks, one_blas_thread, thread_count
from pbos.jobs.workspace import Workspace, check_folder, workspace
from pbos.kernels import columns
from pbos.kernels.solving import NO_NORM
from pbos.model import Model
from pbos.settings import DTYPES, Preset, Settings, check_choice
from pbos.tables.counts import WordCounts
from pbos.tables.word_vectors import WordVectors
from pbos.training.confidence import with_lengths
from pbos.training.counting import count_subwords, fit_probabilities
from pbos.training.plan import Plan, memory_size
from pbos.training.solve import NONE
from pbos.training.system import System, make_system, solve
from pbos.training.tune import SEARCH_DIMS, Run
from pbos.words.arrays import FloatMatrix, cosines, projected, projection, unit_rows
from pbos.words.confidence import Confidence
from pbos.words.index import SubwordIndex
from pbos.words.readonly import locked, owned, read_only
from pbos.words.subwords import Subwords
from pbos.words.text import Codes, encode, first_of_equal, pack_strings
from pbos.words.variants import resolved
from pbos.words.vectors import SubwordVectors

if TYPE_CHECKING:
    from typing_extensions import Unpack

LARGEST = 1e15  # of the values of given vectors: sums of squares then fit a float32


@interruptible
def train(
    vectors: WordVectors | str | PathLike[str] | tuple[Any, Any] | Mapping[str, Any] | Any,
    counts: WordCounts | Mapping[str, float] | str | PathLike[str] | None = None,
    *,
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
    checked = check_arguments(
        preset=preset,
        limit=limit,
        heldout=heldout,
        dtype=dtype,
        output=output,
        memory=memory,
        scheduler=scheduler,
        parts=parts,
        info=info,
        threads=threads,
        device=device,
        seed=seed,
        **settings,
    )
    recipe, seed, most, folder = checked.recipe, checked.seed, checked.memory, checked.parts
    target_device = solver_device(device)
    known = None if counts is None else WordCounts.of(counts)
    given = read_vectors(vectors, limit, progress, scratch=folder and folder.parent if most is not None else None)
    if not len(given):
        raise InputError("there are no words to train on; pass the vectors of at least one word")
    recipe = resolved(recipe, given.words)
    words, rows = unique_words(given, recipe)
    table = WordCounts.from_ranks(words) if known is None else known.normalized(recipe.normalization)
    warn_if_unrelated(table, words)
    examples = Examples(words, given.vectors, rows, table, held_out_rows(len(words), heldout, seed))
    if keep_targets is None:
        keep_targets = recipe.max_vectors is None and dtype == "float32"
    plan = None if most is None else Plan.of(words, given.dims, recipe, threads, most)
    if plan is not None:
        plan.check()
    facts: dict[str, Any] = {"preset": preset, **asdict(recipe), "training": {"seed": seed}, **(info or {})}
    if scheduler is None and not (plan is not None and plan.spills):
        folder = None

    def describe() -> dict[str, Any]:
        job = {"version": __version__, "preset": asdict(recipe), "seed": seed, "device": str(target_device)}
        return job | {"examples": examples.digest()}

    memory_of_slices = None if plan is None else plan.for_slices
    with pool_of(scheduler, threads, memory_of_slices) as pool, workspace(folder, describe) as work:
        run = Run(recipe, seed, threads, target_device, progress, pool, work)
        result = fit(examples, run)
        if output is None or folder is None:
            model = in_memory(result, examples, facts, keep_targets, dtype, run)
            if output is not None:
                model.save(output)
            return model
        write_model(output, result, examples, facts, keep_targets, dtype, run)
    return Model.load(output)


class Checked(NamedTuple):
    """What `check_arguments` has found out."""

    recipe: Preset
    seed: int
    memory: int | None
    parts: Path | None  # the folder for parts, which may be needed


def check_arguments(
    *,
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
    **settings: Any,
) -> Checked:
    """Raise an error about an argument of `train` that cannot be used; called before any work is done, also for it."""
    recipe = Preset.named(preset, settings, others=inspect.signature(train).parameters)
    if limit is not None:
        whole_number("limit", limit, 1)
    check_share(heldout)
    check_choice("dtype", dtype, DTYPES)
    check_info(info)
    check_device(device, recipe)
    check_scheduler(scheduler)
    thread_count(threads)
    needing_output = {"memory": memory, "scheduler": scheduler, "parts": parts}
    if output is None and (needing := [name for name, value in needing_output.items() if value is not None]):
        raise InputError(f"{needing[-1]} needs the folder of the model; pass output")
    has_parts = memory is not None or scheduler is not None
    if parts is not None and not has_parts:
        raise InputError("parts is a folder for what memory or scheduler needs; pass one of them, or leave it out")
    most = None if memory is None else memory_size(memory)
    if output is not None:
        check_writable(output)
    folder = parts_of(output, parts) if output is not None and has_parts else None
    if folder is not None:
        check_folder(folder)
    return Checked(recipe, whole_number("seed", seed, 0), most, folder)


def plan_of(
    given: WordVectors, preset: str, settings: Mapping[str, Any], threads: int | None, memory: int | str | None
) -> Plan:
    """Return what training on vectors is expected to need."""
    recipe = resolved(Preset.named(preset, settings), given.words)
    return Plan.of(given.words, given.dims, recipe, threads, None if memory is None else memory_size(memory))


def parts_of(output: str | PathLike[str], parts: str | PathLike[str] | None) -> Path:
    """Return the folder for parts of a job: next to the output, or here if that is remote."""
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
    return folder


@dataclass(frozen=True)
class Result:
    """What a model is made of, besides its words."""

    index: SubwordIndex
    vectors: Any  # an array or Slices
    confidence: Confidence | None
    targets: FloatMatrix
    report: dict[str, Any]


def fit(examples: Examples, run: Run) -> Result:
    """Find the subwords of words, and their vectors."""
    recipe, progress = run.preset, run.progress
    words, table = examples.training_words, examples.table
    codes = run.work.keep_all("codes", encode(words, recipe))
    targets = run.work.step("targets", lambda: {"targets": examples.targets(run.work)})["targets"]
    with progress_bar("counting subwords", None, progress):
        index = SubwordIndex.of_tensors(
            run.work.step("counted", lambda: make_index(table, words, codes, run).tensors())
        )
        system = make_system(index, words, codes, targets, table.of_words(words), run)
    if recipe.max_vectors is not None and system.weights.n_columns > recipe.max_vectors:
        with progress_bar("selecting subwords", None, progress), one_blas_thread():
            index = most_important(system.index, importances(system, run), recipe.max_vectors)
            system = make_system(index, words, codes, targets, system.counts, run)
    with one_blas_thread():
        solution, confidence = solve(system, run)
    return Result(system.index, solution.vectors, confidence, targets, solution.report)


def in_memory(
    result: Result, examples: Examples, info: dict[str, Any], keep_targets: bool, dtype: str, run: Run
) -> Model:
    """Return the model."""
    values, lengths = stored(result.vectors, dtype, run.preset)
    confidence = None if result.confidence is None else with_lengths(result.confidence, lengths)
    targets = owned(np.ascontiguousarray(result.targets)) if keep_targets else None
    info["training"] |= result.report
    packed = pack_strings(examples.training_words)
    model = Model(result.index, run.preset.spelling, values, packed, targets, None, confidence)
    info["training"] |= examples.heldout_report(model, run)
    model.info = read_only(info)
    return model


def write_model(
    output: str | PathLike[str],
    result: Result,
    examples: Examples,
    info: dict[str, Any],
    keep_targets: bool,
    dtype: str,
    run: Run,
) -> None:
    """Write the model to a folder, some of its vectors at a time."""
    (n_rows, dims), kind = result.vectors.shape, np.dtype(dtype)
    plain = dict(zip(("words.bytes", "words.offsets"), pack_strings(examples.training_words), strict=True))
    plain |= result.index.tensors() | ({} if result.confidence is None else result.confidence.tensors())
    shapes = {name: (array.dtype, array.shape) for name, array in plain.items()}
    shapes["subword_vectors"] = kind, (n_rows, dims)
    shapes["subword_scales" if kind == np.int8 else "subword_norms"] = np.dtype(np.float32), (n_rows,)
    if keep_targets:
        shapes["target_vectors"] = np.dtype(np.float32), result.targets.shape
    with new_folder(output, shapes) as (tensors, describe), progress_bar("saving", n_rows, run.progress) as advance:
        lengths = np.empty(n_rows, np.float32)
        for some in blocks(n_rows):
            part, lengths[some] = stored(result.vectors[some], dtype, run.preset)
            tensors["subword_vectors"][some] = part.values
            for name, array in (("subword_scales", part.scales), ("subword_norms", part.norms)):
                if array is not None:
                    tensors[name][some] = array
            advance(some.stop - some.start)
        if result.confidence is not None:
            plain |= with_lengths(result.confidence, lengths).tensors()
        for name, array in plain.items():
            tensors[name][...] = array
        for some in blocks(len(result.targets)) if keep_targets else ():
            tensors["target_vectors"][some] = result.targets[some]
        info["training"] |= result.report
        model = Model.of_tensors(tensors, run.preset.spelling, {})
        info["training"] |= examples.heldout_report(model, run)
        model.info = read_only(info)
        describe(model.config(), model.card())


def stored(vectors: FloatMatrix, dtype: str, recipe: Preset) -> tuple[SubwordVectors, npt.NDArray[np.float32]]:
    """Return vectors as a model stores them, and their lengths."""
    # PBoS-n sums unit vectors; stored as such, they are summed like all others.
    values = SubwordVectors.of(unit_rows(vectors, NO_NORM) if recipe.unit_length else vectors)
    return values.astype(dtype), values.lengths


# -- inputs ------------------------------------------------------------------------------------------------------------


def check_device(device: str | None, recipe: Preset) -> None:
    """Raise InputError if there can be no device of this name, or the solver uses none."""
    if device is not None and not re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", str(device)):
        raise InputError(f'unknown device {device!r}; choose cpu, cuda, mps or xpu, or one of several, as in "cuda:1"')
    if device not in (None, "cpu") and recipe.solver == "sgd":
        raise InputError(f'device {device!r} needs solver="ridge": SGD takes one word after the other')


def solver_device(device: str | None) -> Any:
    """Return the PyTorch device to solve on; None for the CPU."""
    if device is None or device == "cpu":
        return None
    from pbos.training import gpu  # here, because importing PyTorch is slow

    return gpu.find_device(device)


def check_info(info: Mapping[str, Any] | None, own: str = "training") -> None:
    """Raise InputError if no model can be saved with this, or if it has the name of a report of pbos's own."""
    try:
        plain({**(info or {})})
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"info must be a mapping of names to plain data, as in JSON: {error}") from None
    if info and own in info:
        raise InputError(f'info has the name "{own}", under which pbos puts its own report; choose another')


def check_share(heldout: float) -> None:
    """Raise InputError if this is no share of words to hold out."""
    if isinstance(heldout, bool) or not (isinstance(heldout, Real) and 0 <= heldout < 1):
        raise InputError(f"heldout must be at least 0 and below 1, got {heldout}")


def read_vectors(vectors: Any, limit: int | None, progress: bool | None, scratch: Path | None = None) -> WordVectors:
    """Return the first words of what was given, reading no more of a file than needed."""
    if isinstance(vectors, (str, PathLike)):
        given = WordVectors.read(vectors, limit=limit, scratch=scratch, progress=progress)
    else:
        given = WordVectors.of(vectors)
        given = given if limit is None else WordVectors(given.words[:limit], given.vectors[:limit])
    for some in blocks(len(given)):
        if (large := np.abs(given.vectors[some]).max(axis=1) > LARGEST).any():
            word = given.words[some.start + int(large.argmax())]
            raise InputError(f"the vector of {word!r} has a value beyond {LARGEST:g}; divide all vectors by one number")
    return given


def unique_words(given: WordVectors, recipe: Preset) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Normalize the words; of words that become equal, keep the first. Returns them and their positions."""
    words, rows = first_of_equal(given.words, recipe.normalization)
    if dropped := len(given.words) - len(words):
        what = f"an earlier one after {recipe.normalization} normalization and"
        warn(f"1 word equals {what} is dropped" if dropped == 1 else f"{dropped} words equal {what} are dropped")
    return words, rows


def warn_if_unrelated(table: WordCounts, words: list[str]) -> None:
    """Warn if counts and vectors hardly share any words."""
    shared = len(set(table.words).intersection(words))
    if shared < 0.1 * len(words):
        warn(f"only {shared} of {len(words)} words with a vector have a count; are both in the same language and case?")


def held_out_rows(n_words: int, share: float, seed: int) -> npt.NDArray[np.int64]:
    """Return the positions of the words to hold out, in ascending order."""
    size = round(share * n_words)
    if size == n_words:
        raise InputError(f"holding out {share} of {n_words} words would leave none to train on")
    return np.sort(np.random.default_rng(seed).choice(n_words, size, replace=False))


class Examples(NamedTuple):
    """Words with vectors, some of them held out."""

    words: list[str]
    vectors: FloatMatrix  # of all words that were given
    rows: npt.NDArray[np.int64]  # the row of each word
    table: WordCounts
    hidden: npt.NDArray[np.int64]  # the positions of words held out

    @property
    def training_words(self) -> list[str]:
        """The words that are not held out."""
        return [self.words[at] for at in self._kept()] if self.hidden.size else self.words

    def _kept(self) -> npt.NDArray[np.int64]:
        return np.setdiff1d(np.arange(len(self.words)), self.hidden)

    def targets(self, work: Workspace) -> FloatMatrix:
        """Return the vectors of the training words; in a file, dimension by dimension."""
        rows = self.rows[self._kept()]
        if work.folder is None:
            return self.vectors if rows.size == len(self.vectors) else locked(self.vectors[rows])
        out = work.empty("targets", (rows.size, self.vectors.shape[1]), np.float32, by_column=True)
        for some in blocks(rows.size):
            out[some] = self.vectors[rows[some]]
        return out

    def digest(self) -> str:
        """Return a hash that tells these examples from others."""
        found = hashlib.blake2b(json.dumps([self.words, self.table.words]).encode())
        vectors = (self.vectors[some] for some in blocks(len(self.vectors)))
        arrays: tuple[npt.NDArray[Any], ...] = self.table.counts, self.rows, self.hidden, *vectors
        for array in arrays:
            found.update(f"{array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    def heldout_report(self, model: Model, run: Run) -> dict[str, Any]:
        """Return the mean cosine of the words held out: of all, the most frequent and the rarest."""
        if not self.hidden.size:
            return {}
        words = [self.words[at] for at in self.hidden]
        found = cosines(model.embed(words, threads=run.threads), self.vectors[self.rows[self.hidden]])
        third = max(len(words) // 3, 1)
        by_count = np.argsort(-self.table.of_words(words), kind="stable")
        parts = {"": by_count, "_frequent": by_count[:third], "_rare": by_count[-third:]}
        means = {f"heldout_cosine{name}": round(float(found[some].mean()), 4) for name, some in parts.items()}
        return {"heldout_words": len(words), **means}


# -- index and weights -------------------------------------------------------------------------------------------------


def counted_words(
    table: WordCounts, training_words: list[str], recipe: Preset
) -> tuple[Codes, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the words of a table and those training words that it lacks, their counts, and which are for training."""
    known, targets = set(table.words), set(training_words)
    words = [*table.words, *(word for word in training_words if word not in known)]
    counts = np.concatenate([table.counts, np.zeros(len(words) - len(table))])
    is_target = np.array([word in targets for word in words])
    return encode(words, recipe), np.ones_like(counts) if recipe.types else counts, is_target


def make_index(table: WordCounts, training_words: list[str], codes: Codes, run: Run) -> SubwordIndex:
    """Index the subwords of all counted words; those of the training words, which `codes` are of, have vectors."""
    recipe = run.preset
    words, counts, is_target = counted_words(table, training_words, recipe)
    words = run.work.keep_all("counted-words", words)
    index = count_subwords(
        words,
        counts,
        is_target,
        min_len=recipe.min_len,
        max_len=recipe.max_len,
        min_prob_words=recipe.min_prob_words,
        boundaries=recipe.boundaries,
        pool=run.pool,
        work=run.work,
    )
    keep = index.rows >= 0
    if recipe.min_vector_words > 1:
        keep &= Subwords(index, recipe).count_words(codes) >= recipe.min_vector_words
    if not keep.any():
        raise InputError(
            f"no subword of at least {recipe.min_len} characters is in {recipe.min_vector_words} or more training words"
        )
    if recipe.min_prob_words > 1 or recipe.min_vector_words > 1:
        index = index.with_vectors(keep)
    index = fit_probabilities(Subwords(index, recipe), words, counts, recipe.em_rounds, run.pool, run.work)
    if recipe.round_probs:
        index = index.with_prob_levels()
        index = index.with_vectors(index.rows >= 0)
    return index


# -- vectors -----------------------------------------------------------------------------------------------------------


def importances(system: System, run: Run) -> npt.NDArray[np.float64]:
    """Return how much each subword vector adds to the words' vectors: its squared length times its squared weights.

    Lengths are measured in a random projection, which is enough to rank them.
    """
    weights = system.weights
    targets = projected(system.targets, projection(system.targets.shape[1], SEARCH_DIMS, run.seed))
    recipe = replace(run.preset, own_share="fitted", confidence=False)
    plain = replace(run, preset=recipe, progress=False, work=run.work.inner("selection"))
    solution, _ = solve(replace(system, targets=plain.work.keep("targets", targets)), plain)
    parts = (solution.vectors[some].astype(np.float64) for some in blocks(weights.n_columns))
    lengths = np.concatenate([np.einsum("ij,ij->i", part, part) for part in parts])
    squares = np.zeros(weights.n_columns)
    columns.add_squares(weights.indptr, weights.indices, weights.data, np.arange(len(weights)), NONE, squares)
    importance: npt.NDArray[np.float64] = lengths * squares
    return importance


def most_important(index: SubwordIndex, importance: npt.NDArray[np.float64], n: int) -> SubwordIndex:
    """Return the index with the n most important vectors."""
    kept = np.zeros(importance.size, np.bool_)
    kept[np.argsort(-importance, kind="stable")[:n]] = True
    return index.with_vectors(kept[index.rows])  # which leaves nodes without a vector as they are
