"""Training: SGD against the textbook, thread counts, presets, and what cannot be trained."""

import filecmp

import numpy as np
import oracle
import pytest

import pbos
from pbos import InputError, PbosWarning, WordCounts, WordVectors
from pbos.training import PRESETS


@pytest.fixture(scope="module")
def real(shared_data):
    """The first 150 words of real vectors, at 20 dimensions, with counts of the same language."""
    vectors = WordVectors.read(shared_data / "vectors" / "minilm-en", limit=150)
    counts = WordCounts.read(shared_data / "unigram_freq.csv")
    return WordVectors(vectors.words, vectors.vectors[:, :20] * 5), WordCounts(
        counts.words[:30_000], counts.counts[:30_000]
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_sgd_equals_the_textbook(real, preset):
    """Five epochs on real vectors, every subword vector within 1e-5 of a plain NumPy loop in float64."""
    vectors, _ = real
    model = pbos.train(vectors, preset=preset, epochs=5, seed=3)

    zipf = {word: 1 / rank for rank, word in enumerate(vectors.words, 1)}
    strings = ["", *model.index.strings()]
    owners = {strings[node]: row for row, node in enumerate(model.index.owners())}
    if preset == "bos":
        words = [f"<{word}>" for word in vectors.words]
        assert set(owners) == {
            w[i:j] for w in words for i in range(len(w)) for j in range(i + 3, min(len(w), i + 6) + 1)
        }
        rows = [oracle.uniform_weights(word, set(owners)) for word in words]
    else:
        table = oracle.count(zipf)
        assert set(owners) == set(table)
        rows = [oracle.weights(word, table, set(owners), 0.01) for word in vectors.words]

    unit = PRESETS[preset].unit_length
    expected = oracle.train(rows, vectors.vectors, epochs=5, lr=1.0, seed=3, unit_length=unit)
    trained = model.vectors.to_float32()
    assert expected.keys() <= owners.keys()
    for subword, vector in expected.items():
        if unit:  # such a model keeps directions
            norm = np.linalg.norm(vector)
            if abs(norm - 1e-4) < 1e-6:
                continue  # on the edge of "no direction"
            vector = vector / norm if norm > 1e-4 else 0 * vector
        assert trained[owners[subword]] == pytest.approx(vector, abs=1e-5), subword


def test_counts_and_vectors_are_two_sets(real):
    """Probabilities come from all counted words, vectors only from the words that have one."""
    vectors, counts = real
    model = pbos.train(vectors, counts, epochs=1)
    owners = {w[i:j] for w in vectors.words for i in range(len(w)) for j in range(i + 1, len(w) + 1)}
    strings = ["", *model.index.strings()]
    assert {strings[node] for node in model.index.owners()} == owners
    assert model.index.probs[model.index.find("pineapple")] > 0
    assert model.index.rows[model.index.find("pineapple")] == -1


@pytest.mark.parametrize("preset", PRESETS)
def test_same_bytes_for_any_number_of_threads_and_every_run(real, preset, tmp_path):
    vectors, counts = real
    for name, threads in {"one": 1, "two": 2, "three": 3, "again": 2}.items():
        pbos.train(vectors, counts, preset=preset, epochs=3, threads=threads).save(tmp_path / name)
    for name in ("two", "three", "again"):
        _, mismatch, errors = filecmp.cmpfiles(
            tmp_path / "one", tmp_path / name, ["model.safetensors", "config.json", "README.md"], shallow=False
        )
        assert not mismatch and not errors


def test_seed_changes_the_order(real):
    vectors, _ = real
    first, second = (pbos.train(vectors, epochs=2, seed=seed)["the"] for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_presets_are_the_papers():
    pbos_, n, bos = PRESETS["pbos"], PRESETS["pbos-n"], PRESETS["bos"]
    assert (pbos_.weighting, pbos_.min_len, pbos_.max_len, pbos_.boundaries, pbos_.unit_length) == (
        "posterior",
        1,
        None,
        False,
        False,
    )
    assert (bos.weighting, bos.min_len, bos.max_len, bos.boundaries, bos.unit_length) == ("uniform", 3, 6, True, False)
    assert n.unit_length
    assert all(preset.epochs == 50 and preset.lr == 1 for preset in PRESETS.values())
    assert pbos_.unseen_char_prob == n.unseen_char_prob == 0.01


def test_loss_falls_and_is_reported(real):
    vectors, _ = real
    losses = pbos.train(vectors, epochs=10).info["training"]["losses"]
    assert len(losses) == 10
    assert losses[-1] < losses[0] / 2


def test_the_first_loss_is_the_mean_square_of_one_word():
    model = pbos.train((["ab"], np.array([[3.0, 4.0]])), epochs=1)
    assert model.info["training"]["losses"] == [12.5]


def test_held_out_words_are_not_trained_on(real):
    vectors, _ = real
    model = pbos.train(vectors, epochs=5, heldout=0.1, seed=1)
    hidden = [word for word in vectors.words if word not in model]
    assert len(hidden) == 15
    assert len(model.words) == 135
    assert model.info["training"]["heldout_words"] == 15
    composed, given = model.embed(hidden), np.array([vectors[word] for word in hidden])
    norms = np.linalg.norm(composed, axis=1) * np.linalg.norm(given, axis=1)
    cosines = np.divide((composed * given).sum(axis=1), norms, out=np.zeros(15), where=norms > 0)
    assert model.info["training"]["heldout_cosine"] == pytest.approx(cosines.mean(), abs=1e-4)


def test_min_count_keeps_what_enough_words_hold(real):
    vectors, counts = real
    model = pbos.train(vectors, counts, epochs=1, min_count=3)
    held = {s: sum(s in word for word in vectors.words) for s in model.index.strings()}
    assert min(held.values()) == 3
    assert len(model.vectors) == len(model.index) == len(held)


def test_words_that_become_equal_are_dropped_with_a_warning():
    with pytest.warns(PbosWarning, match="1 words are the same as an earlier one after casefold"):
        model = pbos.train((["The", "the", "a"], np.eye(3)), normalization="casefold", epochs=300)
    assert model.words == ["the", "a"]
    assert model["THE"] == pytest.approx([1, 0, 0], abs=0.05)


def test_counts_of_another_language_are_noticed():
    with pytest.warns(PbosWarning, match="only 0 of 2 words with a vector have a count"):
        pbos.train((["high", "low"], np.eye(2)), {"дом": 3}, epochs=1)


def test_limit_takes_the_first_words(real, shared_data):
    vectors, _ = real
    assert pbos.train(vectors, epochs=1, limit=10).words == vectors.words[:10]
    assert pbos.train(shared_data / "vectors" / "minilm-en", epochs=1, limit=10).words == vectors.words[:10]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "nope"}, "unknown preset 'nope'; choose one of: pbos, pbos-n, bos"),
        ({"epoch": 3}, "unknown setting 'epoch'; the settings are: normalization"),
        ({"epochs": 0}, "need epochs >= 1"),
        ({"lr": 0.0}, "lr > 0"),
        ({"heldout": 1.0}, "heldout must be"),
        ({"heldout": 0.9}, "would leave none"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"min_len": 9}, "no subword of at least 9 characters"),
        ({"lr": 1e30}, "training diverged"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_cannot_be_trained(options, message):
    with pytest.raises(InputError, match=message):
        pbos.train((["ab", "ba"], np.eye(2)), **options)
