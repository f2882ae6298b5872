"""The subwords of words: counted, and their probabilities fitted to the words by EM."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

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
from pbos.words.text import BOUNDARIES, Codes

PART = 1 << 20  # words counted together; a fixed number, so that sums do not depend on where they are computed
LONGEST_WORD = 256  # characters; a longer word has n (n + 1) / 2 subwords that no other word will have
EM_PARTS = 8  # parts of the words whose sums are added up; a fixed number, so that threads do not change the result


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
    """Count the substrings of words and index them.

    Without max_len, words of more than LONGEST_WORD characters are left out, with a warning.

    Args:
        words: Distinct words as code points, with their marks.
        counts: How often each word occurs; gives the subword probabilities.
        is_target: Which words have a vector; their substrings of min_len to max_len get one.
        min_len: The shortest subword that may have a vector.
        max_len: The longest subword; None for no limit.
        min_prob_words: Words that must contain a subword for it to have a probability. Single characters always have
            one, so that every word can be spelled.
        boundaries: Whether the words have boundary marks.
        pool: Where parts of the words are counted.
        work: Where to keep what was counted.

    >>> from pbos.settings import Spelling
    >>> from pbos.words.text import encode
    >>> index = count_subwords(encode(["aba"], Spelling()), np.array([1.0]), np.array([True]))
    >>> {subword: round(6 * p) for subword, p in zip(index.strings(), index.probs[1:].tolist())}
    {'a': 2, 'b': 1, 'ab': 1, 'ba': 1, 'aba': 1}
    """
    pool, work = pool or Threads(), work or Workspace()
    if max_len is None or max_len > LONGEST_WORD:
        words, counts, is_target = without_long_words(words, counts, is_target, work)
    n_words = words.offsets.size - 1
    alphabet = characters_of(words.codes)
    counts, is_target = work.keep("counts", counts), work.keep("is_target", is_target)
    count = partial(count_part, words, counts, is_target, alphabet, max_len, work)
    found = pool.map("count-subwords", count, list(blocks(n_words, PART)) or [slice(0, 0)])
    while len(found) > 1:  # in pairs, so that sums are the same wherever they are computed
        pairs = [(f"merged-{len(found)}-{at}", found[at : at + 2]) for at in range(0, len(found), 2)]
        merged = pool.map("merge-subword-counts", partial(merge_counts, work), pairs)
        for part in found[: 2 * (len(found) // 2)]:
            work.forget(*part)
        found = merged
    labels, children, sums, n_words_with, has_vector = found[0]
    has_vector = has_vector.copy()
    has_vector[: first_node(children, alphabet.size, min_len)] = False
    if boundaries:
        drop_marks(has_vector, labels, children, np.isin(alphabet, [ord(mark) for mark in BOUNDARIES]))
    if min_prob_words > 1:
        sums = sums.copy()
        sums[1 + alphabet.size :][n_words_with[1 + alphabet.size :] < min_prob_words] = 0
    children = children.copy()
    children[0] = 0
    index = SubwordIndex.of(
        alphabet,
        labels,
        children,
        probabilities(sums),
        np.where(has_vector, np.cumsum(has_vector, dtype=np.int32) - 1, np.int32(NO_ROW)),
    )
    work.forget(*found[0])
    return index


def without_long_words(
    words: Codes, counts: npt.NDArray[np.float64], is_target: npt.NDArray[np.bool_], work: Workspace
) -> tuple[Codes, npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return what was given without words of more than LONGEST_WORD characters, and warn about them."""
    lengths = np.diff(words.offsets)
    keep = lengths <= LONGEST_WORD
    if keep.all():
        return words, counts, is_target
    n_long, first = int((~keep).sum()), int(keep.argmin()) + 1
    warn(
        f"the subwords of {n_long:,} {'word' if n_long == 1 else 'words'} with more than {LONGEST_WORD} characters are "
        f"not counted (the first is word {first:,}); drop them, or set max_len"
    )
    offsets = np.concatenate([[0], np.cumsum(lengths[keep])])
    kept = Codes(words.codes[np.repeat(keep, lengths)], offsets)
    return work.keep_all("counted", kept), counts[keep], is_target[keep]


