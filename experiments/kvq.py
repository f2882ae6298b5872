"""KVQ-FH (Sasaki et al. 2019), the attention baseline: a word's n-grams attend to each other.

F: only the most frequent n-grams are used. H: n-grams have no rows of their own; hashes choose a row in each of three
tables (keys, values, queries), so n-grams share rows.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from experiments.fnv import fnv1a
from experiments.neural import say, unpack, write_vectors
from pbos.errors import InputError
from pbos.jobs.progress import progress as progress_bar
from pbos.words.text import as_words

TABLES = 3  # keys, values, queries
CHUNK = 1024  # words embedded at a time
Rows = tuple[int, int, int]


@dataclass(frozen=True)
class Settings:
    """The n-grams and the tables; the defaults are the paper's.

    Attributes:
        min_len: Length of the shortest n-grams, boundary marks included.
        max_len: Length of the longest n-grams.
        frequent: How many n-grams are known: the most frequent in the training words.
        per_word: How many n-grams of one word are used at most: the shortest, from the left.
        rows: The number of rows of each table.
    """

    min_len: int = 3
    max_len: int = 30
    frequent: int = 500_000
    per_word: int = 200
    rows: int = 40_000


class KVQ:
    """A trained model. Its loss depends on directions only, so the lengths of its vectors mean nothing.

    Attributes:
        tables: Keys, values and queries, one after the other: (3 * rows, dims), on the device used for training.
        known: The known n-grams and their rows in the three tables.
        losses: The mean loss of each epoch.
    """

    def __init__(self, tables: torch.Tensor, known: dict[str, Rows], settings: Settings) -> None:
        self.tables = tables
        self.known = known
        self.settings = settings
        self.losses: list[float] = []

    @classmethod
    def train(
        cls,
        words: Iterable[str],
        matrix: npt.ArrayLike,
        *,
        epochs: int = 300,
        batch: int = 200,
        lr: float = 1e-4,
        seed: int = 0,
        device: str = "cpu",
        settings: Settings | None = None,
        progress: bool | None = None,
    ) -> KVQ:
        """Train on word vectors.

        Args:
            words: The words.
            matrix: Their vectors, row by row. Zero vectors have no direction to learn and are left out.
            epochs: How often to go over the words.
            batch: Words per step.
            lr: The learning rate of Adam.
            seed: Determines the initial tables and the order of the words.
            device: Where PyTorch computes: "cpu", "cuda".
            settings: The n-grams and the tables; None for the paper's.
            progress: Show a progress bar; None for "if stderr is a terminal".
        """
        words, settings = as_words(words), settings or Settings()
        targets = torch.from_numpy(np.asarray(matrix, np.float32)).to(device)
        dims = targets.shape[1]
        known = frequent_ngrams(words, settings)
        random = torch.Generator().manual_seed(seed)
        tables = torch.randn(TABLES * settings.rows, dims, generator=random)
        model = cls((tables / dims**0.5).to(device).requires_grad_(), known, settings)

        rows, lengths = model.pad([model.rows_of(word) for word in words])
        usable = np.flatnonzero((lengths > 0) & targets.any(dim=1).cpu().numpy())
        if not usable.size:
            raise InputError("no word has both a known n-gram and a nonzero vector; there is nothing to learn")
        goal = torch.nn.functional.normalize(targets)
        adam = torch.optim.Adam([model.tables], lr=lr, fused=True)
        with progress_bar("training KVQ-FH", epochs, progress) as advance:
            for _ in range(epochs):
                total = torch.zeros((), device=device)
                order = usable[torch.randperm(usable.size, generator=random).numpy()]
                for first in range(0, len(order), batch):
                    chosen = order[first : first + batch]
                    vectors = model.compose(rows[chosen], lengths[chosen])
                    loss = (torch.nn.functional.normalize(vectors) - goal[chosen]).square().sum()
                    adam.zero_grad()
                    (loss / len(chosen)).backward()
                    adam.step()
                    total += loss.detach()
                model.losses.append(float(total) / usable.size)
                advance(1, note=f"loss {model.losses[-1]:.3g}")
        model.tables = model.tables.detach()
        return model

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return int(self.tables.shape[1])

    def embed(self, words: Iterable[str]) -> npt.NDArray[np.float32]:
        """Return float32 (n_words, dims); a word without any known n-gram gets zeros."""
        rows = [self.rows_of(word) for word in as_words(words)]
        out = np.zeros((len(rows), self.dims), np.float32)
        covered = [at for at, found in enumerate(rows) if len(found)]
        for first in range(0, len(covered), CHUNK):
            part = covered[first : first + CHUNK]
            with torch.no_grad():
                out[part] = self.compose(*self.pad([rows[at] for at in part])).cpu().numpy()
        return out

    def rows_of(self, word: str) -> torch.Tensor:
        """Return the table rows of a word's known n-grams, (n_ngrams, 3); one that occurs twice counts twice."""
        lengths = range(self.settings.min_len, self.settings.max_len + 1)
        found = [self.known[ngram] for n in lengths for ngram in ngrams(word, n) if ngram in self.known]
        return torch.tensor(found[: self.settings.per_word]).view(-1, TABLES).long()

    def pad(self, rows: list[torch.Tensor]) -> tuple[torch.Tensor, npt.NDArray[np.int64]]:
        """Return rows of words as one tensor on the device, (n_words, longest, 3), and how many each word has."""
        padded = torch.nn.utils.rnn.pad_sequence([found.int() for found in rows], batch_first=True)
        return padded.to(self.tables.device), np.array([len(found) for found in rows])

    def compose(self, rows: torch.Tensor, lengths: npt.NDArray[np.int64]) -> Any:
        """Return word vectors, (n_words, dims), from the padded rows of their n-grams; every word has at least one.

        query = sum of queries;  weights = softmax(query * key * sqrt(dims)) over n-grams, for each dimension;
        vector = sum of weights * values
        """
        longest = int(lengths.max())
        padding = torch.from_numpy(np.arange(longest) >= lengths[:, None])[:, :, None].to(self.tables.device)
        keys, values, queries = torch.nn.functional.embedding(rows[:, :longest], self.tables).unbind(2)
        query = queries.masked_fill(padding, 0).sum(dim=1, keepdim=True)
        logits = (query * keys * self.dims**0.5).masked_fill(padding, -torch.inf)
        return (logits.softmax(dim=1) * values).sum(dim=1)


