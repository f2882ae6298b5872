"""Add words to a language model's vocabulary, with embeddings that pbos predicts from their spelling.

    python examples/new_tokens.py MODEL covfefe unfriendliest -o NEW_MODEL
    python examples/new_tokens.py --measure table.npz

MODEL is a folder with a transformers model and its tokenizer, or a name that transformers knows. pbos is trained on the
model's embeddings of whole words. The input embeddings of the new tokens are set, and the output embeddings if it
does not share them with the input.

The second form holds out words of a table and compares pbos with the usual method: the mean of the embeddings of the
word's pieces.

Needs: pip install "pbos[torch]" transformers
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import pbos
from pbos import cosines
from pbos.adapters.torch import init_embeddings, is_word, style_of


def add_tokens(path: str, words: list[str], output: str | None) -> None:
    """Add words to a model's vocabulary, set their embeddings and save it."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    config = transformers.AutoConfig.from_pretrained(path)
    model = getattr(transformers, config.architectures[0]).from_pretrained(path)  # the class it was saved as
    vocabulary = tokenizer.get_vocab()
    new = [word for word in dict.fromkeys(words) if word not in vocabulary]
    pieces = {word: tokenizer.tokenize(f" {word}") for word in new}
    tokenizer.add_tokens(new)
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    places = tokenizer.convert_tokens_to_ids(new)
    for layer in layers(model):
        with torch.no_grad():
            layer.weight[places] = init_embeddings(layer, new, vocabulary)
    for word, place in zip(new, places, strict=True):
        near = ", ".join(neighbors(model.get_input_embeddings().weight, vocabulary, place, 4))
        print(f"{word}: row {place}, was {' '.join(pieces[word])}; near {near}")
    if output:
        model.save_pretrained(output)
        tokenizer.save_pretrained(output)
        print(f"saved to {output}")


def layers(model: Any) -> list[Any]:
    """Return the layers with one row per token: the input layer, and the output layer if its weights are its own."""
    first, last = model.get_input_embeddings(), model.get_output_embeddings()
    return [first] if last is None or last.weight is first.weight else [first, last]


def neighbors(matrix: torch.Tensor, vocabulary: dict[str, int], place: int, n: int) -> list[str]:
    """Return the whole words of a vocabulary whose embeddings are nearest to one row."""
    style = style_of(vocabulary)
    tokens = [token for token in vocabulary if is_word(token, style)]
    rows = matrix.detach()[[vocabulary[token] for token in tokens]]
    near = torch.nn.functional.cosine_similarity(rows, matrix.detach()[place][None])
    return [tokens[row] for row in near.topk(min(n, len(tokens))).indices.tolist()]


def measure(path: str, heldout: int, size: int | None, seed: int) -> None:
    """Hold out words of a table, and compare two ways to predict their vectors."""
    table = pbos.WordVectors.read(path)
    rng = np.random.default_rng(seed)
    if size is None:  # hold out words of all frequencies
        rows = rng.permutation(len(table))
        out, left = np.sort(rows[:heldout]), np.sort(rows[heldout:])
    else:  # hold out words that are rarer than those of the vocabulary
        left, out = np.arange(size), np.sort(rng.permutation(np.arange(size, len(table)))[:heldout])
    words, unseen = [table.words[row] for row in left], [table.words[row] for row in out]
    vocabulary = {word: row for row, word in enumerate(words)}
    matrix, true = table.vectors[left], table.vectors[out]
    predicted = init_embeddings(matrix, unseen, vocabulary).numpy()
    cut = [pieces(word, vocabulary) for word in unseen]
    means = np.stack([mean_row(parts, vocabulary, matrix) for parts in cut])
    n_pieces = np.mean([len(parts) for parts in cut])
    print(f"vocabulary of {len(words):,} words, {len(unseen):,} held out ({n_pieces:.2f} pieces each)")
    print(f"mean cosine with the true row: pbos {cosines(predicted, true).mean():.3f}, ", end="")
    print(f"mean of the pieces {cosines(means, true).mean():.3f}")
    print(f"nearer to the true row by pbos: {(cosines(predicted, true) > cosines(means, true)).mean():.1%}")


def pieces(word: str, vocabulary: dict[str, int]) -> list[str]:
    """Cut a word as WordPiece does: from left to right, the longest piece in the vocabulary."""
    found, start = [], 0
    while start < len(word):
        ends = (end for end in range(len(word), start, -1) if word[start:end] in vocabulary)
        end = next(ends, None)
        if end is not None:
            found.append(word[start:end])
        start = end or start + 1
    return found


def mean_row(parts: list[str], vocabulary: dict[str, int], matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the mean of the rows of a word's pieces, or of all rows for a word without pieces."""
    rows = [vocabulary[part] for part in parts]
    return np.mean(matrix[rows] if parts else matrix, axis=0)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a transformers model")
    parser.add_argument("words", nargs="*", help="words to add")
    parser.add_argument("-o", "--output", help="save the new model here")
    parser.add_argument("--measure", metavar="TABLE", help="hold out words of this table of vectors and predict them")
    parser.add_argument("--heldout", type=int, default=5000, help="words to hold out")
    parser.add_argument("--vocabulary", type=int, help="train on the first N words and hold out rarer ones only")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure, given.heldout, given.vocabulary, given.seed)
    elif given.model and given.words:
        add_tokens(given.model, given.words, given.output)
    else:
        parser.error("give a model and words, or a table with --measure")


if __name__ == "__main__":
    main()
