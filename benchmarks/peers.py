"""The peers, each trained once on the same data and cached. README.md describes how.

`python benchmarks/peers.py` trains all of them, in about 20 minutes.
"""

from __future__ import annotations

import functools
import os
from importlib.util import find_spec
from pathlib import Path

import inputs
import numpy as np

FROM_TEXT = {"model": "skipgram", "dim": 300, "minn": 3, "maxn": 6, "minCount": 5, "epoch": 1, "verbose": 0}
VOCABULARY = 32_000  # of SentencePiece, which tokenizers and model2vec use too
MORFESSOR_WORDS = 20_000  # training on all words would take an hour
FIT_ALPHA = 0.01  # ridge penalty for model2vec: the best of 0.01, 0.1, 1 and 10 on held-out words


class Peer:
    """A peer that embeds words, in the form that `pbos.evaluation` expects.

    Attributes:
        call: The call that is timed: takes words and returns vectors in the peer's own format.
    """

    def __init__(self, call, dims: int = 300) -> None:
        self.call, self.dims = call, dims

    def embed(self, words):
        """Return the vectors as float32, (n_words, dims)."""
        return np.array(self.call(words), np.float32)


def embedders() -> dict[str, Peer]:
    """Return the peers that embed words, as far as they are installed."""
    makers = {"fasttext": fasttext, "floret": floret, "gensim": gensim, "model2vec": model2vec}
    return {name: make() for name, make in makers.items() if find_spec(name)}


# Vectors --------------------------------------------------------------------------------------------------------------


def fasttext_file() -> Path:
    """Return the file of a fastText model trained on the novels; 2.4 GB, nearly all of it n-gram vectors."""
    import fasttext

    def write(path: Path) -> None:
        settings = {**FROM_TEXT, "bucket": 2_000_000, "thread": os.cpu_count()}
        fasttext.train_unsupervised(str(inputs.corpus()), **settings).save_model(str(path))

    return inputs.cached("fasttext.bin", write)


@functools.cache
def fasttext() -> Peer:
    """Return fastText, which embeds one word per call."""
    import fasttext

    fasttext.FastText.eprint = lambda text: None  # silences a warning about an API change
    vector_of = fasttext.load_model(str(fasttext_file())).get_word_vector
    peer = Peer(lambda words: [vector_of(word) for word in words])
    peer.vector_of = vector_of
    return peer


@functools.cache
def floret() -> Peer:
    """Return floret: fastText with a smaller table, in which every n-gram and word is hashed to two rows."""
    import floret

    def write(path: Path) -> None:
        settings = {**FROM_TEXT, "mode": "floret", "hashCount": 2, "bucket": 200_000, "thread": os.cpu_count()}
        floret.train_unsupervised(str(inputs.corpus()), **settings).save_model(str(path))

    vector_of = floret.load_model(str(inputs.cached("floret.bin", write))).get_word_vector
    return Peer(lambda words: [vector_of(word) for word in words])


def gensim_folder() -> Path:
    """Return the folder of the fastText model in gensim's own format."""
    from gensim.models.fasttext import load_facebook_vectors

    def write(path: Path) -> None:
        path.mkdir()
        load_facebook_vectors(str(fasttext_file())).save(str(path / "vectors"))

    return inputs.cached("gensim", write)


@functools.cache
def gensim() -> Peer:
    """Return gensim with the fastText model."""
    from gensim.models import KeyedVectors

    vectors = KeyedVectors.load(str(gensim_folder() / "vectors"))
    return Peer(lambda words: vectors[words])


@functools.cache
def model2vec() -> Peer:
    """Return model2vec: a word is the mean of the vectors of its pieces, fitted to our target vectors."""

    def write(path: Path) -> None:
        with path.open("wb") as stream:
            np.save(stream, fitted_pieces(inputs.target_vectors()))

    return static_model(np.load(inputs.cached("model2vec.npy", write)))


def static_model(pieces) -> Peer:
    """Return a model2vec model with a vector for each SentencePiece piece."""
    from model2vec import StaticModel

    model = StaticModel(pieces, unigram())
    return Peer(lambda words: model.encode(words, use_multiprocessing=False))


def fitted_pieces(vectors):
    """Fit a vector for each piece to the words' vectors, by ridge regression."""
    from scipy.sparse import csr_array

    tokenizer = unigram()
    ids = [encoding.ids for encoding in tokenizer.encode_batch(vectors.words)]
    sizes = np.array([len(word) for word in ids])
    entries = np.repeat(1 / sizes, sizes).astype(np.float32), np.concatenate(ids), np.concatenate([[0], sizes.cumsum()])
    means = csr_array(entries, shape=(len(ids), tokenizer.get_vocab_size()))
    products = means.T @ means

    # Conjugate gradients, for all dimensions at once.
    residual = means.T @ vectors.vectors
    fit, direction, size = np.zeros_like(residual), residual.copy(), (residual**2).sum(axis=0)
    tolerance = 1e-6 * size
    while (size > tolerance).any():
        image = products @ direction + FIT_ALPHA * direction
        step = size / (direction * image).sum(axis=0)
        fit += step * direction
        residual -= step * image
        size, old = (residual**2).sum(axis=0), size
        direction = residual + (size / old) * direction
    return fit


# Pieces ---------------------------------------------------------------------------------------------------------------


@functools.cache
def sentencepiece(by_count: bool = False):
    """Return a SentencePiece unigram model of our segmenter's words, each counted once or by its count."""
    import sentencepiece

    def write(path: Path) -> None:
        table = path.with_suffix(".tsv")
        lines = (f"{word}\t{count if by_count else 1:.0f}\n" for word, count in inputs.counts())
        table.write_text("".join(lines), encoding="utf-8")
        with path.open("wb") as stream:
            sentencepiece.SentencePieceTrainer.train(
                input=str(table),
                input_format="tsv",
                model_writer=stream,
                model_type="unigram",
                vocab_size=VOCABULARY,
                character_coverage=1.0,
                minloglevel=2,
            )
        table.unlink()

    name = f"sentencepiece-{'counts' if by_count else 'types'}.model"
    return sentencepiece.SentencePieceProcessor(model_file=str(inputs.cached(name, write)))


@functools.cache
def unigram():
    """Return a Hugging Face tokenizer with the SentencePiece vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    model = sentencepiece()
    pieces = [(model.id_to_piece(i), model.get_score(i)) for i in range(len(model))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=model.unk_id()))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


@functools.cache
def morfessor():
    """Return a Morfessor model of the most frequent words, each counted once, as its authors recommend."""
    import morfessor

    def write(path: Path) -> None:
        morfessor.utils.show_progress_bar = False
        model = morfessor.BaselineModel()
        model.load_data([(1, word) for word in inputs.counts().words[:MORFESSOR_WORDS]])
        model.train_batch()
        morfessor.MorfessorIO().write_binary_model_file(str(path), model)

    return morfessor.MorfessorIO().read_binary_model_file(str(inputs.cached("morfessor.bin", write)))


if __name__ == "__main__":
    embedders(), sentencepiece(), sentencepiece(by_count=True), morfessor()
