"""Train on real vectors at full size and score the paper's similarity benchmarks (`make quality`)."""

from __future__ import annotations

import time

import similarity
from measure import DATA

import pbos


def main() -> None:
    print("| model | " + " | ".join(similarity.BENCHMARKS) + " | training |\n|" + "---|" * 6)
    for preset in ("default", "pbos", "bos", "pbos-n"):
        counts = None if preset == "default" else DATA / "unigram_freq.csv"
        started = time.perf_counter()
        model = pbos.train(DATA / "vectors" / "minilm-en", counts, preset=preset, progress=False)
        show(preset, similarity.scores(model, DATA), f"{time.perf_counter() - started:.0f} s")
    show("included", similarity.scores(pbos.load(), DATA), "")


def show(name: str, scores: dict[str, float], seconds: str) -> None:
    print(f"| {name} | " + " | ".join(f"{score:.1f}" for score in scores.values()) + f" | {seconds} |", flush=True)


if __name__ == "__main__":
    main()
