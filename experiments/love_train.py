"""Trains LOVE (Chen et al. 2022) with its own model, loader, augmentation and settings, where there is a GPU.

    python -m experiments.love_train LOVE job.npz FOLDER    # LOVE: a checkout of tigerchen52/LOVE

The job is that of `python -m experiments jobs love`. What differs from LOVE's `train.py` changes no result: several
processes run its loader, each batch is padded to one length, and a CUDA graph holds a step, which a launch of its 250
small kernels one by one would make ten times slower. A run that is over its time saves its state and goes on from it.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from experiments.neural import say, unpack, write_vectors

SETTINGS: dict[str, Any] = {  # the defaults of LOVE's train.py; the dimensions are those of the vectors
    "batch_size": 32,
    "epochs": 20,
    "shuffle": True,
    "lowercase": True,
    "model_type": "pam",
    "encoder_layer": 1,
    "merge": True,
    "att_head_num": 1,
    "loader_type": "hard",
    "input_type": "mixed",
    "learning_rate": 2e-3,
    "drop_rate": 0.1,
    "gamma": 0.97,
    "vocab_path": "data/vocab.txt",
    "hard_neg_numbers": 3,
    "hard_neg_path": "data/hard_neg_samples.txt",
}
TEMPERATURE = 0.07
LONGEST = 72  # places for the letters and word pieces of a word
SLICE = 500  # batches that a process makes at a time
MOMENTS = ("exp_avg", "exp_avg_sq")  # what Adam keeps
PROCESSORS = ("loader processor seconds", "main process processor seconds")
TIMED = 2_000  # words whose processor time is taken
UNKNOWN = "<unk>"  # LOVE adds it to the words, with zeros


class Love:
    """What is taken from LOVE: `loader` makes batches of codes, `model` makes vectors from them."""

    def __init__(self, checkout: Path, words: Sequence[str], dims: int) -> None:
        os.chdir(checkout)  # its paths are relative
        sys.path.insert(0, str(checkout))
        names = ("attacks", "loader", "model", "tokenization", "utils")
        modules: list[Any] = [importlib.import_module(name) for name in names]
        attacks, loader, model, tokenization, utils = modules
        augmenters = attacks.nac  # made anew for each word by LOVE, but they have no state
        attacks.nac = SimpleNamespace(
            **{name: cache(getattr(augmenters, name)) for name in ("KeyboardAug", "RandomCharAug")}
        )
        self.tokenizer = tokenization.FullTokenizer(vocab_file=SETTINGS["vocab_path"], do_lower_case=True)
        self.settings = SimpleNamespace(**SETTINGS, emb_dim=dims, vocab_size=len(self.tokenizer.vocab))
        self.words = [*words, UNKNOWN]
        self.loader = loader.registry[self.settings.loader_type](self.settings, self.tokenizer)
        self.loader.emb = {word: [row] for row, word in enumerate(self.words)}  # rows in place of vectors
        self.repre_word = utils.repre_word
        self.module = model

    def new_model(self) -> Any:
        """Return an untrained model; its encoding of places is computed once, not for each batch."""
        self.places = self.module.PositionalEncoding(self.settings.emb_dim, LONGEST).cuda()
        self.module.PositionalEncoding = lambda dims, longest: self.places
        return self.module.registry[self.settings.model_type](self.settings)

    def slice(self, task: tuple[int, int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16], float]:
        """Make some batches of an epoch: the rows of the target vectors, the codes; and the processor time."""
        torch.set_num_threads(1)
        start = time.process_time()
        epoch, first = task
        order = np.random.default_rng(epoch).permutation(len(self.words))
        random.seed(f"{epoch} {first}")
        np.random.seed([epoch, first])  # noqa: NPY002 - LOVE draws from it
        each = SETTINGS["batch_size"] // (2 * (SETTINGS["hard_neg_numbers"] + 1))
        batches = range(first, min(first + SLICE, len(order) // each))
        rows = np.zeros((len(batches), SETTINGS["batch_size"] // 2), np.int32)
        codes = np.zeros((*rows.shape, LONGEST), np.int16)
        for at, batch in enumerate(batches):
            chosen = [self.words[row] for row in order[batch * each : (batch + 1) * each]]
            _, found, ids, _ = self.loader.collate_fn([(word, None) for word in chosen])
            rows[at] = found[:, 0].numpy()
            codes[at, :, : ids.shape[1]] = ids.numpy()
        return rows, codes, time.process_time() - start

    def encode(self, words: Sequence[str]) -> torch.Tensor:
        """Return the codes of words as they are, (n_words, longest)."""
        ids = [self.repre_word(word, self.tokenizer, rtype=SETTINGS["input_type"])[1] for word in words]
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(one) for one in ids], batch_first=True)

    def embed(self, model: Any, words: Sequence[str], device: str, batch: int = 32) -> npt.NDArray[np.float32]:
        """Return the vectors of words, by batches as LOVE does."""
        model.eval()
        out = []
        with torch.no_grad():
            for first in range(0, len(words), batch):
                codes = self.encode(words[first : first + batch]).to(device)
                out.append(model(codes, (codes != 0).unsqueeze(2)).cpu().numpy())
        return np.concatenate(out)

    def microseconds(self, model: Any, words: Sequence[str]) -> float:
        """Return the processor time for a word, with one thread of a CPU."""
        torch.Tensor.cuda = stay
        torch.set_num_threads(1)
        self.places.cpu()
        self.embed(model.cpu(), words[:100], "cpu")
        start = time.process_time()
        self.embed(model, words, "cpu")
        return round((time.process_time() - start) / len(words) * 1e6, 1)


def stay(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """Stand in for `cuda`, which LOVE calls, where there is none."""
    return tensor


def contrast(target: torch.Tensor, produced: torch.Tensor) -> torch.Tensor:
    """Return NT-Xent, LOVE's loss: each target vector and the one produced for it are to find each other among all."""
    both = torch.nn.functional.normalize(torch.cat([target, produced]))
    near = both @ both.T / TEMPERATURE
    near = near.masked_fill(torch.eye(len(both), dtype=torch.bool, device=both.device), -torch.inf)
    return torch.nn.functional.cross_entropy(near, torch.arange(len(both), device=both.device).roll(len(target)))


