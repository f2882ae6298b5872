"""KVQ-FH (Sasaki et al. 2019), the attention baseline: a word's n-grams query each other. Extra `torch`.

F: only the most frequent n-grams count. H: an n-gram has no row of its own; hashes choose one in each of three tables.
In reading order: the settings, the model, the n-grams of words, training. No step goes over words one by one, and the
module needs NumPy, PyTorch and safetensors only, so that it also runs on a GPU machine without Numba.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, MissingExtraError, ModelError

try:
    import torch
except ImportError:
    raise MissingExtraError("KVQ-FH", "torch") from None

FloatMatrix = npt.NDArray[np.float32]
Hashes = npt.NDArray[np.uint64]

FNV_START, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
TABLES = 3  # key, value, query
CHUNK = 4096  # words embedded at a time


@dataclass(frozen=True)
class Settings:
    """The n-grams and the tables; the defaults are the paper's.

    Attributes:
        min_len: The length of the shortest n-grams, boundary marks included.
        max_len: The length of the longest.
        frequent: How many n-grams are known: those most frequent in the training words.
        per_word: How many n-grams of one word count at most: the shortest, from the left.
        rows: The number of rows of each table.
    """

    min_len: int = 3
    max_len: int = 30
    frequent: int = 500_000
    per_word: int = 200
    rows: int = 40_000

    def __post_init__(self) -> None:
        if not 1 <= self.min_len <= self.max_len or min(self.frequent, self.per_word, self.rows) < 1:
            raise InputError(f"need 1 <= min_len <= max_len and all other settings at least 1, got {self}")


PAPER = Settings()


class Segments(NamedTuple):
    """The n-grams of words in CSR form: those of word i are `rows[:, starts[i]:starts[i + 1]]`."""

    starts: npt.NDArray[np.int64]  # (n_words + 1,)
    rows: npt.NDArray[np.int32]  # (3, n_ngrams): rows of the three tables laid end to end


@dataclass(frozen=True, eq=False, repr=False)
class KVQ:
    """A trained model.

    The loss looks at directions only, so the lengths of the vectors mean nothing.

    Attributes:
        tables: Keys, values and queries, laid end to end: (3 * rows, dims), on the device of training.
        known: The hashes of the known n-grams, ascending.
        settings: The n-grams and the tables.
        losses: The mean loss of each epoch.
    """

    tables: Any
    known: Hashes
    settings: Settings
    losses: list[float]

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
        settings: Settings = PAPER,
        progress: bool | None = None,
    ) -> KVQ:
        """Train on word vectors.

        Args:
            words: The words.
            matrix: Their vectors, row by row. A zero vector has no direction to learn and is left out.
            epochs: How often to go over the words.
            batch: How many words make a step. On a GPU larger batches are faster; raise lr with them.
            lr: The rate of Adam.
            seed: Fixes the first tables and the order of the words. On a CPU the same seed gives the same model.
            device: Where PyTorch computes: "cpu", "cuda".
            settings: The n-grams and the tables.
            progress: Show a bar; None for "if stderr is a terminal".
        """
        words, targets = checked(words, matrix)
        if epochs < 1 or batch < 1 or not lr > 0:
            raise InputError(f"need epochs >= 1, batch >= 1 and lr > 0, got {epochs}, {batch} and {lr}")
        known = frequent_ngrams(words, settings)
        segments = find_segments(words, known, settings)
        usable = np.flatnonzero((np.diff(segments.starts) > 0) & targets.any(axis=1))
        if not usable.size:
            raise InputError("no word has both a known n-gram and a vector that is not zero; there is nothing to learn")
        random = torch.Generator().manual_seed(seed)
        tables = torch.randn(TABLES * settings.rows, targets.shape[1], generator=random) / targets.shape[1] ** 0.5
        tables = tables.to(device).requires_grad_()
        losses = fit(tables, segments, targets, usable, epochs, batch, lr, random, progress)
        return cls(tables.detach(), known, settings, losses)

    @property
    def dims(self) -> int:
        """The number of dimensions."""
        return int(self.tables.shape[1])

    @property
    def parameters(self) -> int:
        """How many numbers were trained."""
        return int(self.tables.numel())

    def embed(self, words: Iterable[str]) -> FloatMatrix:
        """Return float32 (n_words, dims); a word without any known n-gram gets zeros."""
        words = listed(words)
        out = np.zeros((len(words), self.dims), np.float32)
        for first in range(0, len(words), CHUNK):
            segments = find_segments(words[first : first + CHUNK], self.known, self.settings)
            owners = np.repeat(np.arange(len(segments.starts) - 1), np.diff(segments.starts))
            arrays = (torch.from_numpy(a).to(self.tables.device) for a in (segments.rows, owners, segments.starts))
            with torch.no_grad():
                out[first : first + CHUNK] = compose(self.tables, *arrays).cpu().numpy()
        return out

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one safetensors file, whole or not at all."""
        from safetensors.numpy import save

        from pbos.files import write_whole

        tensors = {"tables": self.tables.cpu().numpy(), "known": self.known, "losses": np.array(self.losses)}
        with write_whole(path) as stream:
            stream.write(save(tensors, metadata={"kvq": json.dumps(asdict(self.settings))}))

    @classmethod
    def load(cls, path: str | PathLike[str], device: str = "cpu") -> KVQ:
        """Read a model that `save` has written."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                settings = Settings(**json.loads((file.metadata() or {})["kvq"]))
                tables, known, losses = (file.get_tensor(name) for name in ("tables", "known", "losses"))
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{path}: this is no KVQ-FH model, or a damaged one ({error})") from error
        if tables.ndim != 2 or len(tables) != TABLES * settings.rows or tables.dtype != np.float32:
            raise ModelError(
                f"{path}: expected float32 tables of {TABLES * settings.rows} rows, "
                f"got {tables.dtype} of shape {tables.shape}"
            )
        if known.ndim != 1 or known.dtype != np.uint64:
            raise ModelError(f"{path}: expected a list of uint64 hashes, got {known.dtype} of shape {known.shape}")
        return cls(torch.from_numpy(tables).to(device), known, settings, losses.tolist())

    def __repr__(self) -> str:
        return f"KVQ({self.settings.rows} rows, {self.dims} dims, {len(self.known)} n-grams)"


def listed(words: Iterable[str]) -> list[str]:
    """Take words as people have them."""
    from pbos.text import as_words

    return as_words(words)


def checked(words: Iterable[str], matrix: npt.ArrayLike) -> tuple[list[str], FloatMatrix]:
    """Refuse words and vectors that do not belong together."""
    words, targets = listed(words), np.asarray(matrix, np.float32)
    if targets.ndim != 2 or len(targets) != len(words):
        raise InputError(f"expected a matrix with a row for each of {len(words)} words, got shape {targets.shape}")
    if not np.isfinite(targets).all():
        raise InputError("the vectors hold NaN or infinite values; leave those words out")
    return words, targets


# The n-grams of words -------------------------------------------------------------------------------------------------


def hash_ngrams(words: list[str], min_len: int, max_len: int) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """Return the hash of every n-gram of `<word>` and the position of its word, the shortest n-grams first.

    FNV-1a, 64 bits, one step a code point; for ASCII this is the common FNV-1a over bytes.

    >>> hash_ngrams(["foobar"], 8, 8)[0] == 0x86FC27E8E69B49DC
    array([ True])
    """
    from pbos.text import encode

    codes, offsets = encode(words, boundaries=True)
    owners = np.repeat(np.arange(len(words)), np.diff(offsets))  # (n_starts,)
    ends = offsets[1:][owners]
    starts = np.arange(codes.size)
    state = np.full(codes.size, FNV_START)
    found: list[tuple[Hashes, npt.NDArray[np.int64]]] = [(np.zeros(0, np.uint64), np.zeros(0, np.int64))]
    for length in range(1, max_len + 1):
        room = starts + length <= ends
        starts, ends, owners = starts[room], ends[room], owners[room]
        state = (state[room] ^ codes[starts + length - 1]) * FNV_PRIME
        if length >= min_len:
            found.append((state, owners))
    return np.concatenate([hashes for hashes, _ in found]), np.concatenate([owners for _, owners in found])


def table_rows(hashes: Hashes, rows: int) -> npt.NDArray[np.int32]:
    """Choose a row in each table, (3, n_ngrams): the first outputs of SplitMix64 from the state `hash`, modulo rows.

    The rows are those of the tables laid end to end: 0 to rows - 1 for the keys, then values, then queries.
    """
    chosen = np.empty((TABLES, hashes.size), np.int32)
    state = hashes.copy()
    for table in range(TABLES):
        state += np.uint64(0x9E3779B97F4A7C15)
        mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        chosen[table] = (mixed ^ (mixed >> np.uint64(31))) % np.uint64(rows) + np.uint64(table * rows)
    return chosen


def frequent_ngrams(words: list[str], settings: Settings) -> Hashes:
    """Return the hashes of the most frequent n-grams, ascending; of equally frequent ones, shorter and earlier win."""
    hashes, _ = hash_ngrams(words, settings.min_len, settings.max_len)
    distinct, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    if distinct.size <= settings.frequent:
        return distinct
    return np.sort(distinct[np.lexsort((first, -counts))[: settings.frequent]])


def find_segments(words: list[str], known: Hashes, settings: Settings) -> Segments:
    """Find the known n-grams of words and their rows; one that occurs twice in a word counts twice."""
    hashes, owners = hash_ngrams(words, settings.min_len, settings.max_len)
    at = np.minimum(np.searchsorted(known, hashes), max(known.size - 1, 0))
    kept = np.flatnonzero(known[at] == hashes) if known.size else np.zeros(0, np.int64)
    kept = kept[np.argsort(owners[kept], kind="stable")]  # word by word, the shortest first
    starts = np.searchsorted(owners[kept], np.arange(len(words) + 1))
    rank = np.arange(kept.size) - starts[owners[kept]]
    kept = kept[rank < settings.per_word]
    starts = np.searchsorted(owners[kept], np.arange(len(words) + 1))
    return Segments(starts, table_rows(hashes[kept], settings.rows))


# The network and its training -----------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """What a step needs, on the device."""

    rows: Any  # (3, n_ngrams)
    owners: Any  # (n_ngrams,): the word of each n-gram, as its position in the batch
    starts: Any  # (n_words + 1,): the n-grams of word i are starts[i]:starts[i + 1]
    targets: Any  # (n_words, dims), of length 1


class Attention(torch.autograd.Function):  # type: ignore[misc]
    """Word vectors from the keys, values and queries of their n-grams, with a gradient written by hand.

    The gathering that autograd would do instead is many times slower on a CPU.
    """

    @staticmethod
    def forward(context: Any, keys: Any, values: Any, queries: Any, owners: Any, starts: Any) -> Any:
        """Compute (n_words, dims) from three (n_ngrams, dims); see `Batch` for owners and starts.

        query = sum of queries;  weights = softmax of query * key * sqrt(dims);  vector = sum of weights * values
        """
        scaled = segment_sum(queries, starts).index_select(0, owners) * keys.shape[1] ** 0.5
        logits = scaled * keys
        largest = torch.segment_reduce(logits, "max", offsets=starts, unsafe=True)
        weights = torch.exp(logits - largest.index_select(0, owners))
        weights /= segment_sum(weights, starts).index_select(0, owners)
        vectors = segment_sum(weights * values, starts)
        context.save_for_backward(keys, values, scaled, weights, vectors, owners, starts)
        return vectors

    @staticmethod
    def backward(context: Any, gradient: Any) -> tuple[Any, Any, Any, None, None]:
        """Carry the gradient of the vectors g back.

        to a value: weight * g;  to a logit: weight * g * (value - vector);  from there to key and query by the product
        """
        keys, values, scaled, weights, vectors, owners, starts = context.saved_tensors
        to_values = weights * gradient.index_select(0, owners)
        to_logits = to_values * (values - vectors.index_select(0, owners))
        to_query = segment_sum(to_logits * keys, starts) * keys.shape[1] ** 0.5
        return to_logits * scaled, to_values, to_query.index_select(0, owners), None, None


def segment_sum(data: Any, starts: Any) -> Any:
    """Add up the rows of each segment; an empty one gives zeros."""
    return torch.segment_reduce(data, "sum", offsets=starts, unsafe=True)  # unsafe: no look at starts, no wait


def compose(tables: Any, rows: Any, owners: Any, starts: Any) -> Any:
    """Compute word vectors (n_words, dims) from tables (3 * rows, dims); see `Batch` for the rest."""
    if tables.is_cuda:  # each form is slow, or cannot be recorded, where the other is used
        gathered = tables.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)
    else:
        gathered = torch.nn.functional.embedding(rows, tables)
    return Attention.apply(*gathered.unbind(), owners, starts)


def batches(segments: Segments, rows: Any, targets: Any, order: npt.NDArray[np.int64], batch: int) -> Iterator[Batch]:
    """Lay the n-grams of an epoch out in its order of words, on the device, and cut them into batches.

    Where to cut is known on the CPU, so that no step has to wait for the device.
    """
    lengths = np.diff(segments.starts)[order]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.repeat(np.arange(len(order), dtype=np.int32), lengths)
    shifts, starts, owners, chosen = (
        torch.from_numpy(array).to(rows.device)
        for array in (segments.starts[order] - ends[:-1], ends, positions, order)
    )
    places = torch.arange(len(owners), device=rows.device) + shifts.index_select(0, owners)
    epoch_rows, epoch_targets = rows[:, places], targets[chosen]
    for first in range(0, len(order), batch):
        last = min(first + batch, len(order))
        part = slice(int(ends[first]), int(ends[last]))
        yield Batch(
            epoch_rows[:, part],
            owners[part] - first,
            starts[first : last + 1] - part.start,
            epoch_targets[first:last],
        )


def fit(
    tables: Any,
    segments: Segments,
    targets: FloatMatrix,
    usable: npt.NDArray[np.int64],
    epochs: int,
    batch: int,
    lr: float,
    random: Any,
    progress: bool | None,
) -> list[float]:
    """Change the tables in place, by Adam; return the mean loss of each epoch, as met on the way."""
    from pbos.progress import progress as progress_bar

    goal = torch.nn.functional.normalize(torch.from_numpy(targets).to(tables.device))
    rows = torch.from_numpy(segments.rows).to(tables.device)
    room = enough_room(np.diff(segments.starts)[usable], batch)
    trainer = RecordedTrainer(tables, lr, batch, room) if tables.is_cuda else Trainer(tables, lr)
    losses: list[float] = []
    with progress_bar("training KVQ-FH", epochs, progress) as advance:
        for _ in range(epochs):
            order = usable[torch.randperm(usable.size, generator=random).numpy()]
            trainer.total.zero_()
            for step in batches(segments, rows, goal, order, batch):
                trainer.step(step)
            losses.append(float(trainer.total) / usable.size)
            if not np.isfinite(losses[-1]):
                raise InputError(f"training diverged (loss {losses[-1]}); use a smaller lr than {lr}")
            advance(1, note=f"loss {losses[-1]:.3g}")
    return losses


class Trainer:
    """Takes steps and adds up their losses in `total`."""

    def __init__(self, tables: Any, lr: float) -> None:
        self.tables = tables
        self.adam = make_adam(tables, lr)
        self.total = torch.zeros((), dtype=torch.float64, device=tables.device)

    def step(self, batch: Batch) -> None:
        """Go down the gradient of the mean loss of a batch; words beyond the targets do not count."""
        vectors = compose(self.tables, batch.rows, batch.owners, batch.starts)[: len(batch.targets)]
        loss = (torch.nn.functional.normalize(vectors) - batch.targets).square().sum()
        self.adam.zero_grad()
        (loss / len(batch.targets)).backward()
        self.adam.step()
        self.total += loss.detach()


class RecordedTrainer(Trainer):
    """The same on a GPU, where starting the many small parts of a step takes five times as long as running them.

    A step is recorded once (a CUDA graph) and then replayed as a whole, on arrays whose places and sizes stay the same:
    n-grams up to `room` belong to a word beyond the targets, which has no gradient. A batch of another number of words,
    or with more n-grams than there is room for, goes the plain way.
    """

    WARM_UP = 3  # steps before the recording, in which PyTorch sets itself up

    def __init__(self, tables: Any, lr: float, n_words: int, room: int) -> None:
        super().__init__(tables, lr)
        self.taken = 0
        self.graph: Any = None
        self.stream = torch.cuda.Stream(tables.device)
        self.held = Batch(
            torch.zeros(TABLES, room, dtype=torch.int32, device=tables.device),
            torch.full((room,), n_words, dtype=torch.int32, device=tables.device),
            torch.full((n_words + 2,), room, device=tables.device),
            torch.zeros(n_words, tables.shape[1], device=tables.device),
        )

    def step(self, batch: Batch) -> None:
        """Replay the step for a batch."""
        if len(batch.targets) != len(self.held.targets) or len(batch.owners) > len(self.held.owners):
            super().step(batch)
        elif self.taken < self.WARM_UP:
            self.taken += 1
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                super().step(batch)
            torch.cuda.current_stream().wait_stream(self.stream)
        else:
            self.graph = self.graph or self.record()
            self.hold(batch)
            self.graph.replay()

    def record(self) -> Any:
        """Record a step without taking it."""
        graph = torch.cuda.CUDAGraph()
        self.adam.zero_grad()
        with torch.cuda.graph(graph):
            super().step(self.held)
        return graph

    def hold(self, batch: Batch) -> None:
        """Copy a batch to where the recorded step looks for it."""
        n_words, n_ngrams = len(batch.targets), len(batch.owners)
        self.held.rows[:, :n_ngrams].copy_(batch.rows)
        self.held.owners[:n_ngrams].copy_(batch.owners)
        self.held.owners[n_ngrams:].fill_(n_words)
        self.held.starts[: n_words + 1].copy_(batch.starts)
        self.held.targets.copy_(batch.targets)


def enough_room(lengths: npt.NDArray[np.int64], batch: int) -> int:
    """Return a number of n-grams that hardly any batch of words of these lengths goes beyond."""
    return int(batch * lengths.mean() + 5 * batch**0.5 * lengths.std()) + 1


def make_adam(tables: Any, lr: float) -> Any:
    """Make the optimiser; most of a step is its pass over the tables, which the fused form does in one go."""
    try:
        return torch.optim.Adam([tables], lr=lr, fused=True, capturable=tables.is_cuda)
    except RuntimeError:  # older PyTorch has it for GPUs only
        return torch.optim.Adam([tables], lr=lr)
