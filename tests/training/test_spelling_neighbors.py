"""Spelling neighbors: the search and the formula against loops over strings, gradients against differences."""

import pickle

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from samples import english_vectors

import pbos
from pbos import InputError, ModelError
from pbos.kernels.neighbors import FACTS
from pbos.layout import NEAR_LAYOUT
from pbos.settings import PRESETS
from pbos.training.neighbors import MOST_POSTED, fitted, gradients
from pbos.words.arrays import cosines
from pbos.words.text import mark

SPELLING = PRESETS["default"].spelling
UNSEEN = ["unfriendliest", "rehydrating", "kings", "walkings", "xyz", "naïveté", "日本", "well-knowns", "a" * 300]


@pytest.fixture(scope="module")
def table():
    return english_vectors(2600, 12)


@pytest.fixture(scope="module")
def trained(table):
    return pbos.train(table, spelling_neighbors=8, progress=False)


@pytest.fixture(scope="module")
def plain(table):
    return pbos.train(table, progress=False)


# Oracles: strings and loops -------------------------------------------------------------------------------------------


def substrings(word):
    (marked,) = mark([word], SPELLING)
    for begin in range(len(marked)):
        for end in range(begin + 1, len(marked) + 1):
            yield marked[begin:end]


def value(subword):
    """The square of length times the default preset's factors for the start and the end."""
    return (len(subword) * (4 if subword[0] == "<" else 1) * (2 if subword[-1] == ">" else 1)) ** 2


def search(words, asked, n):
    """The nearest words by the cosine of features value ** .5 / count ** .5, with sums over pairs of occurrences."""
    having = {}
    for row, word in enumerate(words):
        for subword in substrings(word):
            having.setdefault(subword, set()).add(row)
    having = {subword: rows for subword, rows in having.items() if len(rows) <= MOST_POSTED}
    length = [
        np.sqrt(sum(value(one) / len(having[one]) for one in substrings(word) if one in having)) for word in words
    ]
    sums = np.zeros(len(words))
    for subword in substrings(asked):
        for row in having.get(subword, ()):
            sums[row] += value(subword) / len(having[subword])
    scores = sums / np.array(length)
    best = np.argsort(-scores, kind="stable")[:n]
    return [(int(row), scores[row]) for row in best if scores[row] > 0]


def shared_prefix(one, other):
    at = 0
    while at < min(len(one), len(other)) and one[at] == other[at]:
        at += 1
    return at


def hashed(ending, other):
    """What `rule_of` says it is: a hash of two endings."""
    found, mask = len(ending), 2**64 - 1
    for letter in ending + other:
        found = ((found ^ ord(letter)) * 0x9E3779B97F4A7C15) & mask
        found ^= found >> 32
    return found >> 1


def by_formula(near, words, read, composed, found):
    """The vector of a word from its neighbors (row, score), in float64."""
    dims, scale = composed.size, float(near.scale[0])
    numbers = dict(zip(near.rules.tolist(), near.numbers.tolist(), strict=True))
    own = (composed.astype(float) - near.mean) / scale
    total, vector = 1.0, own.copy()
    for row, score in found:
        (word, asked), stored = mark([words[row], read], SPELLING), near.vectors[row].astype(float)
        prefix, suffix = shared_prefix(asked, word), shared_prefix(asked[::-1], word[::-1])
        given, rest = stored[:dims], stored[dims:]
        rule = numbers.get(hashed(asked[prefix:], word[prefix:]), 0.0) if prefix > 1 else 0.0
        facts = [score / found[0][1], np.log(1 + row), prefix / len(asked), prefix / len(word)]
        facts += [suffix / len(asked), suffix / len(word), np.log(len(asked)), np.log(len(word))]
        facts += [own @ given / np.sqrt((own @ own) * (given @ given)), np.log(own @ own), np.log(given @ given)]
        units = np.tanh(near.hidden.astype(float) @ [*facts, rule, 1.0])
        first, second = near.output.astype(float) @ [*units, 1.0]
        vector += np.exp(first) * (given + second * rest)
        total += np.exp(first)
    return near.mean + scale * vector * np.linalg.norm(own) / np.linalg.norm(vector)


# Tests ----------------------------------------------------------------------------------------------------------------


def test_the_search_finds_what_a_loop_over_substrings_finds(trained):
    near, scores = trained._near.find(trained.subwords, UNSEEN)
    for at, word in enumerate(UNSEEN):
        expected = search(trained.words, word, 8)
        rows = near[at][near[at] >= 0]
        np.testing.assert_allclose(scores[at][: rows.size], [score for _, score in expected], rtol=1e-5)
        sure = [k for k, (_, score) in enumerate(expected) if np.isclose([s for _, s in expected], score).sum() == 1]
        assert [rows[k] for k in sure[:-1]] == [expected[k][0] for k in sure[:-1]]


