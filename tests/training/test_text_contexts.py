"""Contexts in training and in complete: compared with dense sums, and with worlds in which the answer is known."""

import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest

import pbos
from pbos.corpus import cooccurrences
from pbos.corpus.cooccurrences import Cooccurrences, Counting
from pbos.errors import FormatError, InputError
from pbos.training import contexts as training
from pbos.training.contexts import TextContexts


def units(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-30)


def cosines(left, right):
    return np.sum(units(np.float64(left)) * units(np.float64(right)), axis=1)


@pytest.fixture(scope="module")
def lines(sentences):
    return sentences


@pytest.fixture(scope="module")
def given(small_vectors):
    return pbos.WordVectors(small_vectors.words[:1500], small_vectors.vectors[:1500])


@pytest.fixture(scope="module")
def new(small_vectors):
    return small_vectors.words[1500:]


@pytest.fixture(scope="module")
def counted(lines):
    return Cooccurrences.of_block("\n".join(lines), Counting(), [])


@pytest.fixture(scope="module")
def model(contextual):
    return contextual


@pytest.fixture(scope="module")
def plain(given):
    return pbos.train(given)


def dense(counted):
    """The counts of each kind, (3, n, n)."""
    indptr, columns, values = counted.rows(slice(0, len(counted)))
    found = np.zeros((len(counted), 3 * len(counted)))
    for row in range(len(counted)):
        found[row, columns[indptr[row] : indptr[row + 1]]] = values[indptr[row] : indptr[row + 1]]
    return found.reshape(len(counted), 3, len(counted)).transpose(1, 0, 2)


def means(counts, vectors):
    """The mean vectors of each kind of context, weighted by counts (3, n, n)."""
    totals = np.maximum(counts.sum(axis=2, keepdims=True), 1e-9)
    return np.concatenate([part / total @ vectors for part, total in zip(counts, totals, strict=True)], axis=1)


# -- the contexts of a text --------------------------------------------------------------------------------------------


def test_the_contexts_of_a_text_are_sums_over_its_cooccurrences(model, counted):
    vectors = model.embed(list(counted.words)).astype(np.float64)
    text, places = TextContexts(counted, model), np.arange(len(counted))
    expected = means(dense(counted), vectors)
    np.testing.assert_allclose(text.features(places), expected, rtol=1e-4, atol=1e-5)
    some = np.array([1700, 3, 3, 900, 0, 1700])  # in any order, and more than once
    np.testing.assert_allclose(text.features(some), expected[some], rtol=1e-4, atol=1e-5)
    assert text.features(places[:0]).shape == (0, 3 * model.dims)
    known = {word: row for row, word in enumerate(model.words)}
    assert text.rows.tolist() == [known.get(word, -1) for word in counted.words]


def test_only_the_most_frequent_words_are_contexts(model, counted, monkeypatch):
    monkeypatch.setattr(training, "MOST_CONTEXTS", 300)
    frequent = np.argsort(-counted.counts, kind="stable")[:300]
    counts = dense(counted)
    counts[:, :, np.setdiff1d(np.arange(len(counted)), frequent)] = 0
    expected = means(counts, model.embed(list(counted.words)).astype(np.float64))
    found = TextContexts(counted, model).features(np.arange(len(counted)))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_word_without_neighbors_and_a_word_at_ends_of_lines(model):
    first, second, third = model.words[:3]
    counted = Cooccurrences.of_block(f"{first} {second}\n{third}\n", Counting(), [])
    found = TextContexts(counted, model).features(np.arange(3)).reshape(3, 3, -1)
    by_word = {word: found[counted.words.index(word)] for word in (first, second, third)}
    nothing = np.zeros(model.dims)
    np.testing.assert_allclose(by_word[first], [model[second], model[second], nothing], rtol=1e-5)
    np.testing.assert_allclose(by_word[second], [model[first], nothing, model[first]], rtol=1e-5)
    assert not by_word[third].any()


