"""complete(): a table of word vectors with the words it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.corpus.count import contexts_of
from pbos.errors import InputError, share, warn, whole_number
from pbos.jobs.interrupts import interruptible
from pbos.model import Model, load
from pbos.settings import Preset, Spelling
from pbos.tables.counts import WordCounts
from pbos.tables.word_vectors import WordVectors
from pbos.training.contexts import mixed_words
from pbos.training.train import check_arguments, read_vectors, train
from pbos.words.arrays import cosines, unit_rows
from pbos.words.text import as_words
from pbos.words.variants import resolved

COMPARED = 1000  # words, to find out whether a model belongs to the vectors


@interruptible
def complete(
    vectors: WordVectors | str | PathLike[str] | tuple[Any, Any] | Mapping[str, Any] | Any,
    words: Iterable[str] | None = None,
    counts: WordCounts | Mapping[str, float] | str | PathLike[str] | None = None,
    *,
    text: Any = None,
    min_count: int = 5,
    column: str | None = None,
    model: Model | str | PathLike[str] | None = None,
    min_confidence: float | None = None,
    limit: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
    **training: Any,
) -> WordVectors:
    """Return a table with the given vectors, unchanged, and after them vectors for the words it lacks.

    These are composed from the spelling of a word and, if there is a text in which it occurs, from its contexts there.
    New words follow in the order of the list, each once. A word that the model spells like a given one (such as
    another Unicode form of it) gets that one's vector. All composed vectors have the same length: the mean length of
    the last tenth of the given vectors. A word without any known subword, and without contexts, is left out.

    Args:
        vectors: The table, as for `train`.
        words: The words that the new table should have; None for those of the text.
        counts: Word counts for training, as for `train`.
        text: A text, as for `learn`, or co-occurrences or their folder. A model that is given must have been trained
            with a text, this one or another.
        min_count: How often a word of the text has to occur; the most frequent come first.
        column: The column of Parquet and Arrow files that has the text; None for the only one of strings.
        model: A model trained on these vectors, or the path of one; None trains one.
        min_confidence: Leave out words whose confidence is lower; with a text, that of the mixture.
        limit: Train on the first N words of the table only.
        threads: The number of threads; None for one per core.
        progress: Show progress bars; None for "if stderr is a terminal".
        **training: Other arguments of `train`, such as `preset` or `lam`.

    >>> given = {"high": [3.0, 0.0], "higher": [2.0, 2.0], "low": [0.0, 3.0]}
    >>> table = complete(given, ["low", "lower", "lowest"])
    >>> table.words
    ['high', 'higher', 'low', 'lower', 'lowest']
    """
    training |= {"limit": limit}
    recipe = check_completion(model, min_confidence, counts, threads, text=text, **training)
    if words is None and text is None:
        raise InputError("there are no words to add; pass words, a text, or both")
    min_count, listed = whole_number("min_count", min_count, 1), None if words is None else as_words(words)
    if listed is not None and "" in listed:
        raise InputError(f"word {listed.index('')} is an empty string; drop it")
    if model is not None and not isinstance(model, Model):
        model = load(model)
    if text is not None and model is not None and not model.has_contexts:
        raise InputError("this model cannot use contexts; train one with a text, or leave out the model")
    given = read_vectors(vectors, None, progress)
    spelling: Spelling = resolved(recipe or Preset(), given.words) if model is None else model.spelling
    if model is not None:
        warn_if_unrelated(model, given)
        table = model.with_targets(given)
    with contexts_of(text, spelling.normalization, column=column, threads=threads, progress=progress) as pairs:
        if model is None:
            training["text"] = pairs
            model = train(given, counts, threads=threads, progress=progress, **training)
            table = model.with_targets(given)
        if listed is None:
            assert pairs is not None
            order = np.argsort(-pairs.counts, kind="stable")
            listed = pairs.words_at(order[pairs.counts[order] >= min_count])
        new = [word for word in dict.fromkeys(listed) if word not in given]
        rows, trust = table.embed(new, exact=True, threads=threads), None
        composed = np.flatnonzero([word not in table for word in new])
        unknown = [new[at] for at in composed]
        if pairs is not None and unknown:
            rows[composed], trust, _ = mixed_words(model, pairs, unknown, threads)
    rows[composed] = unit_rows(rows[composed]) * usual_length(given)
    keep: npt.NDArray[np.bool_] = np.any(rows, axis=1)
    if min_confidence is not None:
        trust = model.confidence(unknown, threads=threads) if trust is None else trust
        keep[composed] &= trust >= min_confidence
    kept = np.flatnonzero(keep)
    return WordVectors([*given.words, *(new[at] for at in kept)], np.concatenate([given.vectors, rows[kept]]))


def check_completion(
    model: Any,
    min_confidence: float | None,
    counts: Any = None,
    threads: int | None = None,
    text: Any = None,
    **training: Any,
) -> Preset | None:
    """Raise an error about an argument of `complete` that cannot be used; return the settings of the model to train."""
    if min_confidence is not None:
        share("min_confidence", min_confidence)
    if model is None:
        recipe = check_arguments(threads=threads, text=text, **training).recipe
        if min_confidence is not None and not recipe.confidence:
            raise InputError("min_confidence needs a model that has a confidence; train it with confidence=True")
        return recipe
    for name, value in {"counts": counts, **training}.items():
        if value is not None:
            raise InputError(f"{name} is for training; leave it out, or leave out the model to train one")
    return None


def usual_length(given: WordVectors) -> float:
    """Return the mean length of the last tenth of the vectors, which in most tables are those of rare words."""
    rare = given.vectors[-max(len(given) // 10, 1) :]
    return float(np.linalg.norm(rare, axis=1).mean())


def warn_if_unrelated(model: Model, given: WordVectors) -> None:
    """Warn if the vectors that a model composes for given words are not like the given ones."""
    if model.dims == given.dims and len(given):
        composed = model.embed(given.words[:COMPARED])
        if (cosine := float(cosines(composed, given.vectors[:COMPARED]).mean())) < 0.2:
            warn(
                f"the mean cosine of the model's vectors and the given ones is {cosine:.2f}; "
                "was it trained on other vectors?"
            )
