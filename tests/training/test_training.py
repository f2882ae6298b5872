"""Training: both solvers against the textbook, threads, seeds, presets, mapped files, and bad input."""

import filecmp

import numpy as np
import oracle
import pytest
import samples

import pbos
from pbos import InputError, PbosWarning, WordVectors
from pbos.settings import PRESETS
from pbos.training.solve import Ridge

PAPER = ["pbos", "pbos-n", "bos"]


def rows_of(model):
    return oracle.rows_of(model.index)


def probs_of(model):
    return oracle.probs_of(model.index)


@pytest.mark.parametrize("preset", PAPER)
def test_sgd_equals_the_textbook(real, preset):
    """Five epochs; every subword vector is within 1e-5 of a plain NumPy loop in float64."""
    vectors, _ = real
    model = pbos.train(vectors, preset=preset, epochs=5, seed=3)

    zipf = {word: 1 / rank for rank, word in enumerate(vectors.words, 1)}
    with_vector = rows_of(model)
    assert sorted(with_vector.values()) == list(range(len(with_vector)))  # each has a vector of its own
    if preset == "bos":
        words = [f"<{word}>" for word in vectors.words]
        assert set(with_vector) == {
            w[i:j] for w in words for i in range(len(w)) for j in range(i + 3, min(len(w), i + 6) + 1)
        }
        rows = [oracle.uniform_weights(word, set(with_vector)) for word in words]
    else:
        table = oracle.count(zipf)
        assert set(with_vector) == set(table)
        rows = [oracle.weights(word, table, set(with_vector), 0.01) for word in vectors.words]

    unit = PRESETS[preset].unit_length
    expected = oracle.train(rows, vectors.vectors, epochs=5, lr=1.0, seed=3, unit_length=unit)
    trained = model.subword_vectors.to_float32()
    assert expected.keys() <= with_vector.keys()
    for subword, vector in expected.items():
        if unit:  # such a model keeps directions
            norm = np.linalg.norm(vector)
            if abs(norm - 1e-4) < 1e-6:
                continue  # on the edge of "no direction"
            vector = vector / norm if norm > 1e-4 else 0 * vector
        assert trained[with_vector[subword]] == pytest.approx(vector, abs=1e-5), subword


def test_counts_and_vectors_are_two_sets(real):
    """Probabilities come from all counted words, vectors only from the words that have one."""
    vectors, counts = real
    model = pbos.train(vectors, counts, preset="pbos", epochs=1)
    with_vector = {w[i:j] for w in vectors.words for i in range(len(w)) for j in range(i + 1, len(w) + 1)}
    assert set(rows_of(model)) == with_vector
    assert "pineapple" in counts.words
    assert probs_of(model)["pineapple"] > 0


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("default", {}),
        ("default", {"max_vectors": 100, "lam": 0.3}),
        ("default", {"max_vectors": 100, "heldout": 0.1, "keep_targets": True}),
        ("default", {"solver": "sgd", "epochs": 3}),
        *((preset, {"epochs": 3}) for preset in PAPER),
        ("pbos", {"solver": "ridge"}),
    ],
)
def test_same_bytes_for_any_number_of_threads_and_every_run(few, preset, settings, tmp_path):
    vectors, counts = few
    for name, threads in {"one": 1, "two": 2, "three": 3, "again": 2}.items():
        pbos.train(vectors, counts, preset=preset, threads=threads, **settings).save(tmp_path / name)
    for name in ("two", "three", "again"):
        _, mismatch, errors = filecmp.cmpfiles(
            tmp_path / "one", tmp_path / name, ["model.safetensors", "config.json", "README.md"], shallow=False
        )
        assert not mismatch and not errors


@pytest.mark.parametrize("preset", ["default", "pbos"])
def test_seeds(few, preset, tmp_path):
    """The same seed gives the same bytes; another one holds out other words, and takes words in another order."""
    vectors, counts = few
    held_out = {}
    for name, seed in {"first": 3, "again": 3, "other": 4}.items():
        model = pbos.train(vectors, counts, preset=preset, epochs=3, heldout=0.2, seed=seed)
        model.save(tmp_path / name)
        held_out[name] = set(vectors.words) - set(model.words)
        assert len(held_out[name]) == 30
        assert model.info["training"]["seed"] == seed
    assert held_out["first"] == held_out["again"] != held_out["other"]
    for file in (tmp_path / "first").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def test_seed_changes_the_order(few):
    vectors, _ = few
    first, second = (pbos.train(vectors, preset="pbos", epochs=2, seed=seed)["the"] for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("limit", [None, 100])
def test_a_mapped_file_is_not_copied(limit, tmp_path, monkeypatch):
    """The solver receives a view of the mapped file if no word is held out or dropped."""
    given = samples.english_vectors(120, 16)
    (tmp_path / "v").mkdir()
    np.save(tmp_path / "v" / "vectors.npy", given.vectors)
    (tmp_path / "v" / "words.txt").write_text("".join(f"{word}\n" for word in given.words), encoding="utf-8")
    received, solve = [], Ridge.solve

    def record(self, targets, *arguments, **options):
        received.append(targets)
        return solve(self, targets, *arguments, **options)

    monkeypatch.setattr(Ridge, "solve", record)
    plain = {"lam": 0.01, "reliability": "even", "confidence": False}  # nothing is held out to choose by
    for source in (tmp_path / "v", WordVectors.read(tmp_path / "v")):
        received.clear()
        model = pbos.train(source, limit=limit, **plain)
        (targets,) = received
        assert np.array_equal(targets, given.vectors[:limit])
        base = targets
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap)
        assert np.shares_memory(targets, base)
        assert np.array_equal(model.embed(given.words), pbos.train(given, limit=limit, **plain).embed(given.words))


