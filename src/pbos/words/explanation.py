"""Why a word gets its vector: one object that the command line prints, notebooks show and the page draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from html import escape
from typing import Any

from pbos.errors import one_line
from pbos.words.lattice import Lattice, printable
from pbos.words.neighbors import Near
from pbos.words.readonly import ReadOnlyList
from pbos.words.subwords import Segmentation

NO_WEIGHTS = "none: no known subword"
Shares = list[tuple[str, float]]


class Explanation:
    """What a model, or a segmenter, knows about one word. Make one with `explain`.

    >>> import pbos
    >>> explanation = pbos.load().explain("unfriendliest", n=2)
    >>> print(explanation)
    unfriendliest   coverage 1.00   entropy 0.71   confidence 0.77
      segmentations
        un/friendli/est  0.943  ██████████████████████▋
        unfriend/li/est  0.040  █
      subword weights
        <un              0.120  ██▉
        <u               0.061  █▌
    >>> explanation.neighbors[0][0]
    'unfriendly'

    Attributes:
        word: The word as given.
        read_as: The word as the model reads it, see `Segmenter.read_as`.
        lattice: All its segmentations.
        n: The number of segmentations, and of weights in tables.
        known: Whether it is a training word; None without a model.
        confidence: How far to trust its vector, see `Model.confidence`; None if the model has no confidence.
        context_share: The share of its contexts in its vector, the rest being that of its spelling; None without any.
        context_words: The words around it, and how much each adds to what contexts yield; these sum to 1.
        spelling_neighbors: The training words near it in spelling that its vector is made with (see `train`).
    """

    context_share: float | None = None  # pickles of version 0.1 have none
    context_words: Shares = ReadOnlyList()
    spelling_neighbors: list[Near] = ReadOnlyList()

    def __init__(
        self,
        word: str,
        lattice: Lattice,
        n: int = 5,
        *,
        known: bool | None = None,
        confidence: float | None = None,
        find_neighbors: Callable[[], Shares] = list,
        context_share: float | None = None,
        context_words: Shares | None = None,
        spelling_neighbors: list[Near] | None = None,
    ) -> None:
        self.word, self.lattice, self.n, self.known, self.confidence = word, lattice, n, known, confidence
        self.read_as = lattice.word
        self.context_share, self.context_words = context_share, ReadOnlyList(context_words or ())
        self.spelling_neighbors = ReadOnlyList(spelling_neighbors or ())
        self._find_neighbors = find_neighbors

    @cached_property
    def segmentations(self) -> list[Segmentation]:
        """The n most probable segmentations, best first."""
        return ReadOnlyList(self.lattice.best(self.n))

    @cached_property
    def weights(self) -> Shares:
        """All subwords that have a vector and their weights a(s|w), largest first; they sum to 1."""
        return ReadOnlyList(self.lattice.weights())

    @cached_property
    def coverage(self) -> float:
        """The share of the word's characters that are in a subword with a weight, 0 to 1."""
        return self.lattice.coverage()

    @cached_property
    def entropy(self) -> float:
        """How uncertain the segmentation is, in nats."""
        return self.lattice.entropy()

    @cached_property
    def neighbors(self) -> Shares:
        """The training words nearest to the word, with their cosines; empty if it has no vector."""
        return ReadOnlyList(self._find_neighbors())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON.

        `spans` are positions in `spelled`, the word with its boundary marks. `known`, `confidence` and `neighbors` need
        a model.
        """
        data = {
            "word": self.word,
            "read_as": self.read_as,
            "spelled": self.lattice.spelled,
            "segmentations": [{**one._asdict(), "pieces": [*one.pieces]} for one in self.segmentations],
            "weights": [{"subword": subword, "weight": weight} for subword, weight in self.weights],
            "spans": [span._asdict() for span in self.lattice.spans],
            "entropy": self.entropy,
            "coverage": self.coverage,
        }
        if self.known is not None:
            near = [{"word": word, "cosine": cosine} for word, cosine in self.neighbors]
            data |= {"known": self.known, "confidence": self.confidence, "neighbors": near}
        if self.spelling_neighbors:
            data["spelling_neighbors"] = [one._asdict() for one in self.spelling_neighbors]
        if self.context_share is not None:
            telling = [{"word": word, "share": share} for word, share in self.context_words]
            data |= {"context_share": self.context_share, "context_words": telling}
        return data

    def _tables(self) -> tuple[list[str], dict[str, Shares]]:
        """Return what is shown about the word: facts, and titles with labels and shares of 1."""
        facts = [f"coverage {self.coverage:.2f}", f"entropy {self.entropy:.2f}"]
        facts += [] if self.confidence is None else [f"confidence {self.confidence:.2f}"]
        cuts = [("/".join(one.pieces), one.probability) for one in self.segmentations]
        tables = {"segmentations": cuts, "subword weights": self.weights[: self.n]}
        if self.spelling_neighbors:
            found = self.spelling_neighbors[: self.n]
            tables["spelling neighbors"] = [(f"{one.word}  {one.rule}".rstrip(), one.share) for one in found]
        if self.context_share is not None:
            tables["spelling and contexts"] = [("spelling", 1 - self.context_share), ("contexts", self.context_share)]
            tables["context words"] = self.context_words[: self.n]
        return facts, tables

    def __str__(self) -> str:
        facts, tables = self._tables()
        width = max(len(one_line(label)) for rows in tables.values() for label, _ in rows)
        lines = ["   ".join([one_line(self.word), *facts])]
        if self.read_as != self.word:
            lines.append(f"  read as: {one_line(self.read_as)}")
        for title, rows in tables.items():
            lines.append(f"  {title}")
            bars = [f"    {one_line(label):<{width}}  {share:.3f}  {bar(share)}".rstrip() for label, share in rows]
            lines += bars or [f"    {NO_WEIGHTS}"]
        return "\n".join(lines)

    def svg(self) -> str:
        """Draw the lattice; see `Lattice.svg`."""
        return self.lattice.svg()

    def _repr_html_(self) -> str:
        facts, tables = self._tables()
        if self.known is not None:
            tables["nearest words"] = self.neighbors[: self.n]
        parts = ['<div style="max-width: 100%; overflow-x: auto">', self.svg()]
        if self.read_as != self.word:
            parts.append(f"<div>read as: <bdi>{escape(printable(self.read_as))}</bdi></div>")
        parts.append(f"<div>{' &nbsp; '.join(facts)}</div>")
        for title, rows in tables.items():
            shown = [[f"<bdi>{escape(printable(label))}</bdi>", f"{share:.3f}", bar(share)] for label, share in rows]
            lines = [f"<tr><td>{'</td><td>'.join(cells)}</td></tr>" for cells in shown or [[NO_WEIGHTS]]]
            parts.append(f"<table><caption>{title}</caption>{''.join(lines)}</table>")
        return "".join([*parts, "</div>"])

    def __repr__(self) -> str:
        return f"<Explanation {self.word!r}: best {self.segmentations[0]}, coverage {self.coverage:.2f}>"


def bar(share: float, width: int = 24) -> str:
    """Return a share of 1 as a bar of up to `width` characters, in eighths.

    >>> bar(0.5, 4)
    '██'
    """
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
