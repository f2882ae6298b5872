"""train(): joins the steps from word vectors and word counts to a model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.arrays import FloatMatrix, cosines, unit_rows
from pbos.counts import WordCounts
from pbos.errors import InputError, warn, whole_number
from pbos.index import SubwordIndex, count_subwords
from pbos.kernels.sgd import NO_NORM
from pbos.model import Model
from pbos.progress import progress as progress_bar
from pbos.settings import Preset, Settings, Spelling
from pbos.solvers import LAMS, SEARCH_DIMS, Ridge, Solution, choose_lam, sgd
from pbos.subword_vectors import SubwordVectors
from pbos.subwords import Subwords
from pbos.text import LEFT, RIGHT, Codes, encode, normalize, pack_strings
from pbos.vectors import WordVectors
from pbos.weights import Weights

if TYPE_CHECKING:
    from typing_extensions import Unpack


def train(
    vectors: WordVectors | str | PathLike[str] | tuple[Any, Any] | Mapping[str, Any] | Any,
    counts: WordCounts | Mapping[str, float] | str | PathLike[str] | None = None,
    *,
    preset: str = "default",
    limit: int | None = None,
    heldout: float = 0.0,
    keep_targets: bool = False,
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
            in `model.info["training"]["heldout_cosine"]`.
        keep_targets: Keep the given vectors in the model, for `embed(..., exact=True)`.
        threads: The number of threads; None for one per core. The model is the same byte for byte for any number.
        device: Where to solve the ridge regression: "cuda", "cuda:1" or another PyTorch device (extra `torch`). Falls
            back to the CPU if it is not available. The vectors are as good as the CPU's, but not identical.
        seed: Determines the order of the words and which ones are held out.
        progress: Show a progress bar; None for "if stderr is a terminal".
        **settings: Settings to use in place of the preset's; see `pbos.Settings`.

    >>> model = train({"high": [1.0, 0.0], "higher": [1.0, 1.0], "lower": [0.0, 1.0]}, lam=1e-4)
    >>> model["higher"].round(1).tolist()
    [1.0, 1.0]
    """
    recipe = Preset.named(preset, settings, others=inspect.signature(train).parameters)
    seed, limit = whole_number("seed", seed, 0), None if limit is None else whole_number("limit", limit, 1)
    run = Run(recipe, seed, threads, solver_device(device, recipe), progress)
    given = read_vectors(vectors, limit, progress)
    if not len(given):
        raise InputError("there are no words to train on; pass the vectors of at least one word")
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
        index, weights, penalty = make_weights(index, codes, run)
    if recipe.max_vectors is not None and weights.n_columns > recipe.max_vectors:
        with progress_bar("selecting subwords", None, progress):
            importance = importances(weights, kept_targets, penalty, run)
            index = most_important(index, importance, recipe.max_vectors)
            index, weights, penalty = make_weights(index, codes, run)
    solution = solve(weights, kept_targets, penalty, run)
    # PBoS-n sums unit vectors; stored as such, they are summed like all others.
    values = unit_rows(solution.vectors, NO_NORM) if recipe.unit_length else solution.vectors
    training = {"seed": seed, **solution.report}
    info: dict[str, Any] = {"preset": preset, **asdict(recipe), "training": training}
    given_vectors = np.ascontiguousarray(kept_targets) if keep_targets else None
    model = Model(index, recipe.spelling, SubwordVectors.of(values), pack_strings(kept_words), given_vectors, info)
    if hidden.size:
        composed = model.embed([words[i] for i in hidden], threads=threads)
        cosine = float(cosines(composed, targets[hidden]).mean())
        training |= {"heldout_words": int(hidden.size), "heldout_cosine": round(cosine, 4)}
    return model


@dataclass(frozen=True)
class Run:
    """What the steps of one training run share."""

    preset: Preset
    seed: int = 0
    threads: int | None = None
    device: Any = None  # of PyTorch; None for the CPU
    progress: bool | None = False


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


