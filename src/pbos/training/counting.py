"""The subwords of words: counted, and their probabilities fitted to the words by EM."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, warn
from pbos.jobs.pools import Pool, Threads
from pbos.jobs.threads import blocks, cut
from pbos.jobs.workspace import Workspace
from pbos.kernels import trie
from pbos.kernels.trie import NO_ROW
from pbos.words.index import SubwordIndex
from pbos.words.subwords import Subwords
from pbos.words.text import BOUNDARIES, Codes, encode

if TYPE_CHECKING:
    from pbos.tables.counts import WordCounts
    from pbos.training.system import Run

PART = 1 << 20  # words counted together; a fixed number, so that sums do not depend on where they are computed
LONGEST_WORD = 256  # characters; a longer word has n (n + 1) / 2 subwords that no other word will have
EM_PARTS = 8  # parts of the words whose sums are added up; a fixed number, so that threads do not change the result
PLAIN_ROUNDS = 5  # of EM, before long pieces and single letters count less
FREE_LETTERS = 4  # of a piece; each further one ...
COST = 0.25  # ... costs it a quarter of a word
ONE_LETTER = 0.6  # what a piece of one letter counts


def make_index(table: WordCounts, training_words: list[str], codes: Codes, run: Run) -> SubwordIndex:
    """Index the subwords of all counted words; those of the training words, which `codes` are of, have vectors."""
    recipe = run.preset
    counted, training = set(table.words), set(training_words)
    words = [*table.words, *[word for word in training_words if word not in counted]]
    is_target = np.array([word in training for word in words])
    counts = np.ones(len(words))
    if not recipe.types:
        counts = np.concatenate([table.counts, np.zeros(len(words) - len(table))])
    encoded = run.work.keep_all("counted-words", encode(words, recipe))
    settings = {name: getattr(recipe, name) for name in ("min_len", "max_len", "min_prob_words", "boundaries")}
    index = count_subwords(encoded, counts, is_target, **settings, pool=run.pool, work=run.work)
    keep, least = index.rows >= 0, recipe.min_vector_words
    if least > 1:
        keep &= Subwords(index, recipe).count_words(codes) >= least
    if not keep.any():
        raise InputError(f"no subword of at least {recipe.min_len} characters is in {least} or more training words")
    if recipe.min_prob_words > 1 or least > 1:
        index = index.with_vectors(keep)
    index = fit_probabilities(Subwords(index, recipe), encoded, counts, recipe.em_rounds, run.pool, run.work)
    if recipe.round_probs:
        index = index.with_prob_levels()
        index = index.with_vectors(index.rows >= 0)
    return index


# -- counts ------------------------------------------------------------------------------------------------------------


class SubwordCounts(NamedTuple):
    """The subwords of some words, as a trie in level order with its root."""

    labels: npt.NDArray[Any]  # the last letter, as a position in the alphabet of all words
    children: npt.NDArray[np.int32]  # how many children the node has
    sums: npt.NDArray[np.float64]  # of the counts of words, over all occurrences
    n_words: npt.NDArray[np.int32]  # how many words contain it
    is_target: npt.NDArray[np.bool_]  # whether a word that has a vector does


def count_subwords(
    words: Codes,
    counts: npt.NDArray[np.float64],
    is_target: npt.NDArray[np.bool_],
    *,
    min_len: int = 1,
    max_len: int | None = None,
    min_prob_words: int = 1,
    boundaries: bool = False,
    pool: Pool | None = None,
    work: Workspace | None = None,
) -> SubwordIndex:
    """Count the substrings of distinct words, with their marks, and index them.

    Without max_len, words of more than LONGEST_WORD characters are left out, with a warning. Substrings of at least
    min_len characters of words with `is_target` get a vector. Single characters always have a probability, so that
    every word can be spelled; longer substrings only if min_prob_words words contain them.

    >>> from pbos.settings import Spelling
    >>> index = count_subwords(encode(["aba"], Spelling()), np.array([1.0]), np.array([True]))
    >>> {subword: round(6 * p) for subword, p in zip(index.strings(), index.probs[1:].tolist())}
    {'a': 2, 'b': 1, 'ab': 1, 'ba': 1, 'aba': 1}
    """
    pool, work = pool or Threads(), work or Workspace()
    lengths = np.diff(words.offsets)
    if (max_len is None or max_len > LONGEST_WORD) and not (keep := lengths <= LONGEST_WORD).all():
        n_long, first = int((~keep).sum()), int(keep.argmin()) + 1
        warn(
            f"the subwords of {n_long:,} {'word' if n_long == 1 else 'words'} with more than {LONGEST_WORD} characters "
            f"are not counted (the first is word {first:,}); drop them, or set max_len"
        )
        offsets, counts, is_target = np.concatenate([[0], np.cumsum(lengths[keep])]), counts[keep], is_target[keep]
        words = work.keep_all("counted", Codes(words.codes[np.repeat(keep, lengths)], offsets))
    alphabet = characters_of(words.codes)
    n_letters = alphabet.size
    counts, is_target = work.keep("counts", counts), work.keep("is_target", is_target)
    count = partial(count_part, words, counts, is_target, alphabet, max_len, work)
    found = pool.map("count-subwords", count, list(blocks(words.offsets.size - 1, PART)) or [slice(0, 0)])
    while len(found) > 1:  # in pairs, so that sums are the same wherever they are computed; an odd one is left over
        pairs = [(f"merged-{len(found)}-{at}", found[at], found[at + 1]) for at in range(0, len(found) - 1, 2)]
        merged = pool.map("merge-subword-counts", partial(merge_counts, work), pairs)
        for _, left, right in pairs:
            work.forget(*left, *right)
        found = merged + found[2 * len(pairs) :]
    labels, children, sums, n_words_with, in_target = found[0]
    has_vector = in_target.copy()
    first, last, length = 1, 1 + n_letters, 1  # the subwords of this length
    while length < min_len and first < last:
        first, last, length = last, last + int(children[first:last].sum(dtype=np.int64)), length + 1
    has_vector[:first] = False
    if boundaries:  # `<`, `>` and `><` carry no meaning
        is_mark = np.isin(alphabet, [ord(mark) for mark in BOUNDARIES])
        has_vector[1 : 1 + n_letters][is_mark] = False
        after_mark = np.repeat(is_mark, children[1 : 1 + n_letters])
        pairs_of_letters = slice(1 + n_letters, 1 + n_letters + after_mark.size)
        has_vector[pairs_of_letters][after_mark & is_mark[labels[pairs_of_letters]]] = False
    if min_prob_words > 1:
        sums = sums.copy()
        sums[1 + n_letters :][n_words_with[1 + n_letters :] < min_prob_words] = 0
    children = children.copy()
    children[0] = 0
    rows = np.where(has_vector, np.cumsum(has_vector, dtype=np.int32) - 1, np.int32(NO_ROW))
    index = SubwordIndex.of(alphabet, labels, children, probabilities(sums), rows)
    work.forget(*found[0])
    return index


def characters_of(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the distinct characters of words, ascending."""
    seen = np.zeros(int(codes.max(initial=0)) + 1, np.bool_)
    seen[codes] = True
    return np.flatnonzero(seen).astype(np.uint32)


