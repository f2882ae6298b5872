"""The contexts of words in sentences, and mixtures: compared with loops, with counts of texts, and with a search."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbos.contexts import AMOUNTS, N_FACTS, ContextMap, Expected, Seen, best_mixture, facts_of
from pbos.corpus.cooccurrences import Cooccurrences, Counting
from pbos.errors import InputError
from pbos.words.confidence import CURVE, RIDGE, Regression
from pbos.words.text import pack_strings, unpack_strings
from pbos.words.tokens import CUTS

DIMS = 4
KEPT = {"the": 0.25, "of": 0.5, "a": 0.125}


def regression(generator, n, size=0.05):
    coefficients = generator.normal(0, size, 1 + n + n * (n + 1) // 2).astype(np.float32)
    coefficients[0] += 0.4 if size > 0.05 else 0
    center, spread = generator.normal(size=n), generator.uniform(0.5, 2, n)
    curve = np.sort(generator.random(101)).astype(np.float32)
    return Regression(center.astype(np.float32), spread.astype(np.float32), coefficients, curve)


def context_map(window=3, *, lowercase=True, cut="words", kept=None, seed=0, dims=DIMS):
    """A map with random numbers, of a text that had some frequent words."""
    generator, kept = np.random.default_rng(seed), KEPT if kept is None else kept
    return ContextMap(
        generator.normal(size=(3 * dims, dims)).astype(np.float16),
        tuple(Expected(*(regression(generator, N_FACTS, 0.1) for _ in range(2))) for _ in (*AMOUNTS, None)),
        pack_strings(list(kept)),
        np.array(list(kept.values()), np.float32),
        np.array([window, lowercase, CUTS.index(cut)], np.int64),
    )


def weights_by_definition(word, lines, kept, window):
    """The weights of each pair of positions in a line, in exact numbers; and how often the word is there."""
    found, n_times = {}, 0
    for line in lines:
        for at in (at for at, other in enumerate(line) if other == word):
            n_times += 1
            for place, other in enumerate(line):
                between = line[min(at, place) + 1 : max(at, place)]
                distance = 1 + sum(Fraction(kept.get(one, 1)) for one in between)
                if place != at and distance <= window:
                    near, after, before = found.get(other, (0, 0, 0))
                    near += Fraction(kept.get(other, 1)) * (window + 1 - distance)
                    found[other] = near, after + (place == at + 1), before + (place == at - 1)
    return found, n_times


def as_dictionary(seen):
    assert len(set(seen.words)) == len(seen.words) == len(seen.weights)
    return dict(zip(seen.words, map(tuple, seen.weights.tolist()), strict=True))


# -- sentences ---------------------------------------------------------------------------------------------------------

LETTERS = st.sampled_from(["the", "of", "a", "x", "b", "c", "d"])


@given(st.lists(st.lists(st.lists(LETTERS, max_size=12), min_size=1, max_size=3), min_size=1, max_size=3), st.data())
def test_words_around_a_word_by_definition(sentences, data):
    window = data.draw(st.integers(1, 5))
    sentences = [[*lines, data.draw(st.permutations(["x", *data.draw(st.lists(LETTERS))]))] for lines in sentences]
    texts = ["\n".join(map(" ".join, lines)) for lines in sentences]
    seen = context_map(window).seen("x", texts)
    expected, n_times = weights_by_definition("x", [line for lines in sentences for line in lines], KEPT, window)
    assert seen.n_times == n_times
    assert as_dictionary(seen) == {word: tuple(map(float, row)) for word, row in expected.items()}  # exact: of halves


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("cut", ["words", "spaces"])
def test_words_around_a_word_are_those_that_are_counted_in_a_text(window, cut):
    """No word of a short text is subsampled."""
    generator = np.random.default_rng(window)
    text = "\n".join(
        " ".join(generator.choice(["Low,", "high", "'s", "x-ray", "low", "東京", "!"], 9)) for _ in range(30)
    )
    counted = Cooccurrences.of_block(text, Counting(cut, window=window), [])
    contexts, n_words = context_map(window, cut=cut, kept={}), len(counted)
    indptr, columns, values = counted.rows(slice(0, n_words))
    for row, word in enumerate(counted.words):
        expected = np.zeros((n_words, 3))
        some = slice(indptr[row], indptr[row + 1])
        expected[columns[some] % n_words, columns[some] // n_words] = values[some]
        seen = contexts.seen(word, text)
        found = np.zeros((n_words, 3))
        found[[counted.words.index(other) for other in seen.words]] = seen.weights
        assert np.array_equal(found, expected), word
        assert seen.n_times == counted.counts[row]


def test_frequent_words_count_as_they_do_on_average_in_texts_that_leave_them_out_by_chance():
    """2,000 times the same line in texts that are thinned with other seeds: near words as in the mean of all."""
    line = "b the c x the the d e"
    text, window = f"{line}\n" * 2000, 3
    totals, n_seeds = {}, 20
    for seed in range(n_seeds):
        counting = Counting(window=window, thin=1e-4, seed=seed)
        counted = Cooccurrences.of_block(text, counting, [])
        indptr, columns, values = counted.rows(slice(0, len(counted)))
        row = counted.words.index("x")
        for column, value in zip(
            columns[indptr[row] : indptr[row + 1]], values[indptr[row] : indptr[row + 1]], strict=True
        ):
            if column < len(counted):
                word = counted.words[column]
                totals[word] = totals.get(word, 0) + value / n_seeds
    shares = {word: min(1, (x := 100 / (2000 * line.split().count(word))) + x**0.5) for word in set(line.split())}
    kept = {word: share for word, share in shares.items() if share < 1}
    assert {*kept} == {*shares}  # so frequent are all of them here, also x
    seen = context_map(window, kept=kept).seen("x", line)
    found = {word: 2000 * shares["x"] * near for word, (near, _, _) in as_dictionary(seen).items()}
    assert found["the"] == pytest.approx(totals["the"], rel=0.05)
    assert found["c"] == pytest.approx(totals["c"], rel=0.05)
    assert found["d"] == pytest.approx(totals["d"], rel=0.05)


def test_what_may_be_passed_as_sentences():
    contexts = context_map()
    expected = as_dictionary(contexts.seen("x", ["b x c", "x d"]))
    assert expected == {"b": (3, 0, 1), "c": (3, 1, 0), "d": (3, 1, 0)}
    for sentences in (("b x c", "x d"), (one for one in ["b x c", "x d"]), np.array(["b x c", "x d"]), "b x c\nx d"):
        assert as_dictionary(contexts.seen("x", sentences)) == expected
    assert as_dictionary(contexts.seen("x", "b x c\r\nx d\n")) == expected
    assert as_dictionary(contexts.seen("x", ["", "b x c"][1:])) == {"b": (3, 0, 1), "c": (3, 1, 0)}


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_the_word_at_the_ends_and_alone(end):
    contexts = context_map(window=2)
    assert as_dictionary(contexts.seen("x", f"x b c d{end}")) == {"b": (2, 1, 0), "c": (1, 0, 0)}
    assert as_dictionary(contexts.seen("x", f"b c d x{end}")) == {"d": (2, 0, 1), "c": (1, 0, 0)}
    seen = contexts.seen("x", f"x{end}")
    assert (seen.words, seen.weights.shape, seen.n_times) == ([], (0, 3), 1)
    assert seen.features(np.zeros((0, DIMS), np.float32)).tolist() == [0] * (3 * DIMS)
    assert contexts.telling(seen, np.zeros((0, DIMS), np.float32)) == []


def test_a_word_among_its_own_contexts():
    assert as_dictionary(context_map(window=2).seen("x", "x x")) == {"x": (4, 1, 1)}


def test_the_text_is_read_as_it_was_for_the_map():
    lower, cased = context_map(), context_map(lowercase=False)
    assert as_dictionary(lower.seen("Straße", "Die STRASSE! Die STRAßE.")) == as_dictionary(
        lower.seen("straße", "die strasse die straße")
    )
    assert as_dictionary(cased.seen("Low", "The Low low The")) == {"The": (3 + 2, 0, 1), "low": (3, 1, 0)}
    with pytest.raises(InputError, match=r"^'Low' does not occur in its context 'the low'; leave"):
        cased.seen("Low", "the low")
    assert as_dictionary(lower.seen("京", "東京都")) == {"東": (3, 0, 1), "都": (3, 1, 0)}
    assert as_dictionary(lower.seen("café", "un cafe\u0301 noir")) == {"un": (3, 0, 1), "noir": (3, 1, 0)}
    assert as_dictionary(context_map(cut="spaces").seen("c++", "in C++ , we")) == {
        "in": (3, 0, 1), ",": (3, 1, 0), "we": (2, 0, 0)
    }  # fmt: skip
    assert as_dictionary(lower.seen("x", "b \ud800 x")) == {"b": (3, 0, 1)}


@pytest.mark.parametrize("word", ["new york", "c++", "東京", "x.", "'x", "bye bye", "!", "a\nb"])
def test_what_is_not_one_word_of_a_text(word):
    with pytest.raises(InputError) as error:
        context_map().seen(word, f"we see {word} there: c x bye 東 a b")
    assert str(error.value) == f"{word!r} is not a single word of a text, so it cannot have contexts"


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([], "there are no contexts of 'x'; pass at least one sentence, or leave contexts out"),
        ("", "'x' does not occur in its context ''; leave such sentences out"),
        (["x b", "xx b"], "'x' does not occur in its context 'xx b'; leave such sentences out"),
        (["x b", None], "contexts of 'x': sentence 1 is missing (None); drop such sentences"),
        (["x b", 5], "contexts of 'x': sentence 1 is not a str but int: 5"),
        ([b"x b"], "contexts of 'x': sentence 0 is not a str but bytes: b'x b'; decode it: str(data, 'utf-8')"),
        (b"x b", "contexts of 'x': expected sentences (str), got bytes; decode it: str(data, 'utf-8')"),
        (None, "contexts of 'x': expected sentences (a list or column of str), got NoneType"),
        (5, "contexts of 'x': expected sentences (a list or column of str), got int"),
    ],
)
def test_bad_sentences(sentences, message):
    with pytest.raises(InputError) as error:
        context_map().seen("x", sentences)
    assert str(error.value) == message


def test_a_long_text_as_a_sentence():
    """The work is in proportion to the window, not to the text, for each occurrence."""
    seen = context_map(window=1).seen("x", "x b " * 100_000)
    assert as_dictionary(seen) == {"b": (199_999, 100_000, 99_999)}


# -- features ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def around():
    generator = np.random.default_rng(3)
    seen = Seen([*"bcdef"], generator.uniform(0, 3, (5, 3)).astype(np.float32), 7)
    seen.weights[1:, 2] = 0  # one word before
    return seen, generator.normal(size=(5, DIMS)).astype(np.float32)


def test_features_are_weighted_means(around):
    seen, vectors = around
    expected = []
    for kind in range(3):
        total, mean = 0.0, np.zeros(DIMS)
        for row in range(5):
            total += float(seen.weights[row, kind])
            mean += float(seen.weights[row, kind]) * vectors[row].astype(np.float64)
        expected.append(mean / total)
    np.testing.assert_allclose(seen.features(vectors), np.concatenate(expected), rtol=1e-5, atol=1e-6)
    one_sided = Seen(["b"], np.array([[2, 1, 0]], np.float32), 1)
    features = one_sided.features(vectors[:1])
    np.testing.assert_allclose(features, [*vectors[0], *vectors[0], *np.zeros(DIMS)], rtol=1e-6)


def test_the_shares_of_words_in_what_contexts_yield(around):
    seen, vectors = around
    contexts = context_map()
    whole = seen.features(vectors).astype(np.float64) @ contexts.matrix.astype(np.float64)
    expected = {}
    for at, word in enumerate(seen.words):
        part = np.zeros(DIMS)
        for kind in range(3):
            share = float(seen.weights[at, kind]) / float(seen.weights[:, kind].sum())
            part += (
                share
                * vectors[at].astype(np.float64)
                @ contexts.matrix.astype(np.float64)[kind * DIMS : (kind + 1) * DIMS]
            )
        expected[word] = part @ whole / (whole @ whole)
    found = contexts.telling(seen, vectors)
    assert [share for _, share in found] == sorted((share for _, share in found), reverse=True)
    assert dict(found) == pytest.approx(expected, rel=1e-4)
    assert sum(dict(found).values()) == pytest.approx(1, rel=1e-4)


def test_facts_about_spelling_and_contexts():
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(6, DIMS)).astype(np.float32)
    vectors[5] = 0
    n_times, (trust, in_common) = np.array([1, 2, 3, 50, 7, 1]), generator.random((2, 6)).astype(np.float32)
    found = facts_of(trust, in_common, vectors, n_times)
    for row, p, r, times, facts in zip(vectors.astype(np.float64), trust, in_common, n_times, found, strict=True):
        assert facts.tolist() == pytest.approx([p, r, np.log(times), np.log(np.sqrt((row**2).sum()) + 0.001)], rel=1e-5)


# -- regressions -------------------------------------------------------------------------------------------------------


def expanded(features, center, spread):
    """1, the standardized features, and all products of two, in float64."""
    scaled = (features.astype(np.float64) - center) / spread
    n = scaled.shape[1]
    pairs = [scaled[:, i] * scaled[:, j] for i in range(n) for j in range(i, n)]
    return np.stack([np.ones(len(scaled)), *scaled.T, *pairs], axis=1)


@pytest.mark.parametrize(("n_words", "n"), [(400, 3), (30, 4), (5, 3)])
def test_a_regression_solves_the_normal_equations(n_words, n):
    generator = np.random.default_rng(n_words)
    features = generator.normal(generator.normal(size=n), generator.uniform(0.1, 9, n), (n_words, n)).astype(np.float32)
    values = generator.random(n_words)
    found = Regression.fit(features, values)
    center, spread = features.astype(np.float64).mean(axis=0), features.astype(np.float64).std(axis=0)
    np.testing.assert_allclose(found.center, center, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.spread, spread, rtol=1e-4)
    inputs = expanded(features, center, spread)
    penalty = RIDGE * np.eye(inputs.shape[1])
    penalty[0, 0] = 0
    by_products = np.linalg.inv(inputs.T @ inputs + penalty) @ (inputs.T @ values)
    # the products may be in any order: what counts is what is predicted
    np.testing.assert_allclose(found.score(features), inputs @ by_products, rtol=2e-3, atol=2e-3)
    expected = (inputs @ by_products).clip(0, 1)
    np.testing.assert_allclose(found.predict(features), expected, rtol=2e-3, atol=2e-3)


def test_a_regression_on_a_feature_that_is_always_the_same():
    features = np.full((50, 2), 3, np.float32)
    features[:, 1] = np.arange(50)
    found = Regression.fit(features, features[:, 1] / 100)
    assert np.isfinite(found.predict(features)).all()
    assert np.corrcoef(found.predict(features), features[:, 1])[0, 1] > 0.99


def test_no_regression_expects_zero():
    generator = np.random.default_rng(0)
    zeros, ones = np.zeros(4, np.float32), np.ones(4, np.float32)
    none = Regression(zeros, ones, np.zeros(15, np.float32), np.linspace(0, 1, CURVE, dtype=np.float32))
    assert not none.score(generator.normal(size=(9, 4)).astype(np.float32)).any()
    assert np.array_equal(none.bend(np.array([0, 0.25, 1])), [0, 0.25, 1])


# -- mixtures ----------------------------------------------------------------------------------------------------------


def test_the_best_mixture_has_the_highest_expected_cosine():
    """Of 20,000 directions between the two vectors."""
    generator = np.random.default_rng(0)
    p, q, r = generator.uniform([0.01, 0.01, -0.9], [0.95, 0.95, 0.9], (300, 3)).T.astype(np.float32)
    one, other, cosines = best_mixture(p, q, r)
    assert (one >= 0).all() and (other >= 0).all()
    for at in range(300):
        angle = np.arccos(float(r[at]))
        steps = np.linspace(0, angle, 20_001)
        # the direction at an angle from the first vector, as a mixture a s + b c; its cosine with a vector whose
        # cosines with s and c are p and q is a p + b q
        b = np.sin(steps) / np.sin(angle)
        a = np.cos(steps) - b * np.cos(angle)
        expected = a * p[at] + b * q[at]
        best = expected.argmax()
        assert cosines[at] == pytest.approx(min(expected[best], 1), abs=2e-4)
        length = np.sqrt(one[at] ** 2 + other[at] ** 2 + 2 * r[at] * one[at] * other[at])
        if expected[best] < 1:
            assert (one[at] / length, other[at] / length) == pytest.approx((a[best], b[best]), abs=5e-3)


@pytest.mark.parametrize("r", [-1, -0.99, 0.99, 1])
def test_mixtures_of_nearly_parallel_vectors_are_finite(r):
    for p in (0.01, 0.5, 0.95):
        found = best_mixture(*(np.array([x], np.float32) for x in (p, 0.5, r)))
        assert np.isfinite(found).all()
        assert found[0] + found[1] > 0


@pytest.fixture
def words():
    """Composed vectors and features of seven words: without a vector, without contexts, without both, four others."""
    generator = np.random.default_rng(9)
    composed = generator.normal(0, 3, (7, DIMS)).astype(np.float32)
    features = generator.normal(size=(7, 3 * DIMS)).astype(np.float32)
    trust = generator.uniform(0.1, 0.9, 7).astype(np.float32)
    composed[[0, 2]], trust[[0, 2]] = 0, 0
    features[[1, 2]] = 0
    trust[3] = 1
    return composed, trust, features, np.array([3, 1, 1, 5, 1, 2, 1000])


def mixed_by_definition(contexts, composed, trust, features, n_times, in_text):
    vectors, confidence, shares = [], [], []

    def predicted(one, facts):
        inputs = expanded(facts[None].astype(np.float32), one.center.astype(np.float64), one.spread.astype(np.float64))
        n = facts.size
        order = [(i, j) for i in range(n) for j in range(i, n)]
        assert len(order) == inputs.shape[1] - 1 - n
        return float(one.score(facts[None].astype(np.float32))[0])

    for s, p, feature, times in zip(
        composed.astype(np.float64), trust, features.astype(np.float64), n_times, strict=True
    ):
        c = feature @ contexts.matrix.astype(np.float64)
        if not c.any():
            vectors.append(s), confidence.append(p), shares.append(0)
            continue
        length = np.linalg.norm(c)
        nearest = min(range(7), key=lambda at: abs(np.log2(times) - at))
        one = contexts.expected[7 if in_text else nearest]
        unit_s, unit_c = s / max(np.linalg.norm(s), 1e-30), c / length
        r = unit_s @ unit_c
        facts = np.array([p, r, np.log(times if in_text else 2**nearest), np.log(length + 1e-3)])
        p2 = np.clip(predicted(one.of_spelling, facts), 0.01, 0.95) if s.any() else 0
        q2 = np.clip(predicted(one.of_contexts, facts), 0.01, 0.95)
        a, b = max(p2 - r * q2, 0), max(q2 - r * p2, 0)
        mixture = a * unit_s + b * unit_c
        cosine = (a * p2 + b * q2) / np.linalg.norm(mixture)
        mixture *= (np.linalg.norm(s) if s.any() else length) / np.linalg.norm(mixture)
        vectors.append(mixture)
        confidence.append(np.interp(min(cosine, 1), np.linspace(0, 1, 101), one.of_contexts.curve))
        shares.append(b / (a + b))
    return np.array(vectors), np.array(confidence), np.array(shares)


@pytest.mark.parametrize("in_text", [False, True])
def test_mixtures_by_definition(words, in_text):
    contexts = context_map(seed=4)
    found = contexts.mix(*words, in_text=in_text)
    for part, expected in zip(found, mixed_by_definition(contexts, *words, in_text), strict=True):
        assert part.dtype == np.float32
        np.testing.assert_allclose(part, expected, rtol=2e-3, atol=1e-4)


def test_mixtures_and_lengths(words):
    composed, trust, features, _ = words
    contexts = context_map(seed=5)
    vectors, confidence, shares = contexts.mix(*words)
    assert vectors[1:3].tobytes() == composed[1:3].tobytes()  # without contexts
    assert confidence[1:3].tobytes() == trust[1:3].tobytes()
    assert shares[:3].tolist() == [1, 0, 0]
    lengths = np.linalg.norm(composed, axis=1)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1)[3:], lengths[3:], rtol=1e-5)
    np.testing.assert_allclose(vectors[0], features[0] @ contexts.matrix.astype(np.float32), rtol=1e-4)
    assert ((shares >= 0) & (shares <= 1)).all() and ((confidence >= 0) & (confidence <= 1)).all()
    again = contexts.mix(*(part[4:] for part in words))
    assert np.allclose(again.vectors, vectors[4:], rtol=1e-5)  # one word does not depend on the others


def test_what_is_mixed_of_nothing():
    nothing = np.zeros((0, DIMS), np.float32)
    found = context_map().mix(nothing, np.zeros(0, np.float32), np.zeros((0, 3 * DIMS), np.float32), np.zeros(0))
    assert [part.shape for part in found] == [(0, DIMS), (0,), (0,)]


# -- copies ------------------------------------------------------------------------------------------------------------


def same(one, other):
    left, right = one.tensors(), other.tensors()
    assert left.keys() == right.keys()
    return all(np.array_equal(left[name], right[name]) for name in left)


def test_tensors_and_pickles_keep_everything():
    contexts = context_map()
    before = pickle.dumps(contexts)
    contexts.seen("x", "the x b")
    assert pickle.dumps(contexts) == before  # what was computed on the way is not kept
    for clone in (ContextMap.of_tensors(contexts.tensors()), pickle.loads(before)):
        assert same(clone, contexts)
        assert as_dictionary(clone.seen("x", "the x b")) == as_dictionary(contexts.seen("x", "the x b"))
        assert unpack_strings(*clone.words) == [*KEPT]
    assert ContextMap.of_tensors({}) is None
    assert all(name.startswith("from_contexts.") for name in contexts.tensors())


def test_a_map_in_other_directions(words):
    """If all directions are kept, only the axes are others."""
    composed, trust, features, n_times = words
    directions, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(DIMS, DIMS)))
    contexts, turned = context_map(), features.reshape(-1, 3, DIMS) @ directions
    expected = contexts.mix(*words)
    found = contexts.projected(directions.astype(np.float32)).mix(
        (composed @ directions).astype(np.float32), trust, turned.reshape(-1, 3 * DIMS).astype(np.float32), n_times
    )
    np.testing.assert_allclose(found.vectors, expected.vectors @ directions, rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=5e-3)
    few = contexts.projected(directions[:, :2].astype(np.float32))
    part = few.matrix.reshape(3, 2, 2)
    for kind in range(3):
        whole = contexts.matrix[kind * DIMS : (kind + 1) * DIMS].astype(np.float64)
        np.testing.assert_allclose(part[kind], directions[:, :2].T @ whole @ directions[:, :2], rtol=2e-3)
