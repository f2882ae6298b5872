"""The confidence: its regression, evidence and features against dense NumPy, its files, and what it is worth."""

import filecmp
import itertools
import pickle
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from random import Random
from string import ascii_lowercase
from uuid import UUID

import numpy as np
import oracle
import pytest
from scipy.optimize import minimize
from test_model_folder import change_tensors
from test_solve import dense_ridge, random_matrix, sparse, system_of, tight

import pbos
from pbos import InputError, ModelError
from pbos.kernels.vectors import products
from pbos.layout import CONFIDENCE_LAYOUT, IS_WORD_LAYOUT
from pbos.training.fit import leverages, subword_evidence
from pbos.training.solve import Ridge
from pbos.training.system import Run, System, split_words
from pbos.words.confidence import Confidence, Regression
from pbos.words.text import unpack_strings

UNSEEN = ["unheard-of", "kings", "x", "banana!", "naïveté", "a" * 60, "Zürich"]
UNKNOWN = ["Ω", "漢字", "?"]  # no subword is known


def cosine(one, other):
    length = np.linalg.norm(one) * np.linalg.norm(other)
    return one @ other / length if length > 0 else 0.0


def ranks(values):
    """Ranks of distinct values."""
    return np.argsort(np.argsort(values))


@pytest.fixture(scope="module")
def model(small_vectors):
    """A model of three quarters of the words of the invented language."""
    kept = np.arange(len(small_vectors)) % 4 > 0
    words = [word for word, keep in zip(small_vectors.words, kept, strict=True) if keep]
    return pbos.train((words, small_vectors.vectors[kept]))


# The regression -------------------------------------------------------------------------------------------------------


def empty_confidence(n_vectors=5, n_evidence=8, dims=3):
    evidence = np.zeros((n_vectors, n_evidence), np.float16)
    return Confidence(evidence, np.zeros(dims, np.float32), np.ones(1, np.float32), *[np.zeros(0, np.float32)] * 4)


def with_last(features):
    """Features with one more, which `fitted` leaves out."""
    return np.column_stack([features, np.ones(len(features), np.float32)])


def inputs_by_hand(features, center, spread):
    rows = []
    for row in (features - center) / spread:
        z = [min(max(value, -4.0), 4.0) for value in row]
        rows.append([1.0, *z, *(one * other for one, other in itertools.combinations_with_replacement(z, 2))])
    return np.array(rows)


def test_products():
    center, spread = np.array([1, 0, 0], np.float32), np.array([1, 2, 0.5], np.float32)
    found = products(np.array([[3.0, 6.0, -4.5]], np.float32), center, spread)
    assert found.tolist() == [[1, 2, 3, -4, 4, 6, -8, 9, -12, 16]]


@pytest.mark.parametrize("n_words", [20, 500])
def test_the_regression_is_ridge_regression(n_words):
    random = np.random.default_rng(0)
    features = (random.standard_t(3, size=(n_words, 12)) * random.uniform(0.1, 9, 12) + 5).astype(np.float32)
    features[:, 3] = 2.5  # always the same
    cosines = np.tanh(features[:, 0] - 5) * 0.3 + 0.4 + 0.1 * random.normal(size=n_words)
    found = empty_confidence().fitted(with_last(features), cosines)

    center, spread = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-6)
    inputs = inputs_by_hand(features, center, spread)
    penalties = np.sqrt(10) * np.eye(inputs.shape[1])[1:]  # as rows of the equations; none for the constant
    rows, goals = np.vstack([inputs, penalties]), np.concatenate([cosines, np.zeros(len(penalties))])
    expected = np.linalg.lstsq(rows, goals, rcond=None)[0]
    assert found.coefficients == pytest.approx(expected, abs=1e-4)
    others = (random.normal(size=(50, 12)) * 30).astype(np.float32)
    others[:, 3] = 2.5
    predicted = found.predict(others)
    assert predicted == pytest.approx(np.clip(inputs_by_hand(others, center, spread) @ expected, 0, 1), abs=1e-3)
    assert predicted.dtype == np.float32
    assert predicted.min() == 0