def count_part(
    words: Codes,
    counts: npt.NDArray[np.float64],
    is_target: npt.NDArray[np.bool_],
    alphabet: npt.NDArray[np.uint32],
    max_len: int | None,
    work: Workspace,
    rows: slice,
) -> SubwordCounts:
    """Count the substrings of a part of the words, one length after the other."""
    part = words.part(rows.start, rows.stop)
    letters = characters_of(part.codes)
    numbers = np.zeros(int(letters.max(initial=0)) + 1, np.min_scalar_type(letters.size))
    numbers[letters] = np.arange(1, letters.size + 1)
    text = np.insert(numbers[part.codes], part.offsets, 0)  # also before the first word and after the last one
    n_words = part.offsets.size - 1
    if text.size > trie.MAX_PLACES or n_words > trie.MAX_WORDS:
        most = f"{trie.MAX_WORDS:,} words and {trie.MAX_PLACES:,} characters"
        raise InputError(f"{n_words:,} words with {part.offsets[-1]:,} characters are too many; the limit is {most}")
    starts, ends, spans = trie.single_letters(text, letters.size, part.offsets, is_target[rows])
    longer = np.empty_like(spans)
    levels: list[list[npt.NDArray[Any]]] = []
    n_nodes, parent_has_children = letters.size, np.ones(1, np.bool_)
    while n_nodes and (max_len is None or len(levels) < max_len):
        *level, parent_has_children, n_nodes, ends = trie.next_level(
            text, counts[rows], len(levels) + 1, n_nodes, parent_has_children, starts, ends, spans, longer
        )
        levels.append(level)
        spans, longer = longer, spans
    places = np.searchsorted(alphabet, letters).astype(np.min_scalar_type(alphabet.size))
    last_letters, sums, n_words_with, in_target, children = zip(*levels, strict=True) if levels else [()] * 5
    found = SubwordCounts(
        np.concatenate([np.zeros(1, places.dtype), *[places[letters] for letters in last_letters]]),
        np.concatenate([*children, np.zeros(levels[-1][0].size if levels else 1, np.int32)]),
        np.concatenate([[0.0], *sums]),
        np.concatenate([np.zeros(1, np.int32), *n_words_with]),
        np.concatenate([[False], *in_target]),
    )
    return work.keep_all(f"counted-{rows.start}", found)


