"""Train KVQ-FH on a GPU machine that has NumPy, PyTorch and safetensors but not the rest of pbos's dependencies.

Every `<name>.npz` in INPUT_DIR holds `words`, their `vectors`, and `queries`, the words whose vectors are wanted.
`<name>.npz` in OUT_DIR gets `vectors` (float16, a row a query) and `losses`, the mean loss of each epoch.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from pbos.evaluation.kvq import KVQ


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input_dir", type=Path)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--batch", type=int, default=200, help="words a step; larger is faster")
    parser.add_argument("--lr", type=float, default=1e-4, help="Adam's rate; raise it with the batch")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Train on every set of the input folder."""
    options = arguments()
    files = sorted(options.input_dir.glob("*.npz"))
    if not files:
        sys.exit(f"{options.input_dir}: no .npz file here")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        print("no GPU found; training on the CPU", file=sys.stderr)
    options.out_dir.mkdir(parents=True, exist_ok=True)
    for file in files:
        with np.load(file, allow_pickle=False) as data:
            words, vectors, queries = data["words"].tolist(), data["vectors"], data["queries"].tolist()
        start = time.perf_counter()
        model = KVQ.train(
            words,
            vectors,
            epochs=options.epochs,
            batch=options.batch,
            lr=options.lr,
            seed=options.seed,
            device=device,
            progress=False,
        )
        found = model.embed(queries).astype(np.float16)
        np.savez(options.out_dir / file.name, vectors=found, losses=np.array(model.losses))
        seconds = time.perf_counter() - start
        print(
            f"{file.stem}: {len(words)} words x {model.dims}, {len(queries)} queries, {seconds:.1f} s on {device}, "
            f"loss {model.losses[0]:.4f} -> {model.losses[-1]:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