def test_the_curve_undoes_what_the_regression_bends():
    random = np.random.default_rng(0)
    features = random.normal(size=(3000, 12)).astype(np.float32)
    cosines = 1 / (1 + np.exp(-4 * features[:, 0])) * 0.8 + 0.1 + 0.05 * random.normal(size=3000)
    found = empty_confidence().fitted(with_last(features[:2000]), cosines[:2000])
    inputs = inputs_by_hand(features[2000:], found.center, found.spread)
    regression = np.clip(inputs @ found.coefficients, 0, 1)
    predicted = found.predict(features[2000:])
    assert predicted == pytest.approx(np.interp(regression, np.linspace(0, 1, 101), found.curve), abs=1e-5)
    assert (np.diff(found.curve) >= 0).all() and 0 <= found.curve[0] <= found.curve[-1] <= 1

    def largest_error(expected):
        tenths = np.array_split(np.argsort(expected), 10)
        return max(abs(expected[some].mean() - cosines[2000:][some].mean()) for some in tenths)

    assert largest_error(predicted) < 0.6 * largest_error(regression)


def test_a_probability_is_logistic_regression():
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 3)).astype(np.float32) * np.array([1, 5, 0.1], np.float32)
    answers = random.random(400) < 1 / (1 + np.exp(-features[:, 0] - features[:, 1] / 5))
    found = Regression.logistic(features, answers)
    inputs = inputs_by_hand(features, features.mean(axis=0), features.std(axis=0))

    def loss(coefficients):
        odds = inputs @ coefficients
        return np.logaddexp(0, np.where(answers, -odds, odds)).sum() + 0.5 * coefficients @ coefficients

    best = minimize(loss, np.zeros(inputs.shape[1]), method="BFGS").x
    expected = 1 / (1 + np.exp(-(inputs @ best)))
    assert found.predict(features) == pytest.approx(expected, abs=2e-3)
    far = found.predict(features * np.float32(1e6))
    assert ((far >= 0) & (far <= 1)).all()


# The evidence ---------------------------------------------------------------------------------------------------------


def leverages_by_hand(matrix, lam, penalty, reliability):
    found = []
    for word, trust in zip(matrix, reliability, strict=True):
        total = 0.0
        for column in np.flatnonzero(word):
            if (matrix[:, column] > 0).sum() > 1:
                total += trust * word[column] ** 2 / (lam * penalty[column] + reliability @ matrix[:, column] ** 2)
        found.append(min(total, 0.9))
    return np.array(found)