def characters_of(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the distinct characters of words, ascending."""
    seen = np.zeros(int(codes.max(initial=0)) + 1, np.bool_)
    seen[codes] = True
    return np.flatnonzero(seen).astype(np.uint32)


def first_node(children: npt.NDArray[np.int32], n_letters: int, length: int) -> int:
    """Return the first node of this length, or of a larger one, in a trie in level order."""
    first, last = 1, 1 + n_letters
    while length > 1 and first < last:
        first, last, length = last, last + int(children[first:last].sum(dtype=np.int64)), length - 1
    return first


def drop_marks(
    has_vector: npt.NDArray[np.bool_],
    labels: npt.NDArray[Any],
    children: npt.NDArray[np.int32],
    is_mark: npt.NDArray[np.bool_],
) -> None:
    """Give no vector to subwords that are only marks (`<`, `>`, `><`): they carry no meaning."""
    letters = slice(1, 1 + is_mark.size)
    has_vector[letters][is_mark] = False
    first = np.repeat(is_mark, children[letters])  # whether the first letter of each pair is a mark
    pairs = slice(letters.stop, letters.stop + first.size)
    has_vector[pairs][first & is_mark[labels[pairs]]] = False


def count_part(
    words: Codes,
    counts: npt.NDArray[np.float64],
    is_target: npt.NDArray[np.bool_],
    alphabet: npt.NDArray[np.uint32],
    max_len: int | None,
    work: Workspace,
    some: slice,
) -> SubwordCounts:
    """Count the substrings of some words."""
    part = words.part(some.start, some.stop)
    letters = characters_of(part.codes)
    numbers = np.zeros(int(letters.max(initial=0)) + 1, np.min_scalar_type(letters.size))
    numbers[letters] = np.arange(1, letters.size + 1)
    text = trie.as_one_text(*part, numbers)
    levels = list(levels_of(text, letters.size, part.offsets, counts[some], is_target[some], max_len))
    places = np.searchsorted(alphabet, letters).astype(np.min_scalar_type(alphabet.size))
    labels, sums, n_words, in_target, children = zip(*levels, strict=True) if levels else [()] * 5
    found = SubwordCounts(
        np.concatenate([np.zeros(1, places.dtype), *(places[letters] for letters in labels)]),
        np.concatenate([*children, np.zeros(levels[-1][0].size if levels else 1, np.int32)]),
        np.concatenate([[0.0], *sums]),
        np.concatenate([np.zeros(1, np.int32), *n_words]),
        np.concatenate([[False], *in_target]),
    )
    return work.keep_all(f"counted-{some.start}", found)


def merge_counts(work: Workspace, named: tuple[str, list[SubwordCounts]]) -> SubwordCounts:
    """Add up what was counted in two parts of the words; a part without a partner stays as it is."""
    name, pair = named
    if len(pair) == 1:
        return pair[0]
    left, right = pair
    places, labels, children = trie.merge_tries(left.labels, left.children, right.labels, right.children)

    def added(field: str) -> npt.NDArray[Any]:
        total = np.zeros(labels.size, getattr(left, field).dtype)
        for part, place in zip(pair, places, strict=True):
            known = place >= 0
            total[known] += getattr(part, field)[place[known]]
        return total

    counts = SubwordCounts(labels, children, added("sums"), added("n_words"), added("is_target"))
    return work.keep_all(name, counts)


def levels_of(
    text: npt.NDArray[Any],
    n_letters: int,
    offsets: npt.NDArray[np.int64],
    counts: npt.NDArray[np.float64],
    is_target: npt.NDArray[np.bool_],
    max_len: int | None,
) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield all substrings of words, up to a length, level by level: what `kernels.trie.next_level` says of them.

    These are the last letter of each, the sum of its words' counts, the number of words that contain it, whether a
    target does, and how many of them each subword of the previous level is followed by.
    """
    if text.size > trie.MAX_PLACES or offsets.size - 1 > trie.MAX_WORDS:
        most = f"{trie.MAX_WORDS:,} words and {trie.MAX_PLACES:,} characters"
        raise InputError(
            f"{offsets.size - 1:,} words with {offsets[-1]:,} characters are too many; the limit is {most}"
        )
    starts, ends, spans = trie.single_letters(text, n_letters, offsets, is_target)
    longer = np.empty_like(spans)
    n_nodes, parent_has_children, length = n_letters, np.ones(1, np.bool_), 1
    while n_nodes and (max_len is None or length <= max_len):
        *level, parent_has_children, n_nodes, ends = trie.next_level(
            text, counts, length, n_nodes, parent_has_children, starts, ends, spans, longer
        )
        yield level
        spans, longer, length = longer, spans, length + 1


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
    """Fit the subword probabilities to words by EM; no round makes the words less probable.

    A round counts how often every subword is expected as a piece of the words, over all their segmentations, and
    turns these counts into the new probabilities. A subword without a probability stays without one; the others
    keep at least the smallest float32.

    After the last round, a piece at the start or end of words (`<pine`) also counts as the same piece inside words
    (`pine`), where EM has seen too few examples of it: most compounds are not among the words.

    Args:
        subwords: The subwords, and how words are spelled.
        words: The words.
        counts: How often each word occurs.
        rounds: The number of rounds.
        pool: Where parts of the words are counted; by default on all cores. The result does not depend on it.
        work: Where to keep what was counted.
    """
    whole, spelling = subwords.index, subwords.spelling
    if not rounds:
        return whole
    pool, work = pool or Threads(), work or Workspace()
    seen = whole.probs > 0
    index = whole.pruned(seen)  # smaller, so faster; its subwords with a probability have the same order
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
        sums = np.where(index.probs > 0, np.maximum(sums, np.finfo(np.float64).tiny), 0)
        work.forget(*subwords.index.arrays)
        index = index.with_probs(probabilities(sums))
    if spelling.boundaries:
        sums += np.bincount(index.inner(), sums, minlength=sums.size)
        index = index.with_probs(probabilities(sums))
    probs = np.zeros(seen.size, np.float32)
    probs[seen] = index.probs[index.probs > 0]
    return whole.with_probs(probs)


def expected(
    subwords: Subwords, words: Codes, counts: npt.NDArray[np.float64], work: Workspace, some: slice
) -> npt.NDArray[np.float64]:
    """Return how often each node is expected as a piece of some of the words."""
    sums = subwords.expected_counts(words.part(some.start, some.stop), counts[some])
    return work.keep(f"em-{some.start}-{some.stop}", sums)
