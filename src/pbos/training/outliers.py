"""Made-up strings from which the confidence learns what is a word, and what only can be typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

SCRIPTS = (0x61, 0x3B1, 0x430, 0x5D0, 0x627, 0x915, 0x3042, 0x4E00, 0xAC00, 0x1F600)  # where letters of scripts begin
SYMBOLS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+/-_."
SHORTEST, LONGEST = 8, 200  # random strings; shorter ones may be words


def made_up(words: Sequence[str], others: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """Return strings that are like words, a quarter as many as there are words, and others that are not, half as many.

    The first are words with one letter of another, or with others before them, with hyphens or without. The second are
    random letters and symbols, one thing many times, and many words and numbers in one string.

    >>> good, bad = made_up(["high"] * 40, ["low", "lower"], seed=0)
    >>> good[:2], len(bad)
    (['hilh', 'lowhigh'], 20)
    """
    random = np.random.default_rng(seed)
    letters = np.array(list("".join(words)))  # as often as in words
    alphabet = np.unique(letters)

    def drawn(number: int) -> list[str]:
        return [others[at] for at in random.integers(len(others), size=number)]

    def letters_of(some: Any, length: int) -> str:
        return "".join(random.choice(np.asarray(some), length))

    def like_a_word(at: int) -> str:
        word = words[int(random.integers(len(words)))]
        if at % 2:  # teapot, state-of-the-art
            return ("" if at % 4 == 1 else "-").join([*drawn(1 + at // 4 % 3), word])
        place = int(random.integers(len(word)))
        return word[:place] + drawn(1)[0][0] + word[place + 1 :]

    def unlike_words(at: int) -> str:
        length = int(np.exp(random.uniform(np.log(SHORTEST), np.log(LONGEST))))
        match at % 12:
            case 0 | 1:
                return letters_of(letters, length)
            case 2 | 3:  # a few letters, or one
                return letters_of(random.choice(alphabet, 1 + length % 5), length)
            case 4 | 5:  # from the ten digits up to all symbols
                return letters_of(list(SYMBOLS[: random.integers(10, len(SYMBOLS))]), length)
            case 6 | 7:
                firsts = random.choice(SCRIPTS, 1 + length % 5)
                return letters_of([*letters[:20], *(chr(at + step) for at in firsts for step in range(20))], length)
            case 8 | 9:  # the start of a word, many times
                (word,) = drawn(1)
                return word[: random.integers(1, len(word) + 1)] * (length // 3 + 1)
            case 10:  # code, paths and addresses; or words without end
                mark = str(random.choice(["/", ".", "_", "::", "=", ""]))
                return mark.join(drawn(int(random.integers(4, 8)) if mark else length))
            case _:  # numbers with marks between them
                base = int(random.choice([10, 16, 36]))
                parts = [
                    letters_of(list(SYMBOLS[:base]), int(random.integers(1, 7))) for _ in range(random.integers(3, 9))
                ]
                return str(random.choice(["/", ".", "_", "-", ":"])).join(parts)

    good = [like_a_word(at) for at in range(len(words) // 4)]
    return good, [unlike_words(at) for at in range(len(words) // 2)]