@pytest.mark.parametrize("left", [None, 4])
def test_contexts_do_not_depend_on_threads_or_on_the_words_asked_for(model, counted, left, monkeypatch):
    monkeypatch.setattr(cooccurrences, "ENTRIES", 5000)  # many ranges of rows
    places = np.arange(0, len(counted), 3)
    expected = TextContexts(counted, model, 1).features(places, left)
    assert len(cooccurrences.row_ranges(counted.indptr)) > 20
    for threads in (2, 5, None):
        assert TextContexts(counted, model, threads).features(places, left).tobytes() == expected.tobytes()


def same_rows(n_rows, near, sides, n_times):
    """Co-occurrences in which many words have the same contexts: one or two of each kind."""
    n_words = n_rows + 4
    names = sorted(f"w{number:05}" for number in range(n_words))
    row = np.array([0, 1, n_words + 2, n_words + 3, 2 * n_words + 1, 2 * n_words + 2])
    counts = np.array([near, 3, *sides, 1, 5], np.uint32)
    indptr = np.zeros(n_words + 1, np.int64)
    indptr[5:] = np.cumsum(np.full(n_rows, row.size))
    lines = np.frombuffer("".join(f"{name}\n" for name in names).encode(), np.uint8)
    indices, data = np.tile(row, n_rows).astype(np.int32), np.tile(counts, n_rows)
    return Cooccurrences(lines, np.full(n_words, n_times), indptr, indices, data, Counting(), [])


class Axes:
    """In place of a model: the first four words have the axes as vectors, and others have none."""

    subwords = SimpleNamespace(word_rows={}, read=lambda words: words)
    dims = 4

    def embed(self, words, threads=None):
        return np.vstack([np.eye(4), np.zeros((len(words) - 4, 4))]).astype(np.float32)


def test_some_occurrences_of_a_word_stand_for_all_of_them():
    """On average over words with the same contexts, the shares are those of all occurrences; each has its own."""
    n_rows, n_times, left = 3000, 600, 60
    counted = same_rows(n_rows, near=1500, sides=(300, 200), n_times=n_times)
    text, places = TextContexts(counted, Axes()), np.arange(4, n_rows + 4)
    whole, some = text.features(places), text.features(places, left)
    assert np.ptp(whole, axis=0).max() == 0  # all the same
    near, after = whole[0, :4], whole[0, 4:8]
    np.testing.assert_allclose(near, [1500 / 1503, 3 / 1503, 0, 0], rtol=1e-5)
    np.testing.assert_allclose(after, [0, 0, 300 / 500, 200 / 500], rtol=1e-5)
    assert np.array_equal(some, text.features(places, left))
    np.testing.assert_allclose(some[:, :8].mean(axis=0), whole[0, :8], atol=0.004)
    # 300 of 500 next words were of one kind; of about 50 that are left, the share of it varies as in a draw
    spread = np.sqrt(0.6 * 0.4 / (500 * left / n_times))
    assert some[:, 6].std() == pytest.approx(spread, rel=0.1)
    # the one occurrence just before it is kept for a tenth of the words, and five others for 1 - .9 ** 5
    kinds = some[:, 8:]
    assert np.mean(kinds[:, 1] > 0) == pytest.approx(0.1, abs=0.02)
    assert np.mean(~kinds.any(axis=1)) == pytest.approx(0.9**6, abs=0.03)
    assert not np.array_equal(text.features(places, 30), some)


def test_as_many_occurrences_as_there_are(model, counted):
    """Nothing is left out then, but near words count as often as they occur at least."""
    text, places = TextContexts(counted, model), np.arange(len(counted))
    counts = dense(counted)
    counts[0] = np.ceil(counts[0] / 5)  # a near word adds at most the window
    expected = means(counts, model.embed(list(counted.words)).astype(np.float64))
    np.testing.assert_allclose(text.features(places, 10**6), expected, rtol=1e-4, atol=1e-5)


# -- train -------------------------------------------------------------------------------------------------------------


def tensors_of(model):
    return {name: array.tobytes() for name, array in model._contexts.tensors().items()}


