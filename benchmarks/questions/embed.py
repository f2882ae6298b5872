"""Embed 20,000 unseen words (11.6 letters on average) in one batch, 300 dimensions, one core.

pbos and model2vec are fitted to the same word vectors, while the others are trained on novels, so their RareWord scores
(Spearman x 100) are not directly comparable. "held-out cosine" is the mean cosine of held-out words with their true
vectors. "max relative error" is the largest |ours - exact| / |exact| over 200 of the words. The exact vector is the
textbook's float64 sum with the probabilities and vectors of the float32 model, also for the compressed models.
"""

from __future__ import annotations

from functools import partial

import inputs
import numpy as np
import peers
import textbook
from measure import Row, one_core, race

SAMPLE = 200  # words that the textbook embeds


def rows():
    words = inputs.unseen_words()
    pbos, default = inputs.model("pbos"), inputs.model("default")
    ours = {"pbos": pbos, "pbos, float16": pbos.compress(dtype="float16")}
    ours |= {"default": default, "default, int8": default.compress(dtype="int8")}
    theirs = peers.embedders()
    plain = Textbook(ours["pbos"], words[:SAMPLE])
    calls = {name: partial(model.embed, words, threads=1) for name, model in ours.items()}
    calls |= {name: partial(peer.call, words) for name, peer in theirs.items()}
    with one_core():
        seconds = race({**calls, "textbook": plain.embed})
    cost = {name: 1e6 * value / len(words) for name, value in seconds.items()}
    cost["textbook"] *= len(words) / SAMPLE

    rare = {name: inputs.spearman(system) for name, system in {**ours, **theirs}.items()}
    heldout = heldout_cosines("model2vec" in theirs)
    exact = {"pbos": np.array(plain.embed()), "default": np.array(Textbook(default, words[:SAMPLE]).embed())}
    error = {
        name: max_relative_error(model, words[:SAMPLE], exact[name.partition(",")[0]]) for name, model in ours.items()
    }
    targets = {("pbos", "fasttext"): 4.0, ("pbos, float16", "fasttext"): 4.0}
    targets |= {("default", "fasttext"): 2.0, ("default, int8", "fasttext"): 2.0}
    for name in ours:
        for peer in (*theirs, "textbook") if name == "pbos" else ("fasttext", "model2vec"):
            if peer in cost:
                quality = {"max relative error": (error[name], None)}
                if peer != "textbook":
                    quality["RareWord"] = rare[name], rare[peer]
                if {name, peer} <= heldout.keys():
                    quality["held-out cosine"] = heldout[name], heldout[peer]
                question = f"embed {len(words):,} unseen words, preset {name}"
                at_least = targets.get((name, peer))
                yield Row(question, cost[name], "µs/word", peer, cost[peer], at_least=at_least, quality=quality)


def heldout_cosines(with_model2vec: bool) -> dict[str, float]:
    """Return the mean cosine of held-out words for all systems that are fitted to the same vectors."""
    fits = {name: partial(inputs.train, preset=name) for name in ("pbos", "default")}
    found = {name: inputs.heldout_cosine(f"{name}-{inputs.source_key()}", fit) for name, fit in fits.items()}
    if with_model2vec:
        found["model2vec"] = inputs.heldout_cosine(
            "model2vec", lambda vectors: peers.static_model(peers.fitted_pieces(vectors))
        )
    return found


def max_relative_error(model, words: list[str], exact) -> float:
    """Return the largest |ours - exact| / |exact|."""
    return float((np.linalg.norm(model.embed(words) - exact, axis=1) / np.linalg.norm(exact, axis=1)).max())


class Textbook:
    """The subwords of a model that occur in the given words, as plain dictionaries."""

    def __init__(self, model, words: list[str]) -> None:
        spelling, index = model.spelling, model.index
        self.dims = model.dims
        self.texts = [f"<{word}>" if spelling.boundaries else word for word in words]
        both = spelling.weighting == "both"
        self.weighting = {"both": both, "start": spelling.start_weight, "end": spelling.end_weight}
        contained = {text[i:j] for text in self.texts for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
        known = zip(index.strings(), index.probs[1:].tolist(), index.rows[1:].tolist(), strict=True)
        found = [entry for entry in known if entry[0] in contained]
        self.probs = {subword: prob for subword, prob, _ in found if prob > 0}
        with_vector = [(subword, row) for subword, _, row in found if row >= 0]
        vectors = model.subword_vectors.rows(np.array([row for _, row in with_vector])).to_float32().tolist()
        self.vectors = {subword: vector for (subword, _), vector in zip(with_vector, vectors, strict=True)}

    def embed(self) -> list[list[float]]:
        """Return the words' vectors, computed in plain Python."""
        weighed = (textbook.weights(text, self.probs, self.vectors, **self.weighting) for text in self.texts)
        return [textbook.compose(row, self.vectors, self.dims) for row in weighed]
