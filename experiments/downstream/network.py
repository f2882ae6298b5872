"""The one small network of all tasks: a hidden layer over a window of frozen word vectors.

For tagging, it says the tag of the word in the middle; for texts, the largest value of each hidden unit goes on. The
settings were chosen on development data (WNUT17 and CoNLL-2003; SST-2 without typos) with zeros for unknown words:
`python -m experiments tasks choose`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from pbos.words.arrays import FloatMatrix

BATCH = 32  # sentences
IGNORED = -100  # the label of padding
Ids = list[npt.NDArray[np.int64]]  # of each sentence, the rows of its words; or its labels


class Settings(NamedTuple):
    """How a network looks and learns."""

    width: int  # words of a window
    hidden: int
    dropout: float
    lr: float
    epochs: int


TAGGING = Settings(width=5, hidden=64, dropout=0.3, lr=3e-3, epochs=9)
TEXTS = Settings(width=3, hidden=64, dropout=0.3, lr=1e-3, epochs=9)


class Network(nn.Module):  # type: ignore[misc]
    """Scores of labels, for each word or, if it pools, for each text."""

    def __init__(self, vectors: FloatMatrix, labels: int, settings: Settings, pools: bool) -> None:
        super().__init__()
        self.vectors = nn.Embedding.from_pretrained(torch.from_numpy(vectors))
        self.window = nn.Conv1d(vectors.shape[1], settings.hidden, settings.width, padding=settings.width // 2)
        self.drop, self.out, self.pools = nn.Dropout(settings.dropout), nn.Linear(settings.hidden, labels), pools

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the scores, (texts, labels) or (texts, words, labels); row 0 is padding."""
        hidden = torch.relu(self.window(self.vectors(ids).transpose(1, 2)))
        hidden = (hidden * (ids > 0)[:, None]).amax(2) if self.pools else hidden.transpose(1, 2)
        return self.out(self.drop(hidden))


def learned(
    vectors: FloatMatrix, ids: Ids, labels: Ids, n_labels: int, settings: Settings, seed: int, pools: bool
) -> Iterator[Network]:
    """Train a network; yield it after each epoch."""
    torch.set_num_threads(1)  # the matrices are small: more threads mostly wait for each other
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    network = Network(vectors, n_labels, settings, pools)
    optimizer = torch.optim.Adam([one for one in network.parameters() if one.requires_grad], lr=settings.lr)
    for _ in range(settings.epochs):
        network.train()
        for rows in batches(ids, random):
            wanted = padded([labels[row] for row in rows], IGNORED)
            scores = network(padded([ids[row] for row in rows], 0))  # (..., n_labels)
            loss = nn.functional.cross_entropy(scores.flatten(0, -2), wanted.flatten(), ignore_index=IGNORED)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield network


def guessed(network: Network, ids: Ids) -> Ids:
    """Return the best label of each text, or of each of its words."""
    network.eval()
    found: Ids = [np.zeros(0, np.int64)] * len(ids)
    for rows in batches(ids):
        with torch.no_grad():
            best = network(padded([ids[row] for row in rows], 0)).argmax(-1).numpy()
        for row, labels in zip(rows, best, strict=True):
            found[row] = np.atleast_1d(labels)[: len(ids[row])]
    return found


def batches(ids: Ids, random: np.random.Generator | None = None) -> list[npt.NDArray[np.int64]]:
    """Return the rows of sentences that are about equally long, some at a time; in random order to learn."""
    lengths = np.array([len(one) for one in ids])
    ties = np.arange(len(ids)) if random is None else random.permutation(len(ids))
    order = np.lexsort([ties, lengths])
    parts = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
    return parts if random is None else [parts[at] for at in random.permutation(len(parts))]


def padded(rows: Ids, fill: int) -> torch.Tensor:
    """Return rows of numbers as a matrix."""
    out = np.full((len(rows), max(map(len, rows))), fill, np.int64)
    for place, row in enumerate(rows):
        out[place, : len(row)] = row
    return torch.from_numpy(out)