def make_weights(
    index: SubwordIndex, training_words: Codes, run: Run
) -> tuple[SubwordIndex, Weights, npt.NDArray[np.float64]]:
    """Return the index, the weights of the training words, and the penalty of each subword vector.

    A subword that weighs more because of its position costs more in proportion, so that all vectors are equally likely
    to be large. Subwords merged into one vector cost the sum.
    """
    weights = Subwords(index, run.preset).weights_of_codes(training_words, run.threads).merged()
    rows = index.rows
    with_vector = np.flatnonzero(rows >= 0)
    if run.preset.merge:
        numbers = weights.columns_of_same_words()
        weights = weights.renumbered(numbers)
        rows[with_vector] = numbers[rows[with_vector]]
        index = index.with_rows(rows)
    penalty = np.zeros(weights.n_columns)
    np.add.at(penalty, rows[with_vector], position_factors(index, run.preset)[with_vector])
    return index, weights, penalty


def position_factors(index: SubwordIndex, spelling: Spelling) -> npt.NDArray[np.float64]:
    """Return for each node how much more it weighs because it starts or ends with a mark."""
    if spelling.start_weight == spelling.end_weight == 1:
        return np.ones(len(index) + 1)
    first = index.parents()  # becomes the node of the first character, by pointer jumping
    characters = slice(index.alphabet.size + 1)
    first[characters] = np.arange(index.alphabet.size + 1)
    while not np.array_equal(first, further := first[first]):
        first = further
    last = index.code_points
    starts = np.where(last[first] == ord(LEFT), spelling.start_weight, 1.0)
    return starts * np.where(last == ord(RIGHT), spelling.end_weight, 1.0)


# -- vectors -----------------------------------------------------------------------------------------------------------


def solve(weights: Weights, targets: FloatMatrix, penalty: npt.NDArray[np.float64], run: Run) -> Solution:
    """Find the subword vectors with the preset's solver."""
    recipe = run.preset
    if recipe.solver == "sgd":
        with progress_bar("training", recipe.epochs, run.progress) as advance:
            return sgd(
                weights,
                targets,
                epochs=recipe.epochs,
                lr=recipe.lr,
                seed=run.seed,
                unit_length=recipe.unit_length,
                threads=run.threads,
                on_epoch=lambda epoch, loss: advance(1, note=f"epoch {epoch}, loss {loss:.3g}"),
            )
    lam = recipe.lam
    tried: dict[str, float] = {}
    if isinstance(lam, str):
        with progress_bar("choosing lam", len(LAMS), run.progress) as advance:
            lam, tried = choose_lam(
                weights,
                targets,
                penalty,
                seed=run.seed,
                threads=run.threads,
                device=run.device,
                on_try=lambda lam, score: advance(1, note=f"lam {lam:g}, cosine {score:.4f}"),
            )
    with progress_bar("training", targets.shape[1], run.progress) as advance:
        ridge = Ridge(weights, penalty)
        solution = ridge.solve(targets, float(lam), threads=run.threads, device=run.device, on_slice=advance)
    if tried:
        solution.report["lams"] = tried
    return solution


def importances(
    weights: Weights, targets: FloatMatrix, penalty: npt.NDArray[np.float64], run: Run
) -> npt.NDArray[np.float64]:
    """Return how much each subword vector adds to the words' vectors: its squared length times its squared weights.

    Lengths are measured in a random projection, which is enough to rank them.
    """
    if targets.shape[1] > SEARCH_DIMS:
        random = np.random.default_rng(run.seed)
        targets = targets @ random.standard_normal((targets.shape[1], SEARCH_DIMS)).astype(np.float32)
    solution = solve(weights, targets, penalty, replace(run, progress=False))
    lengths = np.einsum("ij,ij->i", solution.vectors, solution.vectors, dtype=np.float64)
    squares = np.bincount(weights.indices, weights.data.astype(np.float64) ** 2, minlength=weights.n_columns)
    importance: npt.NDArray[np.float64] = lengths * squares
    return importance


def most_important(index: SubwordIndex, importance: npt.NDArray[np.float64], n: int) -> SubwordIndex:
    """Return the index with the n most important vectors."""
    kept = np.zeros(importance.size, np.bool_)
    kept[np.argsort(-importance, kind="stable")[:n]] = True
    return index.with_vectors(kept[index.rows])  # which leaves nodes without a vector as they are
