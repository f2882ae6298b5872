"""train(): joins the steps from word vectors and word counts to a model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, replace
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.arrays import FloatMatrix, cosines, unit_rows
from pbos.counts import WordCounts
from pbos.errors import InputError, warn, whole_number
from pbos.fitting import Run, System, make_system, solve
from pbos.index import SubwordIndex, count_subwords
from pbos.kernels.sgd import NO_NORM
from pbos.model import Model
from pbos.progress import progress as progress_bar
from pbos.reading import resolved
from pbos.settings import Preset, Settings
from pbos.subword_vectors import SubwordVectors
from pbos.subwords import Subwords
from pbos.text import Codes, encode, normalize, pack_strings
from pbos.threads import one_blas_thread
from pbos.tuning import SEARCH_DIMS
from pbos.vectors import WordVectors

if TYPE_CHECKING:
    from typing_extensions import Unpack


def train(
    vectors: WordVectors | str | PathLike[str] | tuple[Any, Any] | Mapping[str, Any] | Any,
    counts: WordCounts | Mapping[str, float] | str | PathLike[str] | None = None,
    *,
    preset: str = "default",
    limit: int | None = None,
    heldout: float = 0.0,
    keep_targets: bool | None = None,
    threads: int | None = None,
    device: str | None = None,
    seed: int = 0,
    progress: bool | None = None,
    **settings: Unpack[Settings],
) -> Model:
    """Train a model: find the subword vectors whose weighted sums are closest to the given word vectors.

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
            its size. None keeps them unless `max_vectors` asks for a small model.
        threads: The number of threads; None for one per core. The model is the same byte for byte for any number.
        device: Where to solve the ridge regression: "cuda", "cuda:1" or another PyTorch device (extra `torch`). Falls
            back to the CPU if it is not available. The vectors are as good as the CPU's, but not identical.
        seed: Determines the order of the words and which ones are held out.
        progress: Show a progress bar; None for "if stderr is a terminal".
        **settings: Settings to use in place of the preset's; see `pbos.Settings`.

    >>> model = train({"high": [1.0, 0.0], "higher": [1.0, 1.0], "lower": [0.0, 1.0]}, lam=1e-4)
    >>> print(model["higher"].round(1), model.embed("higher", exact=True))  # a mix; as given
    [0.8 0.6] [1. 1.]
    """
    recipe = Preset.named(preset, settings, others=inspect.signature(train).parameters)
    seed, limit = whole_number("seed", seed, 0), None if limit is None else whole_number("limit", limit, 1)
    target_device = solver_device(device, recipe)
    given = read_vectors(vectors, limit, progress)
    if not len(given):
        raise InputError("there are no words to train on; pass the vectors of at least one word")
    recipe = resolved(recipe, given.words)
    run = Run(recipe, seed, threads, target_device, progress)
    words, targets = unique_words(given, recipe)
    table = WordCounts.from_ranks(words) if counts is None else WordCounts.of(counts).normalized(recipe.normalization)
    warn_if_unrelated(table, words)

    hidden = held_out_rows(len(words), heldout, seed)
    kept_words, kept_targets = words, targets
    if hidden.size:
        kept = np.setdiff1d(np.arange(len(words)), hidden)
        kept_words, kept_targets = [words[i] for i in kept], targets[kept]
    codes = encode(kept_words, recipe)
    with progress_bar("counting subwords", None, progress):
        counted = counted_words(table, kept_words, recipe)
        index = make_index(counted, codes, run)
        system = make_system(index, kept_words, codes, kept_targets, table.of_words(kept_words), run)
    if recipe.max_vectors is not None and system.weights.n_columns > recipe.max_vectors:
        with progress_bar("selecting subwords", None, progress):
            index = most_important(system.index, importances(system, run), recipe.max_vectors)
            system = make_system(index, kept_words, codes, kept_targets, system.counts, run)
    with one_blas_thread():
        solution, confidence = solve(system, run)
    # PBoS-n sums unit vectors; stored as such, they are summed like all others.
    values = unit_rows(solution.vectors, NO_NORM) if recipe.unit_length else solution.vectors
    training = {"seed": seed, **solution.report}
    info: dict[str, Any] = {"preset": preset, **asdict(recipe), "training": training}
    if keep_targets is None:
        keep_targets = recipe.max_vectors is None
    given_vectors = np.ascontiguousarray(kept_targets) if keep_targets else None
    vectors_of_subwords, packed = SubwordVectors.of(values), pack_strings(kept_words)
    model = Model(system.index, recipe.spelling, vectors_of_subwords, packed, given_vectors, info, confidence)
    if hidden.size:
        training |= heldout_report(model, [words[i] for i in hidden], targets[hidden], table, threads)
    return model


class Counted(NamedTuple):
    """The words that subword probabilities come from."""

    words: Codes
    counts: npt.NDArray[np.float64]
    is_target: npt.NDArray[np.bool_]  # whether the word has a vector


# -- inputs ------------------------------------------------------------------------------------------------------------


def solver_device(device: str | None, recipe: Preset) -> Any:
    """Return the PyTorch device to solve on; None for the CPU."""
    if device is None or device == "cpu":
        return None
    if recipe.solver == "sgd":
        raise InputError(f'device {device!r} needs solver="ridge": SGD takes one word after the other')
    from pbos import gpu  # here, because importing PyTorch is slow

    return gpu.find_device(device)


def read_vectors(vectors: Any, limit: int | None, progress: bool | None) -> WordVectors:
    """Return the first words of what was given, reading no more of a file than needed."""
    if isinstance(vectors, (str, PathLike)):
        return WordVectors.read(vectors, limit=limit, progress=progress)
    given = WordVectors.of(vectors)
    return given if limit is None else WordVectors(given.words[:limit], given.vectors[:limit])


def unique_words(given: WordVectors, recipe: Preset) -> tuple[list[str], FloatMatrix]:
    """Normalize the words; of words that become equal, keep the first."""
    words = normalize(given.words, recipe.normalization)
    first = {word: row for row, word in reversed(list(enumerate(words)))}
    if len(first) == len(words):
        return words, given.vectors
    dropped = len(words) - len(first)
    what = f"an earlier one after {recipe.normalization} normalization and"
    warn(f"1 word equals {what} is dropped" if dropped == 1 else f"{dropped} words equal {what} are dropped")
    rows = sorted(first.values())
    return [words[row] for row in rows], given.vectors[rows]


def warn_if_unrelated(table: WordCounts, words: list[str]) -> None:
    """Warn if counts and vectors hardly share any words."""
    known = set(table.words)
    shared = sum(word in known for word in words)
    if shared < 0.1 * len(words):
        warn(f"only {shared} of {len(words)} words with a vector have a count; are both in the same language and case?")


def held_out_rows(n_words: int, share: float, seed: int) -> npt.NDArray[np.int64]:
    """Return the positions of the words to hold out, in ascending order."""
    if not (isinstance(share, Real) and 0 <= share < 1):
        raise InputError(f"heldout must be at least 0 and below 1, got {share}")
    size = round(share * n_words)
    if size == n_words:
        raise InputError(f"holding out {share} of {n_words} words would leave none to train on")
    return np.sort(np.random.default_rng(seed).choice(n_words, size, replace=False))


def heldout_report(
    model: Model, words: list[str], targets: FloatMatrix, table: WordCounts, threads: int | None
) -> dict[str, Any]:
    """Return the mean cosine of held-out words and their given vectors: of all, the most frequent and the rarest."""
    found = cosines(model.embed(words, threads=threads), targets)
    third = max(len(words) // 3, 1)
    by_count = np.argsort(-table.of_words(words), kind="stable")
    parts = {"": by_count, "_frequent": by_count[:third], "_rare": by_count[-third:]}
    means = {f"heldout_cosine{name}": round(float(found[some].mean()), 4) for name, some in parts.items()}
    return {"heldout_words": len(words), **means}


def counted_words(table: WordCounts, training_words: list[str], recipe: Preset) -> Counted:
    """Return the words of a table and those training words that it lacks, with their counts."""
    known, targets = set(table.words), set(training_words)
    words = [*table.words, *(word for word in training_words if word not in known)]
    counts = np.concatenate([table.counts, np.zeros(len(words) - len(table))])
    is_target = np.array([word in targets for word in words])
    return Counted(encode(words, recipe), np.ones_like(counts) if recipe.types else counts, is_target)


# -- index and weights -------------------------------------------------------------------------------------------------


def make_index(counted: Counted, training_words: Codes, run: Run) -> SubwordIndex:
    """Index the subwords of all counted words; those of the training words have vectors."""
    recipe = run.preset
    index = count_subwords(
        *counted,
        min_len=recipe.min_len,
        max_len=recipe.max_len,
        min_prob_words=recipe.min_prob_words,
        boundaries=recipe.boundaries,
    )
    keep = index.rows >= 0
    if recipe.min_vector_words > 1:
        keep &= Subwords(index, recipe).count_words(training_words) >= recipe.min_vector_words
    if not keep.any():
        raise InputError(
            f"no subword of at least {recipe.min_len} characters is in {recipe.min_vector_words} or more training words"
        )
    if recipe.min_prob_words > 1 or recipe.min_vector_words > 1:
        index = index.with_vectors(keep)
    index = Subwords(index, recipe).fitted(counted.words, counted.counts, recipe.em_rounds, run.threads)
    if recipe.round_probs:
        index = index.with_prob_levels()
        index = index.with_vectors(index.rows >= 0)
    return index


# -- vectors -----------------------------------------------------------------------------------------------------------


def importances(system: System, run: Run) -> npt.NDArray[np.float64]:
    """Return how much each subword vector adds to the words' vectors: its squared length times its squared weights.

    Lengths are measured in a random projection, which is enough to rank them.
    """
    weights, targets = system.weights, system.targets
    if targets.shape[1] > SEARCH_DIMS:
        random = np.random.default_rng(run.seed)
        targets = targets @ random.standard_normal((targets.shape[1], SEARCH_DIMS)).astype(np.float32)
    plain = replace(run, preset=replace(run.preset, own_share="fitted", confidence=False), progress=False)
    solution, _ = solve(replace(system, targets=targets), plain)
    lengths = np.einsum("ij,ij->i", solution.vectors, solution.vectors, dtype=np.float64)
    squares = np.bincount(weights.indices, weights.data.astype(np.float64) ** 2, minlength=weights.n_columns)
    importance: npt.NDArray[np.float64] = lengths * squares
    return importance


def most_important(index: SubwordIndex, importance: npt.NDArray[np.float64], n: int) -> SubwordIndex:
    """Return the index with the n most important vectors."""
    kept = np.zeros(importance.size, np.bool_)
    kept[np.argsort(-importance, kind="stable")[:n]] = True
    return index.with_vectors(kept[index.rows])  # which leaves nodes without a vector as they are
