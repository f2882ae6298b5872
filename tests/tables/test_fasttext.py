"""fastText's .bin files, compared with what fastText itself and gensim say of the same file."""

import gzip
import random
import struct

import numpy as np
import pytest

import pbos
from pbos import FormatError, WordVectors

fasttext = pytest.importorskip("fasttext", reason="needs fasttext-wheel (Python 3.11)")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    drawn, path = random.Random(0), tmp_path_factory.mktemp("text") / "text.txt"
    words = ["".join(drawn.choices("abcdefghé中ñ-", k=drawn.randint(1, 9))) for _ in range(500)]
    path.write_text("\n".join(" ".join(drawn.choices(words, k=9)) for _ in range(400)), encoding="utf-8")
    return path


@pytest.fixture
def trained(text, tmp_path):
    """A function that trains a model with some options and returns it and its file."""

    def train(**options):
        options = {"dim": 7, "epoch": 1, "minCount": 1, "thread": 1, "verbose": 0, "bucket": 900, **options}
        model, path = fasttext.train_unsupervised(str(text), **options), tmp_path / "model.bin"
        model.save_model(str(path))
        return model, path

    return train


@pytest.mark.parametrize(
    "options",
    [{}, {"minn": 1, "maxn": 4, "bucket": 50}, {"minn": 0, "maxn": 0}, {"model": "cbow", "minn": 2, "maxn": 2}],
)
def test_vectors_are_those_of_fasttext(trained, options):
    model, path = trained(**options)
    read = WordVectors.read(path)
    assert read.words == model.get_words() and "</s>" in read.words
    assert np.allclose(read.vectors, [model.get_word_vector(word) for word in read.words], atol=1e-6)
    some = WordVectors.read(path, limit=9)
    assert some.words == read.words[:9] and np.array_equal(some.vectors, read.vectors[:9])


def test_gensim_reads_the_same(trained):
    load_facebook_vectors = pytest.importorskip("gensim.models.fasttext").load_facebook_vectors
    _, path = trained()
    read, peer = WordVectors.read(path), load_facebook_vectors(str(path))
    words = [word for word in read.words if word != "</s>"]  # for which gensim adds n-grams
    assert np.allclose(read[words], peer[words], atol=1e-6)


def test_compressed_and_through_train(trained, tmp_path):
    _, path = trained()
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(WordVectors.read(packed).vectors, WordVectors.read(path).vectors)
    assert pbos.train(path, lam=0.1).dims == 7


def test_supervised_models_and_their_labels(tmp_path):
    text = tmp_path / "labels.txt"
    text.write_text("__label__a one two three\n__label__b four five\n" * 20)
    model = fasttext.train_supervised(str(text), dim=5, epoch=1, minn=2, maxn=3, bucket=90, verbose=0)
    model.save_model(str(tmp_path / "model.bin"))
    read = WordVectors.read(tmp_path / "model.bin")
    assert read.words == model.get_words()
    assert np.allclose(read.vectors, [model.get_word_vector(word) for word in read.words], atol=1e-6)


def test_quantized_models_are_refused(tmp_path):
    text, path = tmp_path / "labels.txt", tmp_path / "model.ftz"
    text.write_text("\n".join(f"__label__{row % 2} word{row % 300} more{row}" for row in range(900)))
    model = fasttext.train_supervised(str(text), dim=4, epoch=1, verbose=0)
    model.quantize(input=str(text), retrain=False)
    model.save_model(str(path))
    with pytest.raises(FormatError, match=r"quantized .*use the .bin or .vec file"):
        WordVectors.read(path)


def test_damaged_files_get_one_sentence(trained, tmp_path):
    _, path = trained()
    content, damaged = path.read_bytes(), tmp_path / "damaged.bin"
    places = {"version": 4, "dims": 8, "buckets": 8 + 4 * 8, "entries": 64, "words": 68}
    for place in places.values():
        for number in (-1, 0, 1, 1 << 30):
            damaged.write_bytes(content[:place] + struct.pack("<i", number) + content[place + 4 :])
            with pytest.raises(FormatError, match=r"damaged|version|vectors"):
                WordVectors.read(damaged)
    for size in (10, 64, 100, 5000, len(content) // 3):
        damaged.write_bytes(content[:size])
        with pytest.raises(FormatError, match=r"damaged|empty"):
            WordVectors.read(damaged)