def merge_counts(work: Workspace, named: tuple[str, SubwordCounts, SubwordCounts]) -> SubwordCounts:
    """Add up what was counted in two parts of the words."""
    name, left, right = named
    places, labels, children = trie.merge_tries(left.labels, left.children, right.labels, right.children)
    totals = {}
    for field in ("sums", "n_words", "is_target"):
        totals[field] = np.zeros(labels.size, getattr(left, field).dtype)
        for part, place in zip((left, right), places, strict=True):
            known = place >= 0
            totals[field][known] += getattr(part, field)[place[known]]
    return work.keep_all(name, SubwordCounts(labels, children, **totals))


# -- probabilities -----------------------------------------------------------------------------------------------------


def probabilities(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Normalize occurrence sums over all subwords; every subword seen keeps a probability above 0 in float32."""
    total = sums[1:].sum()
    if total <= 0:
        return np.zeros(sums.size, np.float32)
    probs = np.where(sums > 0, np.maximum(sums / total, np.finfo(np.float32).tiny), 0)
    probs[0] = 0
    return probs.astype(np.float32)


def fit_probabilities(
    subwords: Subwords,
    words: Codes,
    counts: npt.NDArray[np.float64],
    rounds: int,
    pool: Pool | None = None,
    work: Workspace | None = None,
) -> SubwordIndex:
    """Fit the subword probabilities to words by EM.

    A round counts how often every subword is expected as a piece of the words, over all their segmentations, and turns
    these counts into the new probabilities. A subword without a probability stays without one, and one that goes on
    after the end of a part (`dog>'`) gets none. The first rounds are plain: none makes the words less probable. In the
    others, long pieces and single letters count less, so that a long piece must be in several words. There, and in the
    last round, a piece at the start or end of words (`<pine`) also counts as the same piece inside words (`pine`): most
    compounds are not among the words. The result does not depend on the pool.
    """
    whole, spelling = subwords.index, subwords.spelling
    if not rounds:
        return whole
    pool, work = pool or Threads(), work or Workspace()
    seen = whole.probs > 0
    if spelling.boundaries:
        seen &= ~whole.goes_on()
    index = whole.pruned(seen)  # smaller, so faster; its subwords with a probability have the same order
    inner = index.inner() if spelling.boundaries else None
    letters = index.count_letters(spelling.boundaries)
    word = counts.min(initial=counts.max(initial=0), where=counts > 0)
    cost = COST * word * np.maximum(letters - FREE_LETTERS, 0)
    places = cut(words.offsets.size - 1, EM_PARTS)
    counts = work.keep("em.counts", counts)
    for number in range(rounds):
        subwords = Subwords(SubwordIndex(work.keep_all(f"em-{number}", index.arrays)), spelling)
        _ = subwords._nodes  # unpacked before there are threads
        count = partial(expected, subwords, words, counts, work)
        sums = np.zeros(len(index) + 1)
        for some in blocks(len(places), pool.size):  # only as many parts at a time, as each has a sum per node
            for part in pool.map("fit-probabilities", count, places[some]):
                sums += part
                work.forget(part)
        work.forget(*subwords.index.arrays)
        if inner is not None and (number >= PLAIN_ROUNDS or number + 1 == rounds):
            sums += np.bincount(inner, sums, minlength=sums.size)
        if number >= PLAIN_ROUNDS:
            sums = np.where(letters == 1, ONE_LETTER, 1.0) * sums - cost
        sums = np.where(index.probs > 0, np.maximum(sums, np.finfo(np.float64).tiny), 0)
        index = index.with_probs(probabilities(sums))
    probs = np.zeros(seen.size, np.float32)
    probs[seen] = index.probs[index.probs > 0]
    return whole.with_probs(probs)


def expected(
    subwords: Subwords, words: Codes, counts: npt.NDArray[np.float64], work: Workspace, rows: slice
) -> npt.NDArray[np.float64]:
    """Return how often each node is expected as a piece of some of the words."""
    sums = subwords.expected_counts(words.part(rows.start, rows.stop), counts[rows])
    return work.keep(f"em-{rows.start}-{rows.stop}", sums)
