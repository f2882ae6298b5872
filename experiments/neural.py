"""Neural models of characters trained on word vectors, to compare with: a CNN, a BiLSTM (MIMICK), a transformer.

They are trained where there is a GPU, which needs only this file, NumPy and PyTorch:

    python -m experiments jobs neural            # writes job.npz: words, vectors, and the words to embed
    python experiments/neural.py job.npz FOLDER  # trains; writes the vectors of those words, and results.json
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

LONGEST = 24  # characters; the rest of a word is dropped
PADDING, START, END, UNKNOWN = range(4)
R0 = 10_000  # the weight of a word is 1 / (1 + rank / R0), as rare words have noisy vectors
DEVELOPMENT = 2_000  # words of the training set that choose the epoch
CHECKS = 10  # how often this is looked at


# The models -----------------------------------------------------------------------------------------------------------


class CNN(nn.Module):  # type: ignore[misc]
    """Filters of 2 to 7 characters, the largest value of each, and two layers on top."""

    def __init__(self, characters: int, dims: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, size // 4, padding_idx=PADDING)
        self.filters = nn.ModuleList([nn.Conv1d(size // 4, size, width, padding=width // 2) for width in range(2, 8)])
        self.top = top(6 * size, 4 * size, dims)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the vectors of words given as codes (n_words, longest)."""
        embedded = self.embedding(codes).transpose(1, 2)
        found: torch.Tensor = self.top(torch.cat([one(embedded).relu().amax(dim=2) for one in self.filters], dim=1))
        return found


