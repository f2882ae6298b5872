"""Train end to end on 100,000 words x 64 dimensions, 50 epochs, preset pbos, two cores; the textbook uses one core.

The textbook's time is extrapolated: counting runs in full, the weights are measured on 2,000 words and an epoch on 500
of them, and both are scaled up. Words, counts and vectors are in memory.
"""

from __future__ import annotations

import random

import inputs
import textbook
from measure import Row, race

import pbos

DIMS, EPOCHS = 64, 50
WEIGHED, TRAINED = 2_000, 500


def rows():
    full, counts = inputs.target_vectors(), inputs.counts()
    vectors = pbos.WordVectors(full.words, full.vectors[:, :DIMS].copy())
    table = dict(zip(counts.words, counts.counts.tolist(), strict=True))
    probs = textbook.count(table)
    with_vector = {w[i:j] for w in vectors.words for i in range(len(w)) for j in range(i + 1, len(w) + 1)}
    chosen = random.Random(0).sample(range(len(vectors)), WEIGHED)

    def train() -> pbos.Model:
        return inputs.train(vectors, "pbos", epochs=EPOCHS)

    def weigh() -> list[dict[str, float]]:
        return [textbook.weights(vectors.words[i], probs, with_vector) for i in chosen]

    weighed, targets = weigh()[:TRAINED], vectors.vectors[chosen[:TRAINED]].tolist()
    zeros = {subword: [0.0] * DIMS for row in weighed for subword in row}
    seconds = race(
        {
            "ours": train,
            "counting": lambda: textbook.count(table),
            "weighing": weigh,
            "epoch": lambda: textbook.epoch(weighed, targets, zeros),
        }
    )
    per_word = seconds["weighing"] / WEIGHED + EPOCHS * seconds["epoch"] / TRAINED
    theirs = seconds["counting"] + len(vectors) * per_word
    model = train()
    quality = {name: (inputs.spearman(model, name), None) for name in ("WS353", "RareWord")}
    question = f"train {len(vectors):,} words x {DIMS}, {EPOCHS} epochs, preset pbos, two cores"
    yield Row(question, seconds["ours"], "s", "textbook (extrapolated)", theirs, at_least=200.0, quality=quality)