def test_a_text_does_not_change_what_spelling_says(model, plain, new):
    assert model.has_contexts and not plain.has_contexts
    words = [*new, *model.words[:99]]
    assert model.embed(words).tobytes() == plain.embed(words).tobytes()
    assert model.confidence(words).tobytes() == plain.confidence(words).tobytes()


def test_the_map_does_not_depend_on_threads_or_on_how_the_text_is_given(given, lines, model, tmp_path):
    expected = tensors_of(model)
    for threads in (1, 2, 3):
        assert tensors_of(pbos.train(given, text=iter(lines), threads=threads)) == expected
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    pbos.count(tmp_path / "text.txt", cooccurrences=tmp_path / "text.counting")
    for text in (tmp_path / "text.txt", str(tmp_path / "text.counting"), tmp_path / "text.counting"):
        assert tensors_of(pbos.train(given, text=text)) == expected
    tokens = tensors_of(pbos.train(given, text=[line.split() for line in lines]))
    assert {name for name in expected if tokens[name] != expected[name]} == {"from_contexts.counting"}  # cut at spaces


@pytest.mark.parametrize("options", [{"memory": "1G"}, {"memory": "512M"}, {"parts": "kept", "memory": "512M"}])
def test_contexts_of_a_model_trained_in_little_memory(given, counted, model, options, tmp_path):
    options = {**options, **({"parts": tmp_path / "kept"} if "parts" in options else {})}
    found = pbos.train(given, text=counted, output=tmp_path / "m", **options)
    assert tensors_of(found) == tensors_of(pbos.load(tmp_path / "m")) == tensors_of(model)


def test_other_settings_of_training(given, counted, lines, new):
    contexts = {word: some[:3] for word in new[:50] if (some := [line for line in lines if word in line.split()])}
    assert len(contexts) > 40
    for options in (
        {"heldout": 0.2},
        {"max_vectors": 900},
        {"dtype": "int8"},
        {"dtype": "float16"},
        {"seed": 3},
        {"lam": 0.01, "own_share": 0.5, "reliability": 1.0},
        {"preset": "pbos", "solver": "ridge", "confidence": True},
        {"normalization": "casefold"},
        {"normalization": "NFC"},
    ):
        found = pbos.train(given, text=counted, **options)
        assert found.has_contexts
        vectors, composed = found.embed([*contexts], contexts=contexts), found.embed([*contexts])
        assert np.isfinite(vectors).all()
        assert not np.array_equal(vectors, composed)
        confidence = found.confidence([*contexts], contexts=contexts)
        assert 0 < confidence.min() < confidence.max() <= 1


@pytest.mark.parametrize("scales", [0, 1e-30, 1e13, 10.0 ** np.arange(-18, 14)])
def test_vectors_of_any_size(given, counted, new, scales, tmp_path):
    """The map is kept in float16, and what it yields is finite."""
    table = pbos.WordVectors(given.words, (given.vectors * scales).astype(np.float32))
    pbos.train(table, text=counted).save(tmp_path / "m")
    model = pbos.load(tmp_path / "m")
    found = training.mixed_words(model, counted, new, None)
    assert all(np.isfinite(part).all() for part in found)
    assert found.vectors.any() == np.any(scales)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "bos"}, "text needs a model that has a confidence; train it with confidence=True"),
        ({"confidence": False}, "text needs a model that has a confidence; train it with confidence=True"),
        ({"limit": 999}, "a text needs a table of at least 1,000 words, got 999"),
        ({"heldout": 0.5}, "a text needs a table of at least 1,000 words, got 750"),
        ({"text": []}, "there is no text; pass at least one sentence"),
        ({"text": ["", "  \n"]}, "there are no words in the text"),
        ({"text": ["one", "two", "three"]}, "the text has no contexts: every word is alone on its line"),
        (
            {"text": ["the cat sat on the mat"] * 99},
            "only 0 words of the table occur 5 times in the text, and contexts",
        ),
        ({"text": 5}, "text"),
    ],
)
def test_what_a_text_needs(given, options, message, monkeypatch):
    monkeypatch.setattr("pbos.training.train.fit", lambda *_: pytest.fail("it was trained first"))
    with pytest.raises(InputError, match=message):
        pbos.train(given, **{"text": ["a b c"], **options})