def test_loss_falls_and_is_reported(real):
    vectors, _ = real
    losses = pbos.train(vectors, preset="pbos", epochs=10).info["training"]["losses"]
    assert len(losses) == 10
    assert losses[-1] < losses[0] / 2


def test_the_first_loss_is_the_mean_square_of_one_word():
    model = pbos.train((["ab"], np.array([[3.0, 4.0]])), preset="pbos", epochs=1)
    assert model.info["training"]["losses"] == [12.5]


@pytest.mark.parametrize("preset", PRESETS)
def test_held_out_words_are_not_trained_on(real, preset):
    vectors, _ = real
    model = pbos.train(vectors, preset=preset, epochs=5, heldout=0.1, seed=1)
    hidden = [word for word in vectors.words if word not in model]
    assert len(hidden) == 15
    assert len(model.words) == 135
    assert model.info["training"]["heldout_words"] == 15
    composed, given = model.embed(hidden), np.array([vectors[word] for word in hidden])
    norms = np.linalg.norm(composed, axis=1) * np.linalg.norm(given, axis=1)
    cosines = np.divide((composed * given).sum(axis=1), norms, out=np.zeros(15), where=norms > 0)
    training = model.info["training"]
    assert training["heldout_cosine"] == pytest.approx(cosines.mean(), abs=1e-4)
    assert training["heldout_cosine_frequent"] == pytest.approx(cosines[:5].mean(), abs=1e-4)  # most frequent first
    assert training["heldout_cosine_rare"] == pytest.approx(cosines[-5:].mean(), abs=1e-4)


def test_min_vector_words_keeps_subwords_of_enough_words(real):
    vectors, counts = real
    model = pbos.train(vectors, counts, preset="pbos", epochs=1, min_vector_words=3)
    subwords = {w[i:j] for w in vectors.words for i in range(len(w)) for j in range(i + 1, len(w) + 1)}
    expected = {s for s in subwords if sum(s in word for word in vectors.words) >= 3}
    assert rows_of(model).keys() == expected
    assert sorted(rows_of(model).values()) == list(range(len(expected)))
    assert probs_of(model) == probs_of(pbos.train(vectors, counts, preset="pbos", epochs=1))


def test_words_that_become_equal_are_dropped_with_a_warning():
    with pytest.warns(PbosWarning, match="1 word equals an earlier one after casefold normalization and is dropped"):
        model = pbos.train((["The", "the", "a"], np.eye(3)), preset="pbos", normalization="casefold", epochs=300)
    assert model.words == ["the", "a"]
    assert model["THE"] == pytest.approx([1, 0, 0], abs=0.05)


def test_counts_of_another_language_are_noticed():
    with pytest.warns(PbosWarning, match="only 0 of 2 words with a vector have a count; are both in the same language"):
        pbos.train((["high", "low"], np.eye(2)), {"дом": 3})


def test_limit_takes_the_first_words(real, tmp_path):
    vectors, _ = real
    vectors.write(tmp_path / "vectors.txt")
    for source in (vectors, tmp_path / "vectors.txt", (vectors.words, vectors.vectors)):
        assert pbos.train(source, limit=10).words == vectors.words[:10]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "nope"}, "unknown preset 'nope'; choose one of: default, pbos, pbos-n, bos"),
        ({"heldout": 1.0}, "heldout must be at least 0 and below 1, got 1.0"),
        ({"heldout": 0.9}, "holding out 0.9 of 2 words would leave none to train on"),
        ({"heldout": "x"}, "heldout must be at least 0 and below 1, got x"),
        ({"limit": 0}, "limit must be at least 1, got 0"),
        ({"limit": -1}, "limit must be at least 1, got -1"),
        ({"limit": "5"}, "limit must be a whole number, got '5'"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": None}, "seed must be a whole number, got None"),
        ({"threads": "2"}, "threads must be a whole number, got '2'"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"min_len": 9}, "no subword of at least 9 characters is in 1 or more training words"),
        ({"min_vector_words": 9}, "no subword of at least 1 characters is in 9 or more training words"),
        ({"preset": "pbos", "lr": 1e30}, "training diverged"),
        ({"info": 5}, "info must be a mapping of names to plain data, as in JSON: 'int' object is not a mapping"),
        ({"info": {"made": np.float32(1)}}, "info must be .*: Object of type float32 is not JSON serializable"),
        ({"info": {"made": "\ud800"}}, "info must be .* surrogates not allowed"),
        ({"info": {"training": 1}}, 'info has the name "training"'),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_cannot_be_trained(options, message):
    with pytest.raises(InputError, match=message):
        pbos.train((["ab", "ba"], np.eye(2)), **options)


