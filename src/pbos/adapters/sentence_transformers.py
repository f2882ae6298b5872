"""sentence-transformers (extra `sentence-transformers`): a module that turns texts into vectors.

With it, everything that takes a sentence transformer can use a pbos model: LangChain, Haystack, vector stores.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pbos.errors import InputError, MissingExtraError, ModelError
from pbos.files.atomic import write_whole
from pbos.files.paths import PathLike
from pbos.model import load

try:
    import sentence_transformers  # noqa: F401
    import torch
    from torch import nn

    from pbos.adapters.sklearn import PbosVectorizer  # sentence-transformers needs scikit-learn too
except ImportError:
    raise MissingExtraError("using pbos in sentence-transformers", "sentence-transformers") from None

MODEL, SETTINGS = "model", "sentences.json"


class PbosSentences(nn.Module):  # type: ignore[misc]
    """The first module of a `SentenceTransformer`: texts to vectors, with nothing to train.

    Args:
        vectorizer: A `PbosVectorizer`, which has the model and all settings; None for the mean of words and the English
            model that comes with pbos. One that learns nothing from texts need not be fitted.

    >>> from sentence_transformers import SentenceTransformer
    >>> vectorizer = PbosVectorizer(weighting="sif", counts={"the": 500, "of": 200, "king": 1})
    >>> model = SentenceTransformer(modules=[PbosSentences(vectorizer)])
    >>> vectors = model.encode(["the kings", "the monarchs", "the maps"])
    >>> model.similarity(vectors[0], vectors[1:]).numpy().round(2)
    array([[0.52, 0.24]], dtype=float32)
    """

    def __init__(self, vectorizer: PbosVectorizer | None = None) -> None:
        super().__init__()
        vectorizer = PbosVectorizer() if vectorizer is None else vectorizer
        if not isinstance(vectorizer, PbosVectorizer):
            raise InputError("PbosSentences takes a PbosVectorizer; give it the model: PbosVectorizer(model)")
        self.vectorizer = vectorizer if hasattr(vectorizer, "word_probs_") else vectorizer.fit([])

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Return the vectors of texts; `SentenceTransformer` calls it."""
        texts = [f"{prompt}{text}" for text in inputs] if prompt else list(inputs)
        return {"sentence_embedding": torch.from_numpy(self.vectorizer.transform(texts))}

    def tokenize(self, texts: Sequence[str], **_: Any) -> dict[str, Any]:
        """Return what `preprocess` does, under its name before version 6 of sentence-transformers."""
        return self.preprocess(texts)

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Return the vectors as they are."""
        return features

    def get_embedding_dimension(self) -> int:
        """Return the number of dimensions."""
        return self.vectorizer._n_features_out

    get_sentence_embedding_dimension = get_embedding_dimension  # before version 6

    def save(self, output_path: PathLike, **_: Any) -> None:
        """Save to a folder: the model, and a file with the rest; `SentenceTransformer.save` calls it."""
        settings = self.vectorizer.get_params()
        if settings.pop("tokenizer") is not None:
            raise InputError("a tokenizer that is a function cannot be saved; use token_pattern")
        del settings["model"], settings["counts"]
        component = self.vectorizer.component_
        content = {
            "settings": settings,
            "word_probs": self.vectorizer.word_probs_,
            "component": None if component is None else component.tolist(),
        }
        self.vectorizer._get_model().save(Path(output_path, MODEL))
        with write_whole(Path(output_path, SETTINGS)) as stream:
            stream.write(json.dumps(content, ensure_ascii=False, default=float).encode())  # settings may be of NumPy

    @staticmethod
    def load(path: PathLike) -> PbosSentences:
        """Load what `save` saved; `SentenceTransformer` calls it."""
        model, file = load(Path(path, MODEL)), Path(path, SETTINGS)
        try:
            content = json.loads(file.read_bytes())
            vectorizer = PbosVectorizer(model, **content["settings"])
            vectorizer.word_probs_ = dict(content["word_probs"])
            component = content["component"]
            vectorizer.component_ = None if component is None else np.array(component, np.float32)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"{file} cannot be read ({error}); get a fresh copy of it") from None
        return PbosSentences(vectorizer)