def test_vectors_are_those_of_the_formula(trained, plain):
    composed = plain.embed(UNSEEN)
    for at, given in enumerate(UNSEEN):
        (word,) = trained.subwords.read([given])
        rows, scores = (found[0] for found in trained._near.find(trained.subwords, [word]))
        found = [(int(row), float(score)) for row, score in zip(rows, scores, strict=True) if row >= 0]
        expected = by_formula(trained._near, trained.words, word, composed[at], found) if found else composed[at]
        np.testing.assert_allclose(trained[given], expected, rtol=1e-3, atol=1e-3)


def test_vectors_around_the_mean_are_as_long_as_without_neighbors(trained, plain):
    found, composed = (model.embed(UNSEEN) - trained._near.mean for model in (trained, plain))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.linalg.norm(composed, axis=1), rtol=1e-4)


def test_known_words_stay_as_they_are(trained, plain):
    assert trained.embed(trained.words).tobytes() == plain.embed(plain.words).tobytes()
    mixed = trained.embed(["king", "kings", "king"])
    assert mixed[0].tobytes() == mixed[2].tobytes() == plain["king"].tobytes()
    assert mixed[1].tobytes() == trained["kings"].tobytes() != plain["kings"].tobytes()


def test_hidden_words_come_nearer():
    """A world in which an ending turns vectors: each word with "ly" is its stem plus a fixed vector."""
    rng = np.random.default_rng(0)
    stems = sorted({"".join(rng.choice(list("abdeiklmnorstu"), 6)) for _ in range(2600)})
    vectors = rng.standard_normal((len(stems), 20))
    both = [(stem + "ly", row) for row, stem in enumerate(stems)]
    hidden = set(range(0, len(stems), 10))
    words = stems + [word for word, row in both if row not in hidden]
    given = np.concatenate([vectors, [vectors[row] + 1 for _, row in both if row not in hidden]]).astype(np.float32)
    asked, true = [both[row][0] for row in sorted(hidden)], vectors[sorted(hidden)] + 1
    with_them, without = (
        pbos.train((words, given), spelling_neighbors=n, progress=False).embed(asked) for n in (16, 0)
    )
    assert cosines(with_them, true).mean() > cosines(without, true).mean() + 0.02


def test_gradients_are_those_of_differences():
    rng = np.random.default_rng(0)
    n_words, n, units, dims = 5, 3, 4, 6
    vectors = rng.standard_normal((n_words, 1 + 2 * n, dims))
    true = rng.standard_normal((n_words, dims))
    true /= np.linalg.norm(true, axis=1, keepdims=True)
    facts, places = rng.standard_normal((n_words, n, FACTS)), rng.integers(-1, 2, (n_words, n))
    sizes = np.array([3, 2, 0, 1, 3])
    layer = [rng.standard_normal(shape) / 3 for shape in ((units, FACTS + 2), (2, units + 1), (2,))]

    def loss(layer):
        hidden, output, numbers = layer
        total = 0.0
        for word in range(n_words):
            found = vectors[word, 0].copy()
            for at in range(sizes[word]):
                number = numbers[places[word, at]] if places[word, at] >= 0 else 0.0
                inner = np.tanh(hidden @ [*facts[word, at], number, 1.0])
                first, second = output @ [*inner, 1.0]
                found += np.exp(first) * (vectors[word, 1 + at] + second * vectors[word, 1 + n + at])
            total -= found @ true[word] / np.linalg.norm(found)
        return total

    small = [one.astype(np.float32) for one in layer]
    products = (vectors @ vectors.transpose(0, 2, 1)).astype(np.float32)
    aims = np.einsum("nij,nj->ni", vectors, true).astype(np.float32)
    found, slopes = gradients(small, sizes, facts.astype(np.float32), places, products, aims)
    assert found.sum() == pytest.approx(-loss(layer), rel=1e-4)
    for one, gradient in zip(layer, slopes, strict=True):
        for place in np.ndindex(one.shape):
            at, step = one[place], 1e-5
            one[place] = at + step
            above = loss(layer)
            one[place] = at - step
            below = loss(layer)
            one[place] = at
            assert gradient[place] == pytest.approx((above - below) / (2 * step), rel=1e-3, abs=2e-4)


def test_rare_rules_get_no_number():
    rng = np.random.default_rng(0)
    facts, products = rng.random((100, 2, FACTS)).astype(np.float32), np.tile(np.eye(5, dtype=np.float32), (100, 1, 1))
    rules = np.tile([[7, 0]], (100, 1))
    rules[:5] = 9
    found = fitted([(np.ones(100), np.full(100, 2), facts, rules, products, products[:, 0])], rng)
    assert found["rules"].tolist() == [7] and found["numbers"].shape == (1,)