def test_no_words():
    with pytest.raises(InputError, match="there are no words to train on"):
        pbos.train(([], np.zeros((0, 3))))


def test_settings_can_be_numpy_numbers(tmp_path):
    numbers = {"max_len": np.int64(2), "lam": np.float32(0.5), "merge": np.bool_(True), "seed": np.int64(1)}
    pbos.train((["ab", "ba"], np.eye(2)), **numbers).save(tmp_path / "model")
    info = pbos.load(tmp_path / "model").info
    assert (info["max_len"], info["lam"], info["merge"], info["training"]["seed"]) == (2, 0.5, True, 1)


# Odd tables -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_words", [1, 2, 9, 10, 11, 1010])
@pytest.mark.parametrize("kind", ["random", "equal", "zeros", "one dimension", "some zeros"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_any_table_can_be_trained_on(n_words, kind):
    words = [f"{'bcdfghklmn'[i % 10]}{'aeiou'[i // 10 % 5]}{i // 7}" for i in range(n_words)]
    targets = np.random.default_rng(0).normal(size=(n_words, 1 if kind == "one dimension" else 6))
    if kind in ("equal", "zeros"):
        targets[:] = 0.7 * (kind == "equal")
    if kind == "some zeros":
        targets[::2] = 0
    model = pbos.train((words, targets), own_share=1)
    others = ["bab", "ba1-ba2", "x", "Ω"]
    assert np.isfinite(model.embed([*words, *others])).all()
    assert model.embed(words) == pytest.approx(targets, abs=1e-3)
    if n_words > 1000:
        assert np.isfinite(model.confidence(others)).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"preset": "bos", "solver": "ridge", "confidence": True},
        {"preset": "bos", "solver": "ridge", "reliability": "auto", "own_share": 0.3},
        {"preset": "pbos", "solver": "ridge", "boundaries": True, "own_share": 1.0, "confidence": True},
        {"boundaries": False},
        {"reliability": 0, "own_share": 0},
        {"reliability": 1, "lam": 0.01},
        {"counts": {"the": 0, "of": 5, "and": 2}},
    ],
)
@pytest.mark.filterwarnings("ignore:only 3 of")
def test_unusual_settings(settings):
    vectors = samples.english_vectors(1050, 8)
    counts = settings.pop("counts", None)
    model = pbos.train(vectors, counts, **settings)
    words = [*vectors.words, "unheard-of", "Ω"]
    assert np.isfinite(model.embed(words)).all()
    if model.info["confidence"]:
        assert np.isfinite(model.confidence(words)).all()


def test_the_order_of_words_matters_only_if_it_says_something(small_vectors, monkeypatch):
    """Noise that grows with the rank is found; in a random order, or with few words, all count the same."""
    random = np.random.default_rng(0)
    noise = random.normal(size=small_vectors.vectors.shape) * small_vectors.vectors.std()
    noisy = small_vectors.vectors + noise * np.sqrt(np.arange(len(small_vectors)) / 200)[:, None]
    mixed = random.permutation(len(noisy))
    words = np.array(small_vectors.words, object)
    settings = {"confidence": False, "own_share": 0.0}
    few = pbos.train((words.tolist(), noisy), **settings)
    assert few.info["training"]["reliability"] == "even"
    monkeypatch.setattr("pbos.training.fit.LEAST_RANKED", 1)
    found = [
        pbos.train(table, counts, **settings).info["training"]["reliability"]
        for table, counts in (
            ((words.tolist(), noisy), None),
            ((words[mixed].tolist(), noisy[mixed]), None),
            ((words[mixed].tolist(), noisy[mixed]), dict(zip(words, 1 / np.arange(1, 2001), strict=True))),
        )
    ]
    assert found[0] != "even"
    assert found[1] == "even"
    assert found[2] != "even"  # counts say it, whatever the order


