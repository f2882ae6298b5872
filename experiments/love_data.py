"""What LOVE's loader reads beside the words: misleading spellings, and synonyms. LOVE's repository has samples of both.

Misleading spellings are found as its `get_hard_negative_example.py` finds them, but for the cosines, which are those of
the vectors to learn, not of a model of sentences. Synonyms are those of WordNet, as in its sample.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from pbos.words.arrays import FloatMatrix, unit_rows

NEAR, MOST, APART = 0.7, 51, 0.3  # LOVE's: least likeness in spelling, how many words, how much less alike in meaning
CHUNK = 64  # words compared with all others at a time
ENDINGS = {  # WordNet's own, of inflected forms; its lists of exceptions are not in the package
    "noun": ("s:", "ses:s", "xes:x", "zes:z", "ches:ch", "shes:sh", "men:man", "ies:y"),
    "verb": ("s:", "ies:y", "es:e", "es:", "ed:e", "ed:", "ing:e", "ing:"),
    "adj": ("er:", "est:", "er:e", "est:e"),
    "adv": (),
}


def misleading(words: Sequence[str], vectors: FloatMatrix) -> Iterator[str]:
    """Yield a line for each word: it, and those of its first MOST near spellings that mean something else."""
    units = unit_rows(vectors)
    for first in range(0, len(words), CHUNK):
        part = words[first : first + CHUNK]
        alike = cdist(part, words, scorer=Indel.normalized_similarity, score_cutoff=NEAR, dtype=np.float32, workers=-1)
        for row, (word, near) in enumerate(zip(part, alike, strict=True), first):
            found = np.flatnonzero(near > NEAR)[:MOST]
            meaning = units[found] @ units[row]
            spread = np.ptp(meaning) or np.nan  # a word without near spellings has only itself
            kept = found[near[found] - (meaning - meaning.min()) / spread > APART]
            yield "\t".join([word, *(words[at] for at in kept)])


def synonyms(words: Sequence[str], hidden: Collection[str], wordnet: Path) -> Iterator[str]:
    """Yield a line for each word that has synonyms: it, and they; hidden words are none."""
    senses: dict[tuple[str, str], list[str]] = {}  # part of speech, lemma -> its sets of synonyms
    lemmas: dict[tuple[str, str], list[str]] = {}  # part of speech, set -> its lemmas
    for kind in ENDINGS:
        for line in entries(wordnet / f"index.{kind}"):
            senses[kind, line[0]] = line[-int(line[2]) :]
        for line in entries(wordnet / f"data.{kind}"):
            plain = [word.partition("(")[0] for word in line[4 : 4 + 2 * int(line[3], 16) : 2]]  # adjectives: "(a)"
            lemmas[kind, line[0]] = [word for word in plain if word.isalpha() and word.islower() and word not in hidden]
    for word in words:
        found: dict[str, None] = {}
        for kind, stem in stems(word):
            for one in senses.get((kind, stem), ()):
                found |= dict.fromkeys(lemma for lemma in lemmas[kind, one] if lemma != word)
        if found:
            yield f"{word}\t{'__'.join(found)}"


def stems(word: str) -> Iterator[tuple[str, str]]:
    """Yield what a word may be a form of, itself first.

    >>> [stem for kind, stem in stems("houses") if kind == "noun"]
    ['houses', 'house', 'hous']
    """
    for kind, endings in ENDINGS.items():
        yield kind, word
        for ending in endings:
            old, _, new = ending.partition(":")
            if word.endswith(old):
                yield kind, word.removesuffix(old) + new


def entries(file: Path) -> Iterator[list[str]]:
    """Yield the lines of a file of WordNet, split, without its license."""
    with file.open(encoding="ascii") as lines:
        yield from (line.split() for line in lines if not line.startswith(" "))
