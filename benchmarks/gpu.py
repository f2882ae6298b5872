"""Measure `pbos.gpu`, ridge regression on a GPU, and compare its quality with the CPU's.

    python benchmarks/gpu.py prepare SYSTEM.npz                     (with pbos and its data)
    python benchmarks/gpu.py measure SYSTEM.npz RESULTS.json        (with NumPy, PyTorch and this checkout only)

`prepare` writes the equations of minilm-en (preset default, 5 % of the words held out) to a file small enough to copy
to another machine: given vectors are rounded to one byte per number, for the CPU and the GPU alike. `measure` solves
them, and larger systems made from them (see `Bench.enlarged`). Times are the best of five runs, or of two for millions
of words. "seconds" is the solver alone, from given vectors on the device to shared vectors on the device.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

DATA = Path(os.environ.get("PBOS_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
EQUATIONS = ("indptr", "indices", "data", "private", "n_shared", "order", "new_column", "factor")
CPU_DIMS = 8  # dimensions of the CPU's solution that are kept for comparison


# -- on the CPU machine ------------------------------------------------------------------------------------------------


def prepare(target: Path) -> None:
    """Solve the real system on the CPU, and write its equations and the report."""
    from pbos import WordCounts, WordVectors, cosines
    from pbos.fitting import make_system, tune
    from pbos.reading import resolved
    from pbos.settings import Preset
    from pbos.solvers import Ridge
    from pbos.subword_vectors import SubwordVectors
    from pbos.subwords import Subwords
    from pbos.text import encode
    from pbos.training import counted_words, held_out_rows, make_index, unique_words
    from pbos.tuning import Run

    given = WordVectors.read(DATA / "vectors" / "minilm-en")
    settings = {"reliability": "even", "own_share": "fitted", "confidence": False}  # one plain regression
    recipe = resolved(Preset.named("default", settings), given.words)
    words, rows = unique_words(given, recipe)
    rounded = SubwordVectors(given.vectors[rows]).astype("int8")
    vectors = rounded.to_float32()
    hidden = held_out_rows(len(words), 0.05, 0)
    kept = np.setdiff1d(np.arange(len(words)), hidden)
    training_words = [words[i] for i in kept]
    codes, run = encode(training_words, recipe), Run(recipe)
    counts = WordCounts.from_ranks(training_words)
    index = make_index(counted_words(counts, training_words, recipe), codes, run)
    system = make_system(index, training_words, codes, vectors[kept], counts.counts, run)
    started = time.perf_counter()
    choice, _ = tune(system, run)
    tune_seconds, started = time.perf_counter() - started, time.perf_counter()
    ridge = Ridge(system.weights, system.penalty)
    prepare_seconds, started = time.perf_counter() - started, time.perf_counter()
    solution = ridge.solve(system.targets, choice.lam)
    seconds = time.perf_counter() - started
    heldout = Subwords(system.index, recipe).weights([words[i] for i in hidden])
    composed = product(heldout.indptr, heldout.indices, heldout.data, solution.vectors)
    cpu = {
        "lam": choice.lam,
        "tried": choice.scores,
        "report": solution.report,
        "heldout_cosine": float(cosines(composed, vectors[hidden]).mean()),
        "tune_seconds": tune_seconds,
        "prepare_seconds": prepare_seconds,
        "seconds": seconds,
        "threads": os.cpu_count(),
    }
    equations = *ridge._rows, ridge._private, ridge._n_shared, ridge._order, ridge._new_column, ridge._factor
    np.savez_compressed(
        target,
        **{f"equations.{name}": np.asarray(value) for name, value in zip(EQUATIONS, equations, strict=True)},
        **{"targets.values": rounded.values[kept], "targets.scales": rounded.scales[kept]},
        **{"heldout.values": rounded.values[hidden], "heldout.scales": rounded.scales[hidden]},
        **{"heldout.indptr": heldout.indptr, "heldout.indices": heldout.indices, "heldout.data": heldout.data},
        **{"cpu.vectors": solution.vectors[:, :CPU_DIMS], "cpu.report": json.dumps(cpu)},
    )
    print(json.dumps(cpu, indent=1), f"\n{target}: {target.stat().st_size / 2**20:.1f} MiB")


# -- on the GPU machine ------------------------------------------------------------------------------------------------


class Bench:
    """The measurements; each returns a dictionary for JSON."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        from pbos import gpu

        self.torch, self.gpu, self.options = torch, gpu, options
        self.device = torch.device(options.device)
        with np.load(options.system) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.equations = {name: self.arrays[f"equations.{name}"] for name in EQUATIONS}
        self.equations["n_shared"] = int(self.equations["n_shared"])
        self.cpu = json.loads(str(self.arrays["cpu.report"]))
        self.targets, self.heldout = (
            (self.arrays[f"{name}.values"].astype(np.float32) * self.arrays[f"{name}.scales"][:, None])
            for name in ("targets", "heldout")
        )
        self.dims = min(options.dims, self.targets.shape[1])

    # -- timing and memory

    def now(self) -> float:
        """Wait for the device to finish, then return the time."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def best(self, function, times: int = 5):
        """Run a function several times; return the best time and the last result."""
        least, result = np.inf, None
        for _ in range(times):
            del result
            started = self.now()
            result = function()
            least = min(least, self.now() - started)
        return least, result

    def reset_peak(self) -> None:
        """Reset the peak memory statistics."""
        if self.device.type == "cuda":
            self.torch.cuda.empty_cache()
            self.torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> dict[str, float]:
        """Return the peak memory of tensors, and the peak that PyTorch reserved."""
        if self.device.type != "cuda":
            return {}
        cuda = self.torch.cuda
        return {
            "peak_gib": round(cuda.max_memory_allocated(self.device) / 2**30, 3),
            "peak_reserved_gib": round(cuda.max_memory_reserved(self.device) / 2**30, 3),
        }

    # -- measurements

    def machine(self) -> dict:
        """Return the hardware and the versions."""
        cuda = self.device.type == "cuda"
        return {
            "torch": self.torch.__version__,
            "numpy": np.__version__,
            "device": self.torch.cuda.get_device_name(self.device) if cuda else "CPU",
            "gib": self.torch.cuda.get_device_properties(self.device).total_memory / 2**30 if cuda else None,
            "cores": os.cpu_count(),
            "missing": self.gpu.what_is_missing(self.options.device),
            "system": Path(self.options.system).name,
        }

    def moved(self, equations: dict):
        """Return the equations on the device."""
        rows = tuple(equations[name] for name in ("indptr", "indices", "data"))
        return self.gpu.DeviceRidge(rows, equations["private"], equations["n_shared"], self.device)

    def solve(self, equations: dict, targets: np.ndarray, lam: float, times: int) -> tuple[dict, np.ndarray]:
        """Time a solve, as a whole and without copies; return the times and the vectors of all columns."""
        self.reset_peak()
        seconds_to_device, ridge = self.best(lambda: self.moved(equations), 1)
        targets = targets[equations["order"]]
        ridge.solve(targets[:, :8], lam, 2, 0.02)  # the first call loads libraries
        self.reset_peak()
        slices = ridge.slices(targets.shape[1])
        private, vectors, seconds, copies, iterations, left, goal = equations["private"], [], 0.0, 0.0, 0, 0.0, 0.0
        for some in slices:
            given = np.ascontiguousarray(targets[:, some])
            whole, (shared, words, *found) = self.best(lambda given=given: ridge.solve(given, lam, 100, 0.02), times)
            there, on_device = self.best(lambda given=given: self.gpu.copied_to(self.device, given), times)
            back, _ = self.best(lambda on_device=on_device: self.gpu.copied_back(on_device), times)
            copies += there + back * (len(shared) + len(words)) / len(words)
            seconds += whole
            iterations, left, goal = max(iterations, found[0]), left + found[1][0], goal + found[2][0]
            rates = np.where(private > 0, private / (lam + private**2), 0)[:, None]
            solved = np.concatenate([shared, ((given - words) * rates)[private > 0]])
            vectors.append(solved[equations["new_column"]] * equations["factor"][:, None])
        peak = self.peak()
        result = {
            "words": len(equations["private"]),
            "weights": len(equations["indices"]),
            "shared_columns": equations["n_shared"],
            "columns": len(equations["new_column"]),
            "dims": targets.shape[1],
            "lam": lam,
            "iterations": iterations,
            "residual": round(float(np.sqrt(left / goal)), 5),
            "slices": [some.stop - some.start for some in slices],
            "seconds": seconds - copies,
            "seconds_per_iteration": (seconds - copies) / max(iterations, 1),
            "seconds_equations_to_device": seconds_to_device,
            "seconds_copies": copies,
            "seconds_whole_solve": seconds,
            **peak,
        }
        return result, np.concatenate(vectors, axis=1)

    def real(self) -> dict:
        """Measure the real system: times, and quality compared with the CPU."""
        targets = self.targets[:, : self.dims]
        lam = self.cpu["lam"]
        result, vectors = self.solve(self.equations, targets, lam, self.options.times)
        indptr, indices, data = (self.arrays[f"heldout.{name}"] for name in ("indptr", "indices", "data"))
        composed = product(indptr, indices, data, vectors)
        theirs, ours = self.arrays["cpu.vectors"][:, : self.dims], vectors[:, :CPU_DIMS]
        result["heldout_words"] = len(self.heldout)
        result["heldout_cosine"] = cosine(composed, self.heldout[:, : self.dims])
        if self.dims == self.targets.shape[1]:
            result["points_lost"] = 100 * (self.cpu["heldout_cosine"] - result["heldout_cosine"])
        result["distance_from_cpu"] = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
        result["cpu"] = self.cpu
        result["residual_float64"] = self.residual(self.equations, targets, vectors, lam)
        search = targets @ np.linalg.qr(np.random.default_rng(0).standard_normal((self.dims, min(32, self.dims))))[0]
        search = search.astype(np.float32)[self.equations["order"]]
        ridge, tries = self.moved(self.equations), (0.03, 0.01, 0.003, 0.001, 0.0003)
        seconds, _ = self.best(lambda: [ridge.solve(search, lam, 100, 0.02) for lam in tries], 2)
        result["seconds_five_lams_32_dims"] = seconds
        return result

    def residual(self, equations: dict, targets: np.ndarray, vectors: np.ndarray, lam: float) -> float:
        """Return the relative residual of two dimensions, computed in float64 without sparse products."""
        torch = self.torch

        def move(array):
            return torch.tensor(np.asarray(array), device=self.device)

        some = [0, targets.shape[1] - 1]
        private = move(equations["private"]).double()
        shares = lam / (lam + private**2)
        given = move(targets[:, some]).double()[move(equations["order"]).long()]
        n_shared = equations["n_shared"]
        asked, factor = move(equations["new_column"]).long(), move(equations["factor"])
        shared = asked < n_shared
        solved = given.new_zeros(n_shared, 2)
        solved[asked[shared]] = move(vectors[:, some]).double()[shared] / factor[shared, None]
        columns, data = move(equations["indices"]).long(), move(equations["data"]).double()
        sizes = move(np.diff(equations["indptr"]))
        words = torch.repeat_interleave(torch.arange(len(private), device=self.device), sizes)
        composed = torch.zeros_like(given).index_add_(0, words, solved[columns] * data[:, None])

        def transposed_product(values):
            weighted = (values * shares[:, None])[words] * data[:, None]
            return torch.zeros_like(solved).index_add_(0, columns, weighted)

        left = transposed_product(given - composed) - lam * solved
        return float(left.norm() / transposed_product(given).norm())

    def synthetic(self, n_words: int, many_columns: bool = False) -> dict:
        """Measure a larger system made from the real one."""
        started = self.now()
        equations, targets = self.enlarged(n_words, many_columns)
        making = self.now() - started
        result, vectors = self.solve(
            equations, targets, self.cpu["lam"], min(self.options.times, 2 if n_words > 1_000_000 else 5)
        )
        result["residual_float64"] = self.residual(equations, targets, vectors, self.cpu["lam"])
        sizes = np.sort(np.bincount(equations["indices"], minlength=equations["n_shared"]))[::-1]
        result["column_sizes_by_rank"] = {10**k: int(sizes[10**k - 1]) for k in range(7) if 10**k <= len(sizes)}
        result["seconds_making"] = making
        return result

    def enlarged(self, n_words: int, many_columns: bool) -> tuple[dict, np.ndarray]:
        """Make a system with more words from copies of the real one.

        Each copy has a random subset of the words; for millions of words, longer words, which have more weights, are
        more likely. A column that many words share is the same in all copies; the rarer it is, the more versions of it
        there are. This way the number of columns grows with the number of words as in real data: from 12,500 to 100,000
        words of minilm-en, the shared columns grow from 23,393 to 141,157, by a factor of 1.84, 1.83 and 1.80 for each
        doubling. Extrapolated, this gives about 210,000 columns for 160,000 words and 2,000,000 for 3,000,000.
        Given vectors are the real ones with noise.
        """
        torch, base = self.torch, self.equations
        generator = torch.Generator(self.device).manual_seed(0)

        def move(array):
            return torch.tensor(np.asarray(array), device=self.device)

        indptr, indices, data = move(base["indptr"]), move(base["indices"]).long(), move(base["data"])
        sizes, n_base = indptr.diff(), len(base["private"])
        copies = max(-(-n_words * 10 // (n_base * 6)), 1)  # a copy has at most 60 % of the words
        likely = sizes.double() ** 2 if n_words > 1_000_000 else torch.ones_like(sizes, dtype=torch.double)
        share = 1.02 * n_words / copies  # slightly more, because the choice is random
        for _ in range(20):  # clip at 1 and redistribute the rest
            likely = (likely * (share / likely.sum())).clamp_(max=1)
        recipe = [
            torch.nonzero(torch.rand(n_base, device=self.device, generator=generator) < likely)[:, 0]
            for _ in range(copies)
        ]
        copy_of_word = torch.repeat_interleave(
            torch.arange(copies, device=self.device), torch.tensor([len(one) for one in recipe], device=self.device)
        )[:n_words]
        words = torch.cat(recipe)[:n_words]
        del recipe

        n_shared = base["n_shared"]
        ranks = torch.empty(n_shared, device=self.device, dtype=torch.double)
        by_size = torch.argsort(torch.bincount(indices, minlength=n_shared), descending=True)
        ranks[by_size] = torch.arange(1, n_shared + 1, device=self.device, dtype=torch.double)
        power = 1.0 if many_columns else self.options.power
        versions = copies ** (power * (ranks.log() / np.log(n_shared)).clamp_(max=1))
        if many_columns:
            versions[ranks > 2000] = copies
        firsts = torch.cat([versions.new_zeros(1), versions.ceil().cumsum(0)]).long()

        new_sizes = sizes[words]
        new_indptr = torch.cat([new_sizes.new_zeros(1), new_sizes.cumsum(0)])
        total = int(new_indptr[-1])
        entries = torch.arange(total, device=self.device)
        entries += torch.repeat_interleave(indptr[:-1][words] - new_indptr[:-1], new_sizes, output_size=total)
        columns, values = indices[entries], data[entries]
        copy_of = torch.repeat_interleave(copy_of_word, new_sizes, output_size=total)
        mixed = (columns * 2654435761 + copy_of * 40503 * 65537) % 1000003  # a column's version in this copy
        columns = firsts[columns] + (mixed.double() / 1000003 * versions[columns]).long()
        del mixed, copy_of, entries

        n_owners = torch.bincount(columns, minlength=int(firsts[-1]))
        shared = n_owners > 1
        keep = shared[columns]  # a column of one word would be private, and that word already has a private column
        rows = torch.repeat_interleave(torch.arange(n_words, device=self.device), new_sizes, output_size=total)[keep]
        columns = (shared.cumsum(0) - 1)[columns[keep]]
        values = values[keep]
        new_indptr = torch.cat([rows.new_zeros(1), torch.bincount(rows, minlength=n_words).cumsum(0)])
        private = base["private"][words.cpu().numpy()]
        n_shared = int(shared.sum())
        equations = {
            "indptr": new_indptr.cpu().numpy(),
            "indices": columns.int().cpu().numpy(),
            "data": values.cpu().numpy(),
            "n_shared": n_shared,
            "private": private,
            "order": np.arange(n_words),
            "new_column": np.arange(n_shared + np.count_nonzero(private), dtype=np.int32),
            "factor": np.ones(n_shared + np.count_nonzero(private), np.float32),
        }
        del columns, values, rows, keep, n_owners, shared
        real = move(self.targets[:, : self.dims])[move(base["order"]).long()]
        noise = 0.5 * float(real.std())
        targets = np.empty((n_words, self.dims), np.float32)
        for first in range(0, n_words, 1 << 16):
            block = real[words[first : first + (1 << 16)]]
            block += noise * torch.randn(block.shape, device=self.device, generator=generator)
            targets[first : first + (1 << 16)] = block.cpu().numpy()
        return equations, targets


def product(indptr, indices, data, vectors) -> np.ndarray:
    """Multiply a CSR matrix by a dense one, in float64."""
    words = np.zeros((len(indptr) - 1, vectors.shape[1]))
    for row in range(len(words)):
        part = slice(indptr[row], indptr[row + 1])
        words[row] = data[part].astype(np.float64) @ vectors[indices[part]].astype(np.float64)
    return words


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    """Return the mean cosine of corresponding rows; 0 for rows of zeros."""
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    products = np.einsum("ij,ij->i", left, right)
    return float(np.divide(products, norms, out=np.zeros_like(products), where=norms > 0).mean())


def measure(options: argparse.Namespace) -> None:
    """Run the measurements and write the results after each."""
    bench = Bench(options)
    few, many = options.words
    parts = {
        "machine": bench.machine,
        "real": bench.real,
        f"{few} words": lambda: bench.synthetic(few),
        f"{many} words": lambda: bench.synthetic(many),
        f"{many} words, many columns": lambda: bench.synthetic(many, True),
    }
    results = {}
    for name, part in parts.items():
        if options.only and not any(one in name for one in options.only):
            continue
        started = time.perf_counter()
        try:
            results[name] = part()
        except Exception as error:  # keep the earlier results
            results[name] = {"error": f"{type(error).__name__}: {error}"}
        print(f"== {name} ({time.perf_counter() - started:.1f} s)\n{json.dumps(results[name], indent=1)}", flush=True)
        options.results.write_text(json.dumps(results, indent=1), encoding="utf-8")
        bench.reset_peak()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("prepare", help="write the equations, on a machine with the data")
    first.add_argument("system", type=Path)
    second = commands.add_parser("measure", help="solve them, on a machine with a GPU")
    second.add_argument("system", type=Path)
    second.add_argument("results", type=Path)
    second.add_argument("--device", default="cuda", help="the PyTorch device")
    second.add_argument("--dims", type=int, default=300, help="use only the first dimensions")
    second.add_argument("--words", type=int, nargs=2, default=(160_000, 3_000_000), help="sizes of the larger systems")
    second.add_argument("--times", type=int, default=5, help="number of timed runs")
    second.add_argument("--power", type=float, default=0.75, help="growth rate of the columns, 0 to 1")
    second.add_argument("--only", nargs="*", help="run only the measurements whose name contains one of these")
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.system)
    else:
        measure(options)


if __name__ == "__main__":
    main()