@pytest.mark.parametrize("with_reliability", [False, True])
def test_evidence_by_hand(with_reliability, monkeypatch):
    monkeypatch.setattr(Ridge, "solve", tight(Ridge.solve))
    monkeypatch.setattr("pbos.jobs.threads.blocks.__defaults__", (7,))
    random = np.random.default_rng(3)
    matrix = random_matrix(random, words=40, shared=25, private=12, empty_columns=2, empty_words=3)
    weights, n_words = sparse(matrix), (matrix > 0).sum(axis=0)
    targets = (random.normal(size=(40, 4)) + 1).astype(np.float32)
    vectors = random.normal(size=(matrix.shape[1], 4)).astype(np.float32)
    penalty, lam = random.uniform(0.5, 4, matrix.shape[1]), 0.2
    counts = np.where(np.arange(40) % 5, 1 / np.arange(1, 41), 0)  # some are not counted
    trust = random.uniform(0.3, 2, 40).astype(np.float32) if with_reliability else np.ones(40, np.float32)
    reliability = trust if with_reliability else None
    system, rows = System(None, [], weights, penalty, None, targets, counts), np.arange(40)
    found = subword_evidence(system, rows, vectors, lam, reliability, Run())

    taken = leverages_by_hand(matrix, lam, penalty, trust)
    assert leverages(weights, rows, lam * penalty, reliability, n_words) == pytest.approx(taken, rel=1e-5)
    assert 0 in taken and taken.max() > 0.3
    shared = (matrix * (n_words > 1)) @ vectors
    mean = (trust[:, None] * targets).sum(axis=0) / trust.sum()
    scale = np.sqrt((np.linalg.norm(targets, axis=1) ** 2).mean())
    least = min(count for count in counts if count > 0)
    facts = np.array(
        [
            (
                cosine(composed, given),
                cosine(given - (given - composed) / (1 - part), given),
                np.log(max(count, least)),
                cosine(given, mean),
                np.log(np.linalg.norm(composed) / scale + 0.001),
            )
            for composed, given, part, count in zip(shared, targets, taken, counts, strict=True)
        ]
    )
    facts = (facts - facts.mean(axis=0)) / facts.std(axis=0)
    solved = dense_ridge(matrix, facts, 0.1, penalty)
    about = [np.log(np.maximum(n_words, 1)), n_words <= 3, np.linalg.norm(vectors, axis=1) / scale]
    expected = np.column_stack([solved, *about])
    assert found.evidence.dtype == np.float16
    assert found.evidence.shape == expected.shape
    assert found.evidence == pytest.approx(expected, rel=2e-3, abs=2e-3)
    assert found.mean == pytest.approx(mean, rel=1e-5)
    assert found.scale == pytest.approx([scale], rel=1e-5)


@pytest.mark.parametrize(("most", "n_hidden"), [(5000, 4), (3, 3)])
def test_a_tenth_of_the_words_is_held_out_at_most(most, n_hidden, monkeypatch):
    monkeypatch.setattr("pbos.training.system.MOST_HELD_OUT", most)
    system, run = system_of(40, 5)
    split = split_words(system, run)
    assert (split.hidden.size, len(split.hidden_weights), len(split.given)) == (n_hidden,) * 3
    assert sorted([*split.hidden, *split.kept]) == list(range(40))


def test_held_out_words_take_their_own_subwords_with_them():
    system, run = system_of(120, 5)
    split = split_words(system, run)
    words, index = unpack_strings(*split.kept_words), split.index
    assert split.hidden.size == 12
    assert words == [word for row, word in enumerate(system.words) if row not in split.hidden]
    texts = [oracle.written(word, True, True)[0] for word in words]
    before, after = oracle.rows_of(system.index), oracle.rows_of(index)
    assert after == {subword: row for subword, row in before.items() if any(subword in text for text in texts)}
    assert len(after) < len(before)


# The features of words ------------------------------------------------------------------------------------------------


def features_by_hand(model, word):
    """Return the features of a word in float64, from its weights; subwords that hardly count are left out."""
    confidence, vectors = model._confidence, model.subword_vectors
    weights = model.subwords.weights([word])
    lengths = weights.data * vectors.lengths[weights.indices]
    kept = lengths >= 5e-5 * lengths.sum()
    rows, parts = weights.indices[kept], weights.data[kept].astype(float)
    composed = parts @ vectors.to_float32()[rows].astype(float)
    logs = [
        np.linalg.norm(composed) / confidence.scale[0] + 0.001,
        np.linalg.norm(composed - confidence.mean) / confidence.scale[0] + 0.001,
        1 + len(rows),
        len(model.lattice(word).spelled),
    ]
    spelled = model.lattice(word).spelled
    evidence = parts @ confidence.evidence[rows].astype(float)
    return np.concatenate([evidence, np.log(logs), [log_total_by_hand(model, spelled) / len(spelled)]])


