"""Training with the preset default, 100,000 words x 300, all steps including the choice of lam, two cores."""

from __future__ import annotations

import inputs
from measure import Row, race


def rows():
    vectors = inputs.target_vectors()
    seconds = race({"ours": lambda: inputs.train(vectors, "default")})["ours"]
    model = inputs.model("default")
    quality = {name: (inputs.spearman(model, name), None) for name in ("WS353", "RareWord")}
    question = f"train {len(vectors):,} words x {vectors.dims}, preset default, automatic lam, two cores"
    yield Row(question, seconds, "s", quality=quality)