def test_the_same_bytes_for_any_number_of_threads(table, trained, tmp_path):
    one = pbos.train(table, spelling_neighbors=8, threads=1, progress=False)
    for name, array in trained._near.tensors().items():
        assert array.tobytes() == one._near.tensors()[name].tobytes(), name
    words = UNSEEN * 100
    assert one.embed(words, threads=1).tobytes() == trained.embed(words, threads=2).tobytes()
    assert trained.embed(words[:9]).tobytes() == np.stack([trained[word] for word in UNSEEN]).tobytes()


def test_files_and_pickles_keep_them(trained, tmp_path):
    trained.save(tmp_path / "m")
    loaded = pbos.load(tmp_path / "m")
    for other in (loaded, pickle.loads(pickle.dumps(loaded)), pickle.loads(pickle.dumps(trained))):
        assert other.embed(UNSEEN).tobytes() == trained.embed(UNSEEN).tobytes()
        assert other.confidence(UNSEEN).tobytes() == trained.confidence(UNSEEN).tobytes()
    assert loaded.config()["spelling_neighbors"] == 8


def test_the_confidence_counts_them_in(trained, plain):
    known, unseen = trained.words[:3], UNSEEN[:4]
    assert trained.confidence(known).tolist() == [1, 1, 1]
    assert (trained.confidence(unseen) != plain.confidence(unseen)).all()


def test_without_known_subwords_nothing_is_added(trained):
    assert not trained["日本"].any() and trained.confidence("日本") == 0


def test_smaller_models_and_other_words_are_without_them(trained, plain, table):
    small = trained.compress(dtype="float16")
    assert small.embed(UNSEEN).tobytes() == plain.compress(dtype="float16").embed(UNSEEN).tobytes()
    assert small.confidence("kings") == plain.compress(dtype="float16").confidence("kings")
    other = trained.with_targets((table.words[:10], table.vectors[:10]))
    assert other["kings"].tobytes() == plain["kings"].tobytes()
    assert trained.with_targets(table)["kings"].tobytes() == trained["kings"].tobytes()


def test_the_explanation_names_them(trained):
    explanation = trained.explain("kings")
    found = explanation.spelling_neighbors
    assert "king" in [one.word for one in found] and 0 < sum(one.share for one in found) < 1
    assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
    assert {one.rule for one in found if one.word == "king"} <= {"", "- → -s"}
    assert "spelling neighbors" in str(explanation) and f"    {found[0].word} " in str(explanation)
    assert explanation.to_dict()["spelling_neighbors"] == [one._asdict() for one in found]
    assert not trained.explain("king").spelling_neighbors
    assert "spelling_neighbors" not in trained.explain("king").to_dict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spelling_neighbors": -1}, "at least 0"),
        ({"spelling_neighbors": 1001}, "at most 1,000"),
        ({"spelling_neighbors": 8, "confidence": False}, "needs a model that has a confidence"),
        ({"spelling_neighbors": 8, "preset": "pbos"}, "needs a model that has a confidence"),
        ({"spelling_neighbors": 8, "limit": 1999}, "at least 2,000 words, got 1,999"),
        ({"spelling_neighbors": 8, "memory": "1G", "output": "m"}, "leave out memory and scheduler"),
    ],
)
def test_what_cannot_be(table, settings, message):
    with pytest.raises(InputError, match=message):
        pbos.train(table, progress=False, **settings)


# Damaged files --------------------------------------------------------------------------------------------------------


def changed(value, at=0):
    def make(array):
        array = array.copy()
        array.flat[at] = value
        return array

    return make


DAMAGE = {
    "a word beyond the end": {"neighbors.posted": changed(10**6)},
    "a list beyond the end": {"neighbors.indptr": changed(10**9, -1)},
    "lists that go back": {"neighbors.indptr": changed(10**5, 3)},
    "no neighbors": {"neighbors.most": changed(0)},
    "too many neighbors": {"neighbors.most": changed(10**12)},
    "no scale": {"neighbors.scale": changed(0)},
    "no spread": {"neighbors.spread": changed(0)},
    **{f"no {name}": {name: None} for name in NEAR_LAYOUT},
    **{f"one less in {name}": {name: lambda array: array[:-1]} for name in NEAR_LAYOUT},
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found(trained, tmp_path, what):
    trained.save(tmp_path / "m")
    file = tmp_path / "m" / "model.safetensors"
    tensors = load_file(file)
    tensors |= {name: None if make is None else make(tensors[name]) for name, make in DAMAGE[what].items()}
    save_file({name: array for name, array in tensors.items() if array is not None}, file)
    config = tmp_path / "m" / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace('"checksum"', '"old_checksum"'), encoding="utf-8")
    with pytest.raises(ModelError, match="the spelling neighbors do not fit the words"):
        pbos.load(tmp_path / "m")
