"""Train on a GPU and on the CPU: seconds, the cosine of held-out words, and the peak memory of the GPU.

    python benchmarks/gpu.py                                    (minilm-en)
    python benchmarks/gpu.py 160000 3000000 --device cuda:1     (also so many synthetic words x 300, as in scale.py)

The best of two trainings counts, from words and vectors in memory to the model, kernels compiled.
"""

from __future__ import annotations

import argparse
import time

import torch
from measure import DATA
from scale import make_table

import pbos


def measure(vectors: pbos.WordVectors, device: str) -> str:
    """Train twice on a device; return the cells of a row."""
    seconds = []
    for _ in range(2):
        if device != "cpu":
            torch.cuda.reset_peak_memory_stats(device)
        started = time.perf_counter()
        model = pbos.train(vectors, heldout=0.05, device=device, progress=False)
        seconds.append(time.perf_counter() - started)
    peak = "" if device == "cpu" else f"{torch.cuda.max_memory_allocated(device) / 2**30:.1f} GiB"
    return f"{device} | {min(seconds):.1f} s | {model.info['training']['heldout_cosine']:.4f} | {peak}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", type=int, help="sizes of synthetic tables")
    parser.add_argument("--device", default="cuda", help="the PyTorch device")
    options = parser.parse_args()
    tables = [DATA / "vectors" / "minilm-en", *(make_table(n_words, 300) for n_words in options.words)]
    print("| table | device | training | held-out cosine | peak memory |\n|" + "---|" * 5)
    for table in tables:
        vectors = pbos.WordVectors.read(table, progress=False)
        for device in dict.fromkeys(("cpu", options.device)):
            print(f"| {table.name} | {measure(vectors, device)} |", flush=True)


if __name__ == "__main__":
    main()
