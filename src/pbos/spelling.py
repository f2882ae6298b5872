"""How a word's spelling becomes subwords and weights: the settings a model keeps."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.kernels.lattice import BOTH, POSTERIOR, UNIFORM
from pbos.text import BOUNDARIES, INNER_MARKS, Codes, check_normalization, encode, mark_parts, normalize, one_word

WEIGHTINGS = {"posterior": POSTERIOR, "uniform": UNIFORM, "both": BOTH}


@dataclass(frozen=True)
class Spelling:
    """How a word's spelling becomes subwords and weights; kept in the model file.

    Attributes:
        normalization: Unicode form of all words: NFC, NFKC, casefold or none.
        boundaries: Whether words are written with the marks `<` and `>` around them.
        min_len: The shortest subword that owns a vector, in code points.
        max_len: The longest subword; None for no limit.
        weighting: "posterior" for a(s|w), "uniform" for the same weight for every occurrence, "both" for 1 + a(s|w).
        unseen_char_prob: The probability of a single character never seen.
        inner_boundaries: Whether punctuation inside a word is written with marks around it too: `<well>-<known>`.
        start_weight: How much more a subword weighs that begins with the mark `<`.
        end_weight: How much more a subword weighs that ends with the mark `>`.
    """

    normalization: str = "NFC"
    boundaries: bool = False
    min_len: int = 1
    max_len: int | None = None
    weighting: str = "posterior"
    unseen_char_prob: float = 0.01
    inner_boundaries: bool = False
    start_weight: float = 1.0
    end_weight: float = 1.0

    def __post_init__(self) -> None:
        check_normalization(self.normalization)
        if self.weighting not in WEIGHTINGS:
            raise InputError(f"unknown weighting {self.weighting!r}; choose one of: {', '.join(WEIGHTINGS)}")
        if self.min_len < 1 or (self.max_len is not None and self.max_len < self.min_len):
            raise InputError(f"need 1 <= min_len <= max_len, got min_len {self.min_len} and max_len {self.max_len}")
        if not 1e-37 < self.unseen_char_prob <= 1:
            raise InputError(f"unseen_char_prob must be above 1e-37 and at most 1, got {self.unseen_char_prob}")
        if not (0 < self.start_weight < np.inf and 0 < self.end_weight < np.inf):
            got = f"{self.start_weight} and {self.end_weight}"
            raise InputError(f"start_weight and end_weight must be finite numbers above 0, got {got}")
        if not self.boundaries and (self.inner_boundaries, self.start_weight, self.end_weight) != (False, 1, 1):
            raise InputError("inner_boundaries, start_weight and end_weight need boundaries=True")

    def codes(self, words: list[str], first: int = 0) -> Codes:
        """Lay words out as the index knows them: normalised, with their marks.

        Args:
            words: The words, or some of many.
            first: The position of the first among the many, for messages.
        """
        words = normalize(words, self.normalization)
        return encode(mark_parts(words) if self.inner_boundaries else words, self.boundaries, first)

    def codes_of(self, word: str) -> Codes:
        """Lay out a single word, quickly if it is a plain one."""
        if not (word.isalnum() and word.isascii()) or self.normalization == "casefold":
            return self.codes([word])
        return one_word(BOUNDARIES[0] + word + BOUNDARIES[1] if self.boundaries else word)

    def marks(self, words: list[str], codes: Codes) -> npt.NDArray[np.bool_]:
        """Tell which code points of words, already normalised, are marks."""
        is_mark = np.zeros(codes.codes.size, np.bool_)
        if self.boundaries:
            is_mark[codes.offsets[:-1]] = is_mark[codes.offsets[1:] - 1] = True
        if self.inner_boundaries:
            for word, first, last in zip(words, codes.offsets[:-1].tolist(), codes.offsets[1:].tolist(), strict=True):
                if not word.isalnum():
                    is_mark[first:last] = self.write(word)[1]
        return is_mark

    def write(self, word: str) -> tuple[str, npt.NDArray[np.bool_]]:
        """Return a word as the index knows it, and which of its characters are marks.

        >>> Spelling(boundaries=True, inner_boundaries=True).write("x-ray")[0]
        '<x>-<ray>'
        """
        (word,) = normalize([word], self.normalization)
        pieces = [INNER_MARKS[ord(character)] if self.inner_boundaries else character for character in word]
        if self.boundaries:
            pieces = [BOUNDARIES[0], *pieces, BOUNDARIES[1]]
        is_mark = [at != len(piece) // 2 for piece in pieces for at in range(len(piece))]
        if self.boundaries:
            is_mark[0] = is_mark[-1] = True
        return "".join(pieces), np.array(is_mark, np.bool_)

    @cached_property
    def numbers(self) -> tuple[float, int, float, float]:
        """What the kernels need to know, in the order they take it."""
        return self.unseen_char_prob, WEIGHTINGS[self.weighting], self.start_weight, self.end_weight

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)