# Merging --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"weighting": "uniform"}, {"min_len": 2, "max_len": 4}])
def test_subwords_share_a_vector_if_the_same_words_contain_them(real, settings):
    vectors, _ = real
    model = pbos.train(vectors, lam=1, own_share="fitted", **settings)
    texts = [oracle.written(word, True, True)[0] for word in vectors.words]
    words_with = {subword: frozenset(i for i, t in enumerate(texts) if subword in t) for subword in rows_of(model)}
    assert all(words_with.values())
    pairs = {(row, words_with[subword]) for subword, row in rows_of(model).items()}
    assert (
        len(pairs) == len({row for row, _ in pairs}) == len({words for _, words in pairs}) == len(model.subword_vectors)
    )


def test_without_merging_every_subword_has_its_own(real):
    vectors, _ = real
    model = pbos.train(vectors, lam=1, merge=False)
    assert sorted(rows_of(model).values()) == list(range(len(model.subword_vectors)))


def test_merging_changes_no_vector_where_subwords_weigh_alike(tight):
    """Columns that differ by a factor that the penalties have too get the same vectors, merged or not.

    This is the case with uniform weights, and no subword twice in a word.
    """
    random = np.random.default_rng(1)
    words = sorted({"".join(random.permutation(list("abcdefg"))[: random.integers(2, 6)]) for _ in range(60)})
    targets = random.normal(size=(len(words), 4)).astype(np.float32)
    settings = {"weighting": "uniform", "lam": 0.02, "own_share": "fitted"}
    merged = pbos.train((words, targets), **settings)
    apart = pbos.train((words, targets), merge=False, **settings)
    assert len(merged.subword_vectors) < len(apart.subword_vectors)
    rows, own_rows = rows_of(merged), rows_of(apart)
    assert rows.keys() == own_rows.keys()
    shared = merged.subword_vectors.to_float32()[[rows[subword] for subword in rows]]
    own = apart.subword_vectors.to_float32()[[own_rows[subword] for subword in rows]]
    assert np.abs(shared - own).max() < 1e-4
    others = [*words, "abcdefg", "gab", "abab", "zz", "a-b"]
    assert merged.embed(others) == pytest.approx(apart.embed(others), abs=1e-4)


# Fewer vectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("preset", "solver"), [("default", "ridge"), ("pbos", "sgd"), ("bos", "ridge")])
@pytest.mark.parametrize("max_vectors", [1, 50, 300])
def test_max_vectors(few, preset, solver, max_vectors, tmp_path):
    vectors, counts = few
    settings = {"preset": preset, "solver": solver, "epochs": 5, "keep_targets": True}
    before = pbos.train(vectors, counts, **settings)
    model = pbos.train(vectors, counts, max_vectors=max_vectors, **settings)
    assert len(before.subword_vectors) > max_vectors
    assert len(model.subword_vectors) == len(set(rows_of(model).values())) <= max_vectors
    assert rows_of(model).keys() <= rows_of(before).keys()
    probs = probs_of(model)
    assert all(probs[s] > 0 for s, p in probs_of(before).items() if len(s) == 1 and p > 0)
    assert sum(probs.values()) == pytest.approx(1, abs=0.06 if preset == "default" else 1e-5)  # rounded, or not
    for word in (*vectors.words[:20], "unheard-of", "ω", "x"):
        assert "".join(model.segment(word)[0].pieces) == word
    assert np.isfinite(model.embed([*vectors.words, "unheard-of", "Ω"])).all()
    model.save(tmp_path / "m")
    loaded = pbos.load(tmp_path / "m")
    words = [*vectors.words, "unheard-of"]
    for exact in (False, True):
        assert np.array_equal(loaded.embed(words, exact=exact), model.embed(words, exact=exact))
    assert np.array_equal(loaded.embed(vectors.words, exact=True), vectors.vectors)


def test_max_vectors_above_their_number_changes_nothing(real):
    vectors, _ = real
    model = pbos.train(vectors, lam=1)
    same = pbos.train(vectors, lam=1, max_vectors=len(model.subword_vectors))
    assert np.array_equal(same.subword_vectors.values, model.subword_vectors.values)
    assert rows_of(same) == rows_of(model)


def test_marks_alone_have_no_vector():
    """So punctuation by itself, with nothing but marks around it, has zeros, as its coverage says."""
    model = pbos.train({"a": [1.0], "b-c": [2.0], "-": [3.0], "d--e": [4.0]}, lam=1e-4, own_share=1)
    for word in ("?", "!", "😀"):
        assert (model.lattice(word).word, model.lattice(word).spelled) == (word, f"<>{word}<>")
        assert (model.coverage(word), model.weights(word), model[word].tolist()) == (0.0, [], [0.0])
    with_vector = {subword for word in ("a", "b-c", "-", "d--e") for subword, _ in model.weights(word)}
    assert {"<>-", "-", "-<>", "<>-<>"} <= with_vector and not {"<", ">", "<>"} & with_vector
    assert model["-"] == pytest.approx([3.0], abs=0.01)