def test_a_text_that_is_not_there(given, tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.txt: no such file; pass files, or patterns"):
        pbos.train(given, text=tmp_path / "nowhere.txt")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FormatError, match="is not a folder of co-occurrences"):
        pbos.train(given, text=tmp_path / "folder")


def test_words_that_were_counted_without_contexts(given, lines):
    counted = Cooccurrences.of_block("\n".join(lines), Counting(window=0), [])
    with pytest.raises(InputError, match="the text has no contexts: every word is alone on its line, or only words"):
        pbos.train(given, text=counted)


# -- complete ----------------------------------------------------------------------------------------------------------


def test_words_come_nearer_to_their_true_vectors_with_a_text(small_vectors, given, new, lines, model):
    true = small_vectors.vectors[1500:]
    without, found = pbos.complete(given, new, model=model), pbos.complete(given, new, text=lines, model=model)
    assert found.words == without.words == [*given.words, *new]
    assert found.vectors[:1500].tobytes() == given.vectors.tobytes()
    spelling, both = cosines(without[new], true), cosines(found[new], true)
    assert both.mean() > spelling.mean() + 0.02
    poor = spelling < 0.8
    assert poor.sum() > 50
    assert np.mean(both[poor] > spelling[poor]) > 0.8
    np.testing.assert_allclose(np.linalg.norm(found[new], axis=1), np.linalg.norm(without[new], axis=1), rtol=1e-4)


def mixed_by_hand(model, counted, words):
    """The mixtures of words of a text, from dense sums over its co-occurrences."""
    vectors, places = model.embed(list(counted.words)).astype(np.float64), [*map(counted.words.index, words)]
    features = means(dense(counted), vectors)
    return model._contexts.mix(
        model.embed(words),
        model.confidence(words),
        features[places].astype(np.float32),
        counted.counts[places],
        in_text=True,
    )


def test_completed_vectors_by_hand(given, new, counted, model):
    some = [word for word in new[::-7] if word in counted.words]
    mixed = mixed_by_hand(model, counted, some)
    found = pbos.complete(given, [*some[:20], "ksenoz", *some[20:]], text=counted, model=model)
    length = np.linalg.norm(given.vectors[1350:], axis=1).mean()
    np.testing.assert_allclose(found[some], length * units(mixed.vectors), rtol=1e-3, atol=1e-4)
    alone = model["ksenoz"]  # does not occur
    np.testing.assert_allclose(found["ksenoz"], length * units(alone), rtol=1e-5)


def test_forms_of_one_word_of_a_text(given, new, counted, model):
    """They have the same contexts, and the words after them have their own."""
    some = [word for word in new if word in counted.words][:30]
    forms = [form for word in some for form in (word.upper(), word, word.capitalize())]
    found = pbos.complete(given, forms, text=counted, model=model)
    expected = pbos.complete(given, some, text=counted, model=model)
    assert found.words[1500:] == forms
    for at in range(3):
        np.testing.assert_allclose(found[forms[at::3]], expected[some], rtol=1e-4, atol=1e-5)


def test_words_of_the_text_are_added_if_there_is_no_list(given, counted, model):
    n_times = dict(zip(counted.words, counted.counts.tolist(), strict=True))
    for min_count in (1, 5, 40, 10**6):
        found = pbos.complete(given, text=counted, model=model, min_count=min_count)
        expected = {word for word, count in n_times.items() if count >= min_count and word not in given}
        assert {*found.words[1500:]} == expected
        order = [n_times[word] for word in found.words[1500:]]
        assert order == sorted(order, reverse=True)
    assert {*pbos.complete(given, text=counted, model=model).words[1500:]} == {
        word for word, count in n_times.items() if count >= 5 and word not in given
    }