class BiLSTM(nn.Module):  # type: ignore[misc]
    """MIMICK (Pinter et al. 2017), larger: the last states of an LSTM in each direction, and two layers on top."""

    def __init__(self, characters: int, dims: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, size // 4, padding_idx=PADDING)
        self.forwards = nn.LSTM(size // 4, 2 * size, batch_first=True)
        self.backwards = nn.LSTM(size // 4, 2 * size, batch_first=True)
        self.top = top(4 * size, 4 * size, dims)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the vectors of words given as codes (n_words, longest)."""
        lengths = (codes != PADDING).sum(dim=1)
        places = torch.arange(codes.shape[1], device=codes.device)
        mirror = (lengths[:, None] - 1 - places).clamp(min=0)
        last = (lengths - 1)[:, None, None]
        states = []
        for lstm, read in ((self.forwards, codes), (self.backwards, codes.gather(1, mirror))):
            every = lstm(self.embedding(read))[0]
            states.append(every.gather(1, last.expand(-1, 1, every.shape[2])).squeeze(1))
        found: torch.Tensor = self.top(torch.cat(states, dim=1))
        return found


class Transformer(nn.Module):  # type: ignore[misc]
    """Four layers with learned positions, the mean over the characters, and two layers on top."""

    def __init__(self, characters: int, dims: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, size, padding_idx=PADDING)
        self.positions = nn.Parameter(torch.randn(LONGEST + 2, size))  # of the embedding's scale
        layer = nn.TransformerEncoderLayer(
            size, 8, 4 * size, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.top = top(size, 4 * size, dims)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the vectors of words given as codes (n_words, longest)."""
        padding = codes == PADDING
        states = self.layers(self.embedding(codes) + self.positions[: codes.shape[1]], src_key_padding_mask=padding)
        kept = (~padding)[:, :, None].to(states.dtype)
        found: torch.Tensor = self.top((states * kept).sum(dim=1) / kept.sum(dim=1))
        return found


def top(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Return the two layers that end every model."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, outputs))


MODELS: dict[str, tuple[Callable[[int, int, int], nn.Module], float]] = {  # and the learning rate
    "cnn": (CNN, 1e-3),
    "bilstm": (BiLSTM, 1e-3),
    "transformer": (Transformer, 5e-4),
}


# Words ----------------------------------------------------------------------------------------------------------------


def alphabet(words: Sequence[str]) -> dict[str, int]:
    """Return a code for each character of the training words."""
    return {character: code for code, character in enumerate(sorted(set("".join(words))), UNKNOWN + 1)}


def encode(words: Sequence[str], codes: dict[str, int]) -> torch.Tensor:
    """Return the codes of words, with marks around them: (n_words, LONGEST + 2).

    >>> encode(["ab"], {"a": 4})[0, :5].tolist()
    [1, 4, 3, 2, 0]
    """
    found = np.full((len(words), LONGEST + 2), PADDING, np.int64)
    for row, word in enumerate(words):
        inner = [codes.get(character, UNKNOWN) for character in word[:LONGEST]]
        found[row, : len(inner) + 2] = [START, *inner, END]
    return torch.from_numpy(found)


def write_job(
    file: Path,
    words: Sequence[str],
    vectors: npt.NDArray[Any],
    ranks: npt.NDArray[Any],
    asked: Sequence[str],
) -> None:
    """Write a job: words to train on, with their vectors and ranks, and words to embed.

    Vectors are rounded to 8 bits after the first, 0.2 %, so that the largest job has about 50 MB.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    rounded = (vectors.astype(np.float16).view(np.uint16) + np.uint16(2)) & np.uint16(0xFFFC)
    arrays: dict[str, Any] = {"vectors": rounded.view(np.float16), "ranks": ranks.astype(np.int32)}
    np.savez_compressed(file, **arrays, words=pack(words), asked=pack(asked))


def pack(words: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return words as bytes, one per line: npz files of strings would be pickles or four bytes per letter."""
    return np.frombuffer("\n".join(words).encode(), np.uint8)


def unpack(packed: npt.NDArray[np.uint8]) -> list[str]:
    """Undo `pack`."""
    return packed.tobytes().decode().split("\n")


# Training -------------------------------------------------------------------------------------------------------------


def train(
    kind: str,
    words: Sequence[str],
    vectors: npt.NDArray[Any],
    ranks: npt.NDArray[Any],
    asked: Sequence[str],
    *,
    epochs: int = 40,
    batch: int = 1024,
    size: int = 256,
    device: str = "cpu",
    seed: int = 0,
) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
    """Train a model to predict vectors; return the vectors of the words that are asked for, and how it went.

    The loss is the squared error, weighted by the words' reliability. Of a few epochs, the one with the best weighted
    cosine on DEVELOPMENT training words counts; the model does not see these words.
    """
    torch.manual_seed(seed)
    start, codes = time.perf_counter(), alphabet(words)
    inputs = encode(words, codes).to(device)
    weights = torch.from_numpy(1 / (1 + ranks / R0)).float().to(device)
    targets = torch.from_numpy(np.asarray(vectors, np.float32)).to(device)
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(seed)).to(device)
    n_development = min(DEVELOPMENT, len(words) // 10)
    development, rows = order[:n_development], order[n_development:]
    mean, scale = targets[rows].mean(dim=0), targets[rows].std()
    goal = (targets - mean) / scale

    make, rate = MODELS[kind]
    model = make(max(codes.values()) + 1, targets.shape[1], size).to(device)
    per_epoch = math.ceil(len(rows) / batch)
    adam = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, rate, total_steps=epochs * per_epoch, pct_start=0.1)
    cast: Any = torch.autocast("cuda", torch.bfloat16) if device.startswith("cuda") else nullcontext()

    def embed(chosen: torch.Tensor) -> torch.Tensor:
        model.eval()
        with torch.no_grad(), cast:
            found = [model(part).float() * scale + mean for part in chosen.split(4096)]
        model.train()
        return torch.cat(found)

    best, best_epoch, best_state = -math.inf, 0, model.state_dict()
    losses: list[float] = []
    for epoch in range(1, epochs + 1):
        total = torch.zeros((), device=device)
        for chosen in rows[torch.randperm(len(rows), device=device)].split(batch):
            with cast:
                predicted = model(inputs[chosen])
            loss = ((predicted.float() - goal[chosen]).square().mean(dim=1) * weights[chosen]).mean()
            adam.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            schedule.step()
            total += loss.detach()
        losses.append(round(float(total) / per_epoch, 5))
        if epoch % max(1, epochs // CHECKS) == 0 or epoch == epochs:
            near = nn.functional.cosine_similarity(embed(inputs[development]), targets[development])
            score = float((near * weights[development]).sum() / weights[development].sum())
            say(f"{kind}: epoch {epoch}, loss {losses[-1]:.4f}, development cosine {score:.4f}")
            if score > best:
                best, best_epoch, best_state = score, epoch, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_state)
    vectors = embed(encode(asked, codes).to(device)).cpu().numpy()
    report = {
        "words": len(rows),
        "parameters": sum(one.numel() for one in model.parameters()),
        "epochs": epochs,
        "best epoch": best_epoch,
        "development cosine": round(best, 4),
        "losses": losses,
        "seconds": round(time.perf_counter() - start, 1),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "settings": {"batch": batch, "size": size, "r0": R0, "lr": rate, "seed": seed},
    }
    return vectors, report


def write_vectors(file: Path, asked: Sequence[str], vectors: npt.NDArray[Any], **more: Any) -> None:
    """Write the words that were asked for, and what a model made of them."""
    np.savez_compressed(file, words=pack(asked), vectors=vectors.astype(np.float16), **more)


def read_vectors(file: Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Read what `write_vectors` wrote."""
    with np.load(file, allow_pickle=False) as found:
        return unpack(found["words"]), found["vectors"].astype(np.float32)


def say(line: str) -> None:
    """Write a line of progress."""
    sys.stderr.write(f"{line}\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the models of a job and write what they make of the words that are asked for."""
    parser = argparse.ArgumentParser(description="Train neural character models on the words of a job.")
    parser.add_argument("job", type=Path, help="made by `python -m experiments jobs neural`")
    parser.add_argument("folder", type=Path, help="where the vectors and results.json go")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--size", type=int, default=256, help="width of the layers")
    parser.add_argument("--limit", type=int, help="train on the first N words only")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    with np.load(options.job, allow_pickle=False) as job:
        words, asked = unpack(job["words"])[: options.limit], unpack(job["asked"])
        vectors, ranks = job["vectors"][: options.limit], job["ranks"][: options.limit]
    results = options.folder / "results.json"
    reports: dict[str, Any] = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    for kind in options.models:
        made, reports[kind] = train(
            *(kind, words, vectors, ranks, asked),
            epochs=options.epochs,
            batch=options.batch,
            size=options.size,
            device=options.device,
        )
        write_vectors(options.folder / f"{kind}.npz", asked, made)
        results.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")  # also if a later model fails


if __name__ == "__main__":
    main()
