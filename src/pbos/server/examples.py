"""Words to try on the page: made of the parts of the training words, in any script, and the same every time."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, product
from statistics import median

import numpy as np

from pbos.model import Model
from pbos.words.arrays import unit_rows

READ = 20_000  # training words whose parts are looked at, from the first
COMMON = 1000  # words that are too common for the map: most tables start with words such as "the"
POOL = 1500  # words that the map is chosen from
TRIED, PARTS = 500, 30  # words of each kind, and affixes or parts of compounds, that are tried
GROUPS, GROUP, NEAR = 6, 4, 40  # on the map: groups, words of each, and how many near words each is chosen from
Parts = tuple[str, ...]


def words_to_try(model: Model) -> tuple[list[str], list[str]]:
    """Return words that are not training words, to explain, and training words for the map."""
    words = [word for word in model.words[:READ] if is_plain(word)] or model.words[:READ]
    if not words:
        return [], []
    half = max(1, int(median(map(len, words))) // 2)
    forms, compounds, slips = (
        list(confident(model, kind)) for kind in (new_forms(words, half), new_compounds(words, half), typos(words))
    )
    examples = [*forms[:2], *compounds[:2], *slips[:1], *forms[2:], *compounds[2:], *slips[1:]]
    return list(dict.fromkeys(examples))[:5], groups(model, words, half)


def is_plain(word: str) -> bool:
    """Return whether a word has only letters, with their marks.

    >>> is_plain("हिन्दी"), is_plain("x-ray")
    (True, False)
    """
    return all(unicodedata.category(character)[0] in "LM" for character in word)


def new_forms(words: list[str], half: int) -> Iterator[Parts]:
    """Yield a prefix, a word and a suffix, where the word occurs with the one and with the other.

    >>> words = ["kind", "unkind", "fair", "unfair", "real", "unreal", "kinder", "fairer", "new", "newer"]
    >>> list(new_forms(words, half=2))
    [('un', 'kind', 'er'), ('un', 'fair', 'er')]
    """
    known = set(words)
    prefixes: defaultdict[str, set[str]] = defaultdict(set)
    suffixes: defaultdict[str, set[str]] = defaultdict(set)
    for word in words:
        for at in range(1, len(word)):
            head, tail = word[:at], word[at:]
            if len(head) > half and head in known:
                suffixes[head].add(tail)
            if len(tail) > half and tail in known:
                prefixes[tail].add(head)
    usual_prefixes = most_usual(part for some in prefixes.values() for part in some)
    usual_suffixes = most_usual(part for some in suffixes.values() for part in some)
    for word in words:
        before = [part for part in usual_prefixes if part in prefixes[word]]
        yield from product(before, [word], [part for part in usual_suffixes if part in suffixes[word]])


def new_compounds(words: list[str], half: int) -> Iterator[Parts]:
    """Yield pairs of words that occur in compounds, perhaps not with each other; at last any pairs of the first words.

    >>> list(islice(new_compounds(["foot", "ball", "football", "hand", "made", "handmade"], half=2), 4))
    [('foot', 'ball'), ('foot', 'made'), ('hand', 'ball'), ('hand', 'made')]
    """
    ranks = {word: rank for rank, word in enumerate(words)}
    cuts = ((word[:at], word[at:]) for word in words for at in range(half + 1, len(word) - half))
    found = [cut for cut in cuts if ranks.keys() >= set(cut)]
    heads, tails = (sorted(most_usual(cut[end] for cut in found), key=ranks.__getitem__) for end in (0, 1))
    yield from ((head, tail) for head, tail in product(heads, tails) if head != tail)
    yield from product(words[:10], repeat=2)


def most_usual(parts: Iterable[str]) -> list[str]:
    """Return the parts that occur most often."""
    counts = Counter(parts)
    return sorted(counts, key=lambda part: (-counts[part], part))[:PARTS]


def typos(words: list[str]) -> Iterator[Parts]:
    """Yield long words with two letters swapped.

    >>> list(typos(["the", "a", "of", "government"]))
    [('govenrment',)]
    """
    long = max(5, sorted(map(len, words))[len(words) * 3 // 4])
    for word in words:
        places = [at for at in range(len(word) // 2, len(word)) if word[at - 1 : at + 1].isalpha()]
        if len(word) >= long and places:
            at = places[0]
            yield (word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :],)


def confident(model: Model, kind: Iterable[Parts]) -> Iterator[str]:
    """Yield words of a kind that the model does not have and is quite sure about, without the same part twice."""
    parts_of = {"".join(parts): parts for parts in islice(kind, TRIED)}
    unknown = [word for word in parts_of if word not in model]
    trust = model.confidence(unknown) if model.has_confidence else np.ones(len(unknown), np.float32)
    used: set[str] = set()
    for word, sure in zip(unknown, trust >= np.quantile(trust, 0.75) if unknown else [], strict=True):
        if sure and used.isdisjoint(parts_of[word]):
            used.update(parts_of[word])
            yield word


def groups(model: Model, words: list[str], half: int) -> list[str]:
    """Return words in groups that are near each other and look different, each group far from the others."""
    typical = median(map(len, words))
    pool = [word for word in words[min(COMMON, len(words) // 4) :] if len(word) >= typical][:POOL]
    units = unit_rows(model.embed(pool))
    cosines = units @ units.T
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :NEAR]
    parts = [{word[at : at + half] for at in range(len(word) - half + 1)} for word in pool]
    found = [different(near, parts) for near in nearest.tolist()]
    tight = [float(cosines[at, group].sum()) for at, group in enumerate(found)]
    free, chosen = np.ones(len(pool), np.bool_), list[int]()
    for at in sorted(range(len(pool)), key=lambda at: -tight[at]):
        if free[at] and len(chosen) < GROUPS * GROUP:
            chosen += found[at]
            free &= cosines[at] <= np.quantile(cosines[at], 0.75)
    return [pool[at] for at in dict.fromkeys(chosen)]


def different(near: list[int], parts: list[set[str]]) -> list[int]:
    """Return the first words of those near each other that have no part in common."""
    group: list[int] = []
    for at in near:
        if len(group) < GROUP and all(parts[at].isdisjoint(parts[other]) for other in group):
            group.append(at)
    return group