def test_texts_of_all_kinds(given, new, lines, model, tmp_path):
    expected = pbos.complete(given, new, text=lines, model=model)
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    pbos.count(tmp_path / "text.txt", cooccurrences=tmp_path / "text.counting")
    for text in (iter(lines), tmp_path / "text.txt", [tmp_path / "text.txt"], str(tmp_path / "text.counting")):
        found = pbos.complete(given, iter(new), text=text, model=model, threads=2)
        assert (found.words, found.vectors.tobytes()) == (expected.words, expected.vectors.tobytes())


def test_a_column_of_a_table_as_text(given, new, lines, model, tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"title": ["x"] * len(lines), "body": lines})
    parquet.write_table(table, tmp_path / "text.parquet")
    expected = pbos.complete(given, new, text=lines, model=model)
    found = pbos.complete(given, new, text=tmp_path / "text.parquet", column="body", model=model)
    assert found.vectors.tobytes() == expected.vectors.tobytes()
    with pytest.raises(InputError, match="title"):
        pbos.complete(given, new, text=tmp_path / "text.parquet", model=model)


def test_a_model_is_trained_with_the_text_if_none_is_given(given, new, lines, counted, model):
    expected = pbos.complete(given, new, text=counted, model=model)
    for text in (lines, counted):
        assert pbos.complete(given, new, text=text).vectors.tobytes() == expected.vectors.tobytes()


def test_a_model_of_another_text(small_vectors, given, new, counted, lines):
    """What a map has learned from one text serves for another."""
    half = pbos.train(given, text=lines[:10_000])
    other = Cooccurrences.of_block("\n".join(lines[10_000:]), Counting(window=3), [])
    found, without = (pbos.complete(given, new, text=text, model=half) for text in (other, None))
    true = small_vectors.vectors[1500:]
    assert cosines(found[new], true).mean() > cosines(without[new], true).mean()


def test_words_that_do_not_occur_are_composed_from_their_spelling(given, new, model):
    text = ["nothing of this is there", "nor is this"]
    expected, found = (pbos.complete(given, new, text=some, model=model) for some in (None, text))
    assert found.vectors.tobytes() == expected.vectors.tobytes()


def test_the_least_confidence_is_that_of_mixtures(given, new, counted, model):
    new = [word for word in new if word in counted.words]
    confidence = dict(zip(new, mixed_by_hand(model, counted, new).confidence.tolist(), strict=True))
    least = float(np.quantile([*confidence.values()], 0.3)) + 1e-5
    found = pbos.complete(given, new, text=counted, model=model, min_confidence=least)
    assert found.words == [*given.words, *(word for word in new if confidence[word] >= least)]
    assert 1600 < len(found) < 1900
    assert {*found.words} != {*pbos.complete(given, new, model=model, min_confidence=least).words}


def test_training_words_of_the_model_that_the_table_lacks_stay_as_they_are(given, counted, model):
    few = pbos.WordVectors(given.words[:1200], given.vectors[:1200])
    asked = given.words[1200:1300]
    found = pbos.complete(few, asked, text=counted, model=model)
    np.testing.assert_allclose(cosines(found[asked], model[asked]), 1, rtol=1e-5)


def test_a_word_without_known_subwords_gets_the_vector_of_its_contexts(small_vectors, given, new, lines, model):
    assert not model["ЖЖ"].any()
    text = [line.replace(new[0], "жж") for line in lines]
    assert sum("жж" in line for line in text) >= 10
    found = pbos.complete(given, ["ЖЖ", "ЩЩ"], text=text, model=model)
    assert found.words[1500:] == ["ЖЖ"]  # of the other one, nothing is known
    assert cosines(found["ЖЖ"][None], small_vectors.vectors[1500:1501])[0] > 0.4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": None, "text": None}, "there are no words to add; pass words, a text, or both"),
        ({"min_count": 0}, "min_count must be at least 1, got 0"),
        ({"text": []}, "there is no text; pass at least one sentence"),
        ({"text": ["", " "]}, "there are no words in the text"),
        ({"text": ["alone"]}, "the text has no contexts: every word is alone on its line"),
        ({"preset": "bos"}, "preset is for training"),
        ({"words": ["a", ""]}, "word 1 is an empty string; drop it"),
        ({"model": None, "preset": "bos"}, "text needs a model that has a confidence"),
        ({"model": None, "limit": 900}, "a text needs a table of at least 1,000 words, got 900"),
        ({"model": None}, "only 0 words of the table occur 5 times in the text"),
    ],
)
def test_bad_arguments(given, model, options, message):
    with pytest.raises(InputError, match=message):
        pbos.complete(**{"vectors": given, "words": ["word"], "text": ["a b c"], "model": model, **options})