def log_total_by_hand(model, text):
    """The logarithm of the sum over all ways to cut a text into pieces that have a vector, or characters."""
    probs = oracle.probs_of(model.index.for_weights())
    totals = [1.0]
    for end in range(1, len(text) + 1):
        pieces = [(start, text[start:end]) for start in range(end)]
        unseen = model.spelling.unseen_char_prob
        totals.append(sum(totals[at] * (probs.get(one, 0) or (unseen if len(one) == 1 else 0)) for at, one in pieces))
    return np.log(totals[-1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_features_and_confidence_by_hand(model, small_counts, dtype):
    words = [*small_counts.words[2000:2600], *UNSEEN, *UNKNOWN]
    small = model.compress(dtype=dtype)
    confidence, vectors = small._confidence, small.subword_vectors
    found = small.subwords.features(small.read_as(words), vectors, confidence)
    expected = np.array([features_by_hand(small, word) for word in words])
    assert found == pytest.approx(expected, abs=1e-5)
    inputs = inputs_by_hand(expected[:, :-1], confidence.center, confidence.spread)
    cosines = np.clip(inputs @ confidence.coefficients, 0, 1)
    odds = inputs_by_hand(expected, confidence.is_word.center, confidence.is_word.spread)
    odds = 20 * (odds @ confidence.is_word.coefficients) - 10
    cosines /= 1 + np.exp(-odds)
    cosines[expected[:, -3] == 0] = 0
    cosines[[word in set(model.words) for word in words]] = 1
    assert small.confidence(words) == pytest.approx(cosines, abs=1e-3)  # the logistic curve has straight pieces
    assert 0 in cosines and len(set(cosines)) > 100


# The confidence of a model --------------------------------------------------------------------------------------------


def test_a_pickled_one_is_read_only_too(model):
    """Or kernels would be compiled again for it."""
    arrays = pickle.loads(pickle.dumps(model))._confidence.tensors()
    assert not any(array.flags.writeable for array in arrays.values())
    for name, array in model._confidence.tensors().items():
        assert np.array_equal(arrays[name], array)


def test_known_and_unknown_words(model):
    assert (model.confidence(model.words) == 1).all()
    assert not model.confidence(UNKNOWN).any()
    found = model.confidence(UNSEEN)
    assert found.dtype == np.float32 and found.shape == (len(UNSEEN),)
    assert ((found >= 0) & (found <= 1)).all()
    one = model.confidence(UNSEEN[0])
    assert isinstance(one, float) and one == pytest.approx(found[0], abs=1e-6)
    assert model.confidence(model.words[0]) == 1.0
    assert model.confidence(model.words[0].upper()) == 1.0  # read as the training word
    assert model.confidence([]).shape == model.confidence([], threads=2).shape == (0,)
    for bad in ("", [""]):
        with pytest.raises(InputError):
            model.confidence(bad)


def test_it_does_not_depend_on_the_threads_or_the_other_words(model, small_counts):
    words = [*small_counts.words, *UNSEEN, *UNKNOWN]
    found = model.confidence(words)
    for threads in (1, 2, 3):
        assert np.array_equal(model.confidence(words, threads=threads), found)
    assert [model.confidence(word) for word in words[-40:]] == pytest.approx(found[-40:].tolist(), abs=1e-6)


def test_the_model_is_the_same_for_any_number_of_threads(small_vectors, tmp_path, monkeypatch):
    monkeypatch.setattr("pbos.jobs.threads.blocks.__defaults__", (128,))  # of words
    for threads in (1, 2, 3):
        monkeypatch.setattr("pbos.training.system.SMALL_PART", 1000 // threads)
        pbos.train(small_vectors, heldout=0.1, threads=threads).save(tmp_path / str(threads))
    for threads in (2, 3):
        for name in ("model.safetensors", "config.json", "README.md"):
            assert filecmp.cmp(tmp_path / "1" / name, tmp_path / str(threads) / name, shallow=False)


def test_files_and_copies_keep_it(model, small_counts, tmp_path):
    words = [*small_counts.words[1990:2300], *UNSEEN, *UNKNOWN]
    expected = model.confidence(words)
    model.save(tmp_path / "m")
    assert np.array_equal(pbos.load(tmp_path / "m").confidence(words), expected)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).confidence(words), expected)
    for dtype, most in (("float16", 0.01), ("int8", 0.05)):
        small = model.compress(dtype=dtype)
        assert np.abs(small.confidence(words) - expected).max() <= most
        small.save(tmp_path / dtype)
        assert np.array_equal(pbos.load(tmp_path / dtype).confidence(words), small.confidence(words))
    for settings in ({"min_vector_words": 2}, {"dims": 20}):
        found = model.compress(**settings).confidence(words)
        assert np.corrcoef(found, expected)[0, 1] > 0.8


def test_words_of_other_tables_are_known(model, small_counts):
    word = next(word for word in small_counts.words[2000:] if model.confidence(word) < 1)
    given = model.with_targets({word: np.ones(model.dims)})
    assert given.confidence(word) == 1.0
    assert given.confidence("unheard-of") == model.confidence("unheard-of")


def test_training_words_that_lost_their_vectors_are_as_near_as_they_are(small_vectors, model, tmp_path):
    small = pbos.train(small_vectors, max_vectors=600, keep_targets=True)
    few = model.compress(min_vector_words=3, dims=20)
    fewer = model.compress(min_vector_words=3)
    small.save(tmp_path / "m")
    for found, given in ((pbos.load(tmp_path / "m"), small_vectors), (fewer, small_vectors)):
        expected = [cosine(found[word], given[word]) for word in found.words]
        assert found.confidence(found.words) == pytest.approx(np.clip(expected, 0, 1), abs=0.003)
        assert min(expected) < 0.95
    assert np.array_equal(few.confidence(few.words), fewer.confidence(few.words))
    assert (few.compress(min_vector_words=9).confidence(few.words) <= few.confidence(few.words)).all()
    assert fewer.with_targets(small_vectors).confidence(small_vectors.words[0]) == 1


def test_ranks(model, small_vectors):
    """By hand: a line over the root of the rank, for words that are not known."""
    words, ranks = [*UNSEEN, UNKNOWN[0], model.words[0]], np.arange(1, len(UNSEEN) + 3) ** 2
    start, slope = model._confidence.by_rank
    expected = model.confidence(words)
    by_hand = np.clip(expected + start + slope * np.sqrt(ranks), 0, 1)
    by_hand[expected == 0], by_hand[-1] = 0, 1
    assert model.confidence(words, ranks=ranks) == pytest.approx(by_hand, abs=1e-6)
    one = np.clip(expected[0] + start + 2 * slope, 0, 1)
    assert model.confidence(words[0], ranks=4) == pytest.approx(one, abs=1e-6)
    for bad in (0, "a", [1, 2], np.nan):
        with pytest.raises(InputError, match="ranks must be "):
            model.confidence(words, ranks=bad)
    old = pickle.loads(pickle.dumps(model))
    old._confidence = replace(old._confidence, by_rank=None)
    with pytest.raises(InputError, match="does not know ranks"):
        old.confidence(words, ranks=1)


def test_the_line_over_ranks_is_least_squares():
    random = np.random.default_rng(0)
    ranks, expected = random.permutation(1000) + 1, random.random(1000).astype(np.float32)
    cosines = expected + 0.3 - 0.01 * np.sqrt(ranks)
    assert empty_confidence().with_ranks(expected, cosines, ranks).by_rank == pytest.approx([0.3, -0.01], abs=1e-4)


def test_models_of_earlier_versions_do_not_know_what_is_a_word(model, small_counts, tmp_path):
    words = [*small_counts.words[2000:2300], *UNSEEN, *UNKNOWN]
    model.save(tmp_path / "m")
    names = [name for name in model._confidence.tensors() if name.startswith("confidence.is_word.")]
    change_tensors(tmp_path / "m", **{name: lambda array: None for name in names})
    old, new = pbos.load(tmp_path / "m").confidence(words), model.confidence(words)
    assert (old >= new - 1e-6).all() and (old > new + 0.1).any()


def test_models_without_a_confidence():
    for settings in ({}, {"confidence": False}, {"preset": "pbos", "epochs": 1}):
        few = pbos.train((["high", "higher"], np.eye(2)), **settings)
        with pytest.raises(InputError, match="this model has no confidence"):
            few.confidence("highest")


@pytest.mark.parametrize("name", [*CONFIDENCE_LAYOUT, *IS_WORD_LAYOUT, "confidence.nearness", "confidence.by_rank"])
def test_a_damaged_confidence_is_found(model, name, tmp_path):
    model = model.compress(min_vector_words=2)
    changes = [lambda array: array[:-1], lambda array: np.concatenate([array, array]), lambda array: None]
    if name.endswith((".scale", ".spread")):  # by which kernels divide
        changes += [np.zeros_like, lambda array: np.full_like(array, np.nan)]
    for changed in changes[
        : 2 if name in ("confidence.nearness", "confidence.by_rank") else None
    ]:  # it may be left out
        model.save(tmp_path / "m")
        change_tensors(tmp_path / "m", **{name: changed})
        with pytest.raises(ModelError, match="the confidence does not fit the subword vectors"):
            pbos.load(tmp_path / "m")


# Can it be trusted? ---------------------------------------------------------------------------------------------------


def test_it_tells_good_vectors_from_bad_ones(model, small_vectors):
    """On words that the model has never seen."""
    unseen = [word for word in small_vectors.words if word not in model]
    true = np.array([cosine(model[word], small_vectors[word]) for word in unseen])
    expected = model.confidence(unseen)
    assert len(unseen) == 500
    assert np.corrcoef(ranks(true), ranks(expected))[0, 1] > 0.3
    assert expected.mean() == pytest.approx(true.mean(), abs=0.05)


def test_it_tells_good_vectors_from_bad_ones_of_english(shared_data):
    vectors = pbos.WordVectors.read(shared_data / "vectors" / "minilm-en", limit=12_000)
    hidden = np.arange(len(vectors)) % 6 == 0
    words = np.array(vectors.words, object)
    model = pbos.train((words[~hidden].tolist(), vectors.vectors[~hidden]))
    unseen = words[hidden].tolist()
    true = np.array([cosine(*pair) for pair in zip(model.embed(unseen), vectors.vectors[hidden], strict=True)])
    expected = model.confidence(unseen)
    assert np.corrcoef(ranks(true), ranks(expected))[0, 1] > 0.5
    by_tenth = np.array_split(np.argsort(expected), 10)
    assert np.mean([abs(true[some].mean() - expected[some].mean()) for some in by_tenth]) < 0.04


def test_machine_strings_are_not_trusted(shared_data):
    """Kinds of strings that it was not fitted to."""
    vectors = pbos.WordVectors.read(shared_data / "vectors" / "minilm-en", limit=12_000)
    model, random = pbos.train(vectors), Random(0)
    strings = [str(UUID(int=random.getrandbits(128))) for _ in range(100)]
    strings += [b64encode(random.randbytes(random.randrange(12, 60))).decode() for _ in range(100)]
    strings += [sha256(random.randbytes(9)).hexdigest() for _ in range(100)]
    strings += [letter * 5000 for letter in ascii_lowercase] + [word * 100 for word in vectors.words[:74]]
    found = model.confidence(strings)
    assert (found < 0.3).mean() >= 0.99
    without = replace(model._confidence, is_word=None)
    assert (without.predict(features_of(model, strings)) >= 0.3).mean() > 0.5
    words = ["unfriendlier", "rehydrating", "schoolteachers", "unhelpfulness", "repainted", "kindnesses", "misjudges"]
    assert (model.confidence(words) > 0.95 * without.predict(features_of(model, words))).all()


def features_of(model, words):
    return model.subwords.features(model.read_as(words), model.subword_vectors, model._confidence)