class Trainer:
    """Takes the steps of an epoch; on a GPU, a graph of one step is replayed."""

    def __init__(self, model: Any, table: npt.NDArray[np.float32], n_batches: int, device: str, graphs: bool) -> None:
        self.model, self.device = model.to(device), device
        self.graphs, self.graph = graphs, None
        self.table = torch.from_numpy(table).to(device)
        gpu = device == "cuda"
        self.rate = torch.tensor(SETTINGS["learning_rate"], device=device)
        self.adam = torch.optim.Adam(model.parameters(), lr=self.rate, capturable=gpu, fused=True)
        size = SETTINGS["batch_size"] // 2
        self.rows = torch.zeros(n_batches, size, dtype=torch.int32, device=device)
        self.codes = torch.zeros(n_batches, size, LONGEST, dtype=torch.int16, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.total = torch.zeros((), device=device)

    def step(self) -> None:
        """Learn from the next batch."""
        rows, codes = (part.index_select(0, self.at)[0].long() for part in (self.rows, self.codes))
        if self.device != "cuda":
            codes = codes[:, : int((codes != 0).sum(dim=1).max())]
        loss = contrast(self.table[rows], self.model(codes, (codes != 0).unsqueeze(2)))
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        self.adam.step()
        self.total += loss.detach()
        self.at += 1

    def capture(self) -> None:
        """Record a step, after a few that PyTorch needs before: these batches are seen twice."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.adam.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        self.graph = graph

    def epoch(self, number: int, batches: Iterator[tuple[Any, Any, float]]) -> tuple[float, float]:
        """Go over the words once; return the mean loss, and the processor time of the batches."""
        self.model.train()
        self.rate.fill_(SETTINGS["learning_rate"] * SETTINGS["gamma"] ** number)
        first, spent = 0, 0.0
        for rows, codes, seconds in batches:
            self.rows[first : first + len(rows)] = torch.from_numpy(rows).to(self.device)
            self.codes[first : first + len(rows)] = torch.from_numpy(codes).to(self.device)
            first, spent = first + len(rows), spent + seconds
        if self.graphs and self.graph is None:
            self.capture()
        self.at.zero_()
        self.total.zero_()
        for _ in range(first):
            self.graph.replay() if self.graph else self.step()
        return float(self.total) / first, spent

    def save(self, folder: Path, whole: bool) -> None:
        """Write the model; to go on with it, also what Adam knows: files of less than 10 MB for 100 dimensions."""
        torch.save(self.model.state_dict(), folder / "love.pt")
        for name in MOMENTS if whole else ():
            moments = {at: one[name] for at, one in self.adam.state_dict()["state"].items()}
            torch.save(moments, folder / f"love-{name}.pt")

    def resume(self, folder: Path, steps: int, more: bool) -> None:
        """Read what `save` wrote after a number of steps; `more` steps need what Adam knows."""
        self.model.load_state_dict(torch.load(folder / "love.pt", map_location=self.device))
        if more:
            first, second = (torch.load(folder / f"love-{name}.pt", map_location=self.device) for name in MOMENTS)
            step = torch.tensor(float(steps), device=self.device)
            moments = {at: {"step": step.clone(), MOMENTS[0]: first[at], MOMENTS[1]: second[at]} for at in first}
            self.adam.load_state_dict(self.adam.state_dict() | {"state": moments})
            self.rate = self.adam.param_groups[0]["lr"]


MADE: list[Love] = []  # what the processes that make batches take from the one that starts them


def make_slice(task: tuple[int, int]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int16], float]:
    """Make some batches, in another process."""
    return MADE[0].slice(task)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train on a job; write the vectors of its words, the model, and a report."""
    parser = argparse.ArgumentParser(description="Train LOVE on a job.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("job", type=Path)
    parser.add_argument("folder", type=Path, help="where love.npz, love.pt and love.json go")
    parser.add_argument("--resume", type=Path, help="the folder of a run that is to go on")
    parser.add_argument("--epochs", type=int, default=SETTINGS["epochs"])
    parser.add_argument("--limit", type=int, help="train on the first N words only")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after the epoch before this")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-graph", action="store_true", help="launch each kernel of a step")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    options = parser.parse_args(arguments)
    start, before = time.perf_counter(), 0
    torch.manual_seed(0)
    folder, resumed = options.folder.resolve(), options.resume and options.resume.resolve()
    with np.load(options.job, allow_pickle=False) as job:
        words, asked = unpack(job["words"])[: options.limit], unpack(job["asked"])
        vectors = job["vectors"][: options.limit].astype(np.float32)
    if options.device == "cpu":
        torch.Tensor.cuda = stay
    love = Love(options.checkout.resolve(), words, vectors.shape[1])
    MADE.append(love)
    table = np.vstack([vectors, np.zeros_like(vectors[:1])])
    n_batches = len(table) // (SETTINGS["batch_size"] // (2 * (SETTINGS["hard_neg_numbers"] + 1)))
    report: dict[str, Any] = {"losses": [], "seconds": 0.0} | dict.fromkeys(PROCESSORS, 0.0)
    if resumed:
        report = json.loads((resumed / "love.json").read_text(encoding="utf-8"))
    before, done = report["seconds"], len(report["losses"])
    firsts = range(0, n_batches, SLICE)
    with multiprocessing.get_context("fork").Pool(options.workers) as pool:  # before the GPU is touched
        made = pool.imap(make_slice, [(epoch, first) for epoch in range(done, options.epochs) for first in firsts])
        graphs = options.device == "cuda" and not options.no_graph
        trainer = Trainer(love.new_model(), table, n_batches, options.device, graphs)
        if resumed:
            trainer.resume(resumed, done * n_batches, done < options.epochs)
        for epoch in range(done, options.epochs):
            began = time.perf_counter()
            loss, spent = trainer.epoch(epoch, itertools.islice(made, len(firsts)))
            report["losses"].append(loss)
            report["loader processor seconds"] += spent
            now = time.perf_counter()
            say(f"LOVE: epoch {epoch + 1}, loss {loss:.4f}, {now - began:.1f} s, {now - start:.0f} s in all")
            if now - start + 1.2 * (now - began) > options.seconds:
                break
        pool.terminate()
    if done < options.epochs:  # otherwise only the time for a word is taken anew
        report["seconds"] = round(before + time.perf_counter() - start, 1)
        report["main process processor seconds"] += round(time.process_time(), 1)
        report["device"] = torch.cuda.get_device_name() if options.device == "cuda" else options.device
    report["words"], report["settings"] = len(words), SETTINGS
    report["parameters"] = sum(one.numel() for one in trainer.model.parameters())
    folder.mkdir(parents=True, exist_ok=True)
    trainer.save(folder, whole=len(report["losses"]) < options.epochs)
    write_vectors(folder / "love.npz", asked, love.embed(trainer.model, asked, options.device))
    report["microseconds per word"] = love.microseconds(trainer.model, asked[:TIMED])
    (folder / "love.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