def never_read():
    pytest.fail("the text was read first")
    yield ""


def test_what_is_wrong_with_a_model_is_found_before_the_text_is_read(given, model, plain):
    for arguments in ({"vectors": (["a"], np.ones((1, 3)))}, {"model": plain}, {"words": ["a", None]}, {"limit": 5}):
        with pytest.raises(InputError, match=r"3 dimensions|cannot use contexts|word 1 is|limit is for"):
            pbos.complete(**{"vectors": given, "words": ["a"], "text": never_read(), "model": model, **arguments})


def test_a_text_is_counted_in_the_memory_for_training(given, lines, tmp_path, monkeypatch):
    counting = importlib.import_module("pbos.corpus.count")  # the name is a function, too
    asked, pool_of = [], counting.pool_of
    monkeypatch.setattr(counting, "pool_of", lambda *arguments: asked.append(arguments[-1]) or pool_of(*arguments))
    pbos.train(given, text=lines, memory="1G", output=tmp_path / "m")
    pbos.train(given, text=lines)
    assert asked == [1 << 30, 4 << 30]


def test_a_model_without_a_map(given, plain):
    with pytest.raises(InputError) as error:
        pbos.complete(given, ["word"], text=["a b c"], model=plain)
    assert str(error.value) == "this model cannot use contexts; train one with a text, or leave out the model"


# -- real data ---------------------------------------------------------------------------------------------------------


def test_hidden_words_of_real_vectors(shared_data, tmp_path):
    """Every fourth word of GloVe's is hidden; the text is of another kind than GloVe's, and small."""
    import gzip

    table = pbos.WordVectors.read(shared_data / "vectors" / "glove840b-en-10k")
    hidden = np.arange(len(table)) % 4 == 3
    words = np.array(table.words, object)
    given = pbos.WordVectors(words[~hidden].tolist(), table.vectors[~hidden])
    with gzip.open(shared_data / "corpus" / "novels-en.txt.gz", "rt", encoding="utf-8") as stream:
        lines = stream.read(12_000_000)
    (tmp_path / "text.txt").write_text(lines, encoding="utf-8")
    pbos.count(tmp_path / "text.txt", cooccurrences=tmp_path / "text.counting", lowercase=False)
    model = pbos.train(given, text=tmp_path / "text.counting")
    counts = Cooccurrences.load(tmp_path / "text.counting")
    n_times = dict(zip(counts.words, counts.counts.tolist(), strict=True))
    new = [word for word in words[hidden].tolist() if n_times.get(word, 0) >= 20]
    assert len(new) > 500
    found = pbos.complete(given, new, text=tmp_path / "text.counting", model=model)
    spelling = pbos.complete(given, new, model=model)
    both, alone = cosines(found[new], table[new]), cosines(spelling[new], table[new])
    report = {"words": len(new), "both": round(both.mean(), 3), "spelling": round(alone.mean(), 3)}
    assert both.mean() > alone.mean() + 0.05, json.dumps(report)
    assert np.mean(both > alone) > 0.6, json.dumps(report)
    trust = training.mixed_words(model, counts, new, None).confidence
    assert trust.mean() == pytest.approx(both.mean(), abs=0.05)
    sentences = [line for line in lines.split("\n") if new[0] in line.split()][:1]
    assert sentences
    assert model.confidence(new[0], contexts=sentences) > 0