def ngrams(word: str, n: int) -> Iterator[str]:
    """Yield the n-grams of `<word>`, from the left."""
    marked = f"<{word}>"
    return (marked[start : start + n] for start in range(len(marked) - n + 1))


def frequent_ngrams(words: list[str], settings: Settings) -> dict[str, Rows]:
    """Return the most frequent n-grams and their rows; of equally frequent ones, shorter and earlier ones win."""
    lengths = range(settings.min_len, settings.max_len + 1)
    counts = Counter(ngram for n in lengths for word in words for ngram in ngrams(word, n))
    return {ngram: table_rows(ngram, settings.rows) for ngram, _ in counts.most_common(settings.frequent)}


def table_rows(ngram: str, rows: int) -> Rows:
    """Choose a row in each table: three outputs of SplitMix64 seeded with the FNV-1a hash of the code points.

    Rows are numbered over all tables: the keys from 0, the values from `rows`, the queries from 2 * `rows`.
    """
    state, found = fnv1a(ngram), []
    for table in range(TABLES):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
        found.append(table * rows + (mixed ^ mixed >> 31) % rows)
    return found[0], found[1], found[2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Train on a job of `python -m experiments jobs kvq`; write the vectors of its words to a file of the same name."""
    parser = argparse.ArgumentParser(description="Train KVQ-FH on a job. Needs NumPy and PyTorch only.")
    parser.add_argument("job", type=Path)
    parser.add_argument("folder", type=Path, help="where the vectors go")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--epochs", type=int, default=300)
    options = parser.parse_args(arguments)
    with np.load(options.job, allow_pickle=False) as job:
        words, vectors, asked = unpack(job["words"]), job["vectors"], unpack(job["asked"])
    start = time.perf_counter()
    model = KVQ.train(words, vectors, epochs=options.epochs, device=options.device)
    options.folder.mkdir(parents=True, exist_ok=True)
    write_vectors(options.folder / options.job.name, asked, model.embed(asked), losses=np.array(model.losses))
    say(f"{options.job.stem}: {time.perf_counter() - start:.0f} s, loss {model.losses[-1]:.4f}")


if __name__ == "__main__":
    main()
