"""Distill word vectors from a sentence transformer, and get vectors for words outside the table.

    python examples/distill_transformer.py MODEL words.txt -o table.npz --dims 256
    python examples/distill_transformer.py --table table.npz

MODEL is a folder with a sentence transformer, or a name that sentence-transformers knows; words.txt has one word per
line, most frequent first. Every word is encoded by itself. Then some words are held out, pbos is trained on
the others, and the held-out words are compared with their own vectors. With --table, an existing table is used.

Needs: pip install pbos sentence-transformers
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pbos
from pbos import cosines
from pbos.words.arrays import principal_components


def distill(model: str, words: list[str], dims: int | None, device: str | None, batch_size: int) -> pbos.WordVectors:
    """Encode words one by one, subtract their mean, and project them onto their first principal components."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, device=device)
    vectors = encoder.encode(words, batch_size=batch_size, convert_to_numpy=True, show_progress_bar=None)
    vectors = vectors.astype(np.float32)
    vectors -= vectors.mean(axis=0)
    if dims is not None:
        vectors = vectors @ principal_components(vectors, dims)
    return pbos.WordVectors(words, vectors)


def show(table: pbos.WordVectors, heldout: int, n_shown: int, seed: int) -> None:
    """Hold out words, train on the others, and print the cosines of held-out words with their own vectors."""
    heldout = min(heldout, len(table) // 10)
    rows = np.random.default_rng(seed).permutation(len(table))
    left, out = np.sort(rows[heldout:]), np.sort(rows[:heldout])
    model = pbos.train(([table.words[row] for row in left], table.vectors[left]))
    unseen = [table.words[row] for row in out]
    near = cosines(model.embed(unseen), table.vectors[out])
    print(f"trained on {len(left):,} words, {heldout:,} held out")
    print(f"mean cosine of a held-out word's vector with its own: {near.mean():.3f}")
    others = np.random.default_rng(seed).permutation(out)
    print(f"... with that of another held-out word: {cosines(model.embed(unseen), table.vectors[others]).mean():.3f}")
    for row in np.linspace(0, heldout - 1, min(n_shown, heldout)).astype(int):
        if model.coverage(unseen[row]):
            found = ", ".join(word for word, _ in model.neighbors(unseen[row], n=4))
            print(f"  {unseen[row]} ({near[row]:.2f}): {found}")


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a sentence transformer")
    parser.add_argument("words", nargs="?", type=Path, help="words, one per line")
    parser.add_argument("-o", "--output", type=Path, help="write the table here: .npz, .vec, .bin or a folder")
    parser.add_argument("--table", help="use this table instead of distilling one")
    parser.add_argument("--dims", type=int, help="project onto this many principal components")
    parser.add_argument("--device", help="PyTorch device for encoding")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--heldout", type=int, default=5000, help="words to hold out (at most a tenth)")
    parser.add_argument("--show", type=int, default=8, help="held-out words to show with their neighbors")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.table:
        table = pbos.WordVectors.read(given.table)
    elif given.model and given.words:
        words = list(dict.fromkeys(given.words.read_text(encoding="utf-8").split("\n")))
        table = distill(given.model, [word for word in words if word], given.dims, given.device, given.batch_size)
        print(f"distilled {len(table):,} words x {table.dims}")
        if given.output:
            table.write(given.output)
    else:
        parser.error("give a model and a file of words, or a table with --table")
    show(table, given.heldout, given.show, given.seed)


if __name__ == "__main__":
    main()
