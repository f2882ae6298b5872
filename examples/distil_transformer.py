"""Distil word vectors from a sentence transformer, and give words outside the table vectors too.

    python examples/distil_transformer.py MODEL words.txt -o table.npz --dims 256
    python examples/distil_transformer.py --table table.npz

MODEL is a folder with a sentence transformer, or a name that sentence-transformers knows; words.txt has a word a line,
most frequent first. Every word is encoded by itself, which is how static tables are distilled. The second half hides
words of the table, trains pbos on the others, and shows how near the hidden words come. With --table it runs on a table
that is there already.

Needs: pip install pbos sentence-transformers
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import pbos
from pbos.model import cosines, principal_directions


def distil(model: str, words: list[str], dims: int | None, device: str | None, batch_size: int) -> pbos.WordVectors:
    """Encode words one by one; project onto the directions along which they differ most."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceTransformer(model, device=device)
    vectors = encoder.encode(words, batch_size=batch_size, convert_to_numpy=True, show_progress_bar=None)
    vectors = vectors.astype(np.float32)
    vectors -= vectors.mean(axis=0)  # what all words share says nothing about any
    if dims is not None:
        vectors = vectors @ principal_directions(vectors, dims)
    return pbos.WordVectors(words, vectors)


def show(table: pbos.WordVectors, hidden: int, n_shown: int, seed: int) -> None:
    """Hide words, train on the others, and print how near the hidden words come to their own vectors."""
    hidden = min(hidden, len(table) // 10)
    rows = np.random.default_rng(seed).permutation(len(table))
    left, out = np.sort(rows[hidden:]), np.sort(rows[:hidden])
    model = pbos.train(([table.words[row] for row in left], table.vectors[left]))
    unseen = [table.words[row] for row in out]
    near = cosines(model.embed(unseen), table.vectors[out])
    print(f"trained on {len(left):,} words, {hidden:,} hidden")
    print(f"mean cosine of a hidden word's vector with its own: {near.mean():.3f}")
    strangers = np.random.default_rng(seed).permutation(out)
    print(f"... with that of another hidden word: {cosines(model.embed(unseen), table.vectors[strangers]).mean():.3f}")
    for at in np.linspace(0, hidden - 1, min(n_shown, hidden)).astype(int):
        if model.coverage(unseen[at]):
            found = ", ".join(word for word, _ in model.neighbors(unseen[at], n=4))
            print(f"  {unseen[at]} ({near[at]:.2f}): {found}")


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a sentence transformer")
    parser.add_argument("words", nargs="?", type=Path, help="words, one a line")
    parser.add_argument("-o", "--output", type=Path, help="where to write the table: .npz, .vec, .bin or a folder")
    parser.add_argument("--table", help="use this table instead of distilling one")
    parser.add_argument("--dims", type=int, help="project onto so many dimensions")
    parser.add_argument("--device", help="where to encode, as PyTorch names it")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=5000, help="how many words to hide (a tenth at most)")
    parser.add_argument("--show", type=int, default=8, help="of how many of them to show the neighbors")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.table:
        table = pbos.WordVectors.read(given.table)
    elif given.model and given.words:
        words = list(dict.fromkeys(given.words.read_text(encoding="utf-8").split("\n")))
        table = distil(given.model, [word for word in words if word], given.dims, given.device, given.batch_size)
        print(f"distilled {len(table):,} words x {table.dims}")
        if given.output:
            table.write(given.output)
    else:
        parser.error("give a model and a file of words, or a table with --table")
    show(table, given.hidden, given.show, given.seed)


if __name__ == "__main__":
    main()
