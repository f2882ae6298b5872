"""The API returns what the model's methods return."""

import io
import json
import re
import threading

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos.server import Limits, make_app
from pbos.server.answers import compared, vectors_of, words_to_try
from pbos.server.app import short_digits
from pbos.words.subwords import Subwords
from pbos.words.text import pack_strings

WORDS = ["higher", "unfriendliest", "naïvety", "東京", "a b", "<&>"]


@pytest.fixture(scope="module")
def model():
    return pbos.load()


@pytest.fixture(scope="module")
def client():
    with TestClient(make_app()) as client:
        yield client


def test_embed(client, model):
    expected = model.embed(WORDS)
    for word, vector in zip(WORDS, expected, strict=True):
        answer = client.get("/embed", params={"word": word}).json()
        assert answer["word"] == word
        np.testing.assert_array_equal(np.array(answer["vector"], np.float32), model[word])
        np.testing.assert_allclose(answer["vector"], vector, rtol=1e-5, atol=1e-6)
    answer = client.post("/embed", json={"words": WORDS}).json()
    assert answer["shape"] == [len(WORDS), model.dims]
    np.testing.assert_array_equal(np.array(answer["vectors"], np.float32), expected)


def test_embed_as_bytes(client, model):
    expected = model.embed(WORDS)
    raw = client.post("/embed", json={"words": WORDS}, headers={"Accept": "application/octet-stream"})
    shape = tuple(map(int, raw.headers["X-Shape"].split(",")))
    assert (raw.headers["Content-Type"], raw.headers["X-Dtype"]) == ("application/octet-stream", "float32")
    np.testing.assert_array_equal(np.frombuffer(raw.content, "<f4").reshape(shape), expected)
    npy = client.post("/embed", json={"words": WORDS}, headers={"Accept": "application/x-npy, */*;q=0.1"})
    np.testing.assert_array_equal(np.load(io.BytesIO(npy.content), allow_pickle=False), expected)
    none = client.post("/embed", json={"words": []}, headers={"Accept": "application/octet-stream"})
    assert (none.content, none.headers["X-Shape"]) == (b"", f"0,{model.dims}")


def test_segment(client, model):
    def plain(word, n):
        cuts = [{"pieces": list(one.pieces), "probability": one.probability} for one in model.segment(word, n)]
        return {"word": word, "segmentations": cuts}

    for word in WORDS:
        assert client.get("/segment", params={"word": word, "n": 3}).json() == plain(word, 3)
    assert client.get("/segment", params={"word": "higher"}).json() == plain("higher", 1)
    answer = client.post("/segment", json={"words": WORDS, "n": 2}).json()
    assert answer == {"results": [plain(word, 2) for word in WORDS]}


def test_weights(client, model):
    def plain(word):
        return {"word": word, "weights": [{"subword": s, "weight": weight} for s, weight in model.weights(word)]}

    for word in WORDS:
        assert client.get("/weights", params={"word": word}).json() == plain(word)
    assert client.post("/weights", json={"words": WORDS}).json() == {"results": [plain(word) for word in WORDS]}


def test_neighbors(client, model):
    answer = client.get("/neighbors", params={"word": "unfriendliest", "n": 4}).json()
    assert [(one["word"], one["cosine"]) for one in answer["neighbors"]] == model.neighbors("unfriendliest", 4)


@pytest.mark.parametrize(
    ("path", "times"),
    [
        ("/embed?word=unfriendliest", 2),
        ("/neighbors?word=unfriendliest", 2),
        ("/explain?word=unfriendliest", 2),
        ("/similarity?first=unfriendliest&second=king", 1),
        ("/compare?first=unfriendliest&second=king", 2),
        ("/segment?word=unfriendliest", 0),
        ("/weights?word=unfriendliest", 0),
    ],
)
def test_a_word_is_composed_for_its_vector_and_its_confidence(client, monkeypatch, path, times):
    made = []

    def note(method):
        def noting(self, words, *arguments, **options):
            made.extend(words)
            return method(self, words, *arguments, **options)

        return noting

    for name in ("embed", "confidence"):
        monkeypatch.setattr(Subwords, name, note(getattr(Subwords, name)))
    assert client.get(path).status_code == 200
    assert made.count("unfriendliest") == times


def test_confidence(confident, small_vectors):
    words = [small_vectors.words[0], *small_vectors.words[1500:1510], "ЖЖ"]
    expected = [confident.confidence(word) for word in words]
    with TestClient(make_app(confident)) as client:
        answers = client.post("/confidence", json={"words": words}).json()["results"]
        assert [one["word"] for one in answers] == words
        assert [one["confidence"] for one in answers] == pytest.approx(expected, abs=1e-5)
        for path in ("/embed", "/neighbors", "/explain"):
            for word, confidence in zip(words, expected, strict=True):
                assert client.get(path, params={"word": word}).json()["confidence"] == confidence
        assert client.get("/model").json()["confidence"] is True


def test_a_model_without_confidence():
    with TestClient(make_app(pbos.train({"high": [1.0, 0.0], "higher": [0.0, 1.0]}, lam=0.1))) as client:
        for path in ("/embed", "/neighbors", "/explain"):
            assert client.get(path, params={"word": "highest"}).json()["confidence"] is None
        answer = client.post("/confidence", json={"words": ["highest"]})
        assert (answer.status_code, "this model has no confidence" in answer.text) == (422, True)
        assert client.get("/model").json()["confidence"] is False


def test_similarity(client, model):
    answer = client.get("/similarity", params={"first": "king", "second": "queen"}).json()
    assert answer == {"words": ["king", "queen"], "cosine": model.similarity("king", "queen")}
    pairs = [["king", "queen"], ["cat", "東京"], ["cat", "kitten"]]
    answers = client.post("/similarity", json={"pairs": pairs}).json()["results"]
    assert [one["words"] for one in answers] == pairs
    assert [one["cosine"] for one in answers] == model.similarity(*zip(*pairs, strict=True)).tolist()


def test_explain(client, model):
    for word in WORDS:
        answer = client.get("/explain", params={"word": word, "n": 3, "neighbors": 4}).json()
        explanation = model.explain(word, 3, neighbors=4)
        spelled = answer.pop("spelled")
        assert answer == {
            "word": word,
            "read_as": model.lattice(word).word,
            "segmentations": [{"pieces": list(p), "probability": prob} for p, prob in model.segment(word, 3)],
            "weights": [{"subword": subword, "weight": weight} for subword, weight in model.weights(word)],
            "spans": [span._asdict() for span in explanation.lattice.spans],
            "entropy": model.entropy(word),
            "coverage": model.coverage(word),
            "known": model.read_as(word) in model.words,
            "confidence": model.confidence(word) if model.has_confidence else None,
            "neighbors": [{"word": other, "cosine": cosine} for other, cosine in explanation.neighbors],
            "svg": explanation.svg(),
        }
        for span in answer["spans"]:
            assert spelled[span["start"] : span["end"]] == span["subword"]
    for word, spelled, known in [("higher", "<higher>", True), ("unfriendliest", "<unfriendliest>", False)]:
        answer = client.get("/explain", params={"word": word}).json()
        assert (answer["spelled"], answer["known"]) == (spelled, known)


def test_explain_with_contexts(contextual, sentences, small_vectors):
    word = small_vectors.words[1503]  # not a training word
    some = [line for line in sentences if word in line.split()][:3]
    with TestClient(make_app(contextual)) as client:
        assert client.get("/model").json()["contexts"] is True
        answer = client.post("/explain", json={"word": word, "contexts": some, "n": 2, "neighbors": 4}).json()
        spelling = client.get("/explain", params={"word": word, "n": 2, "neighbors": 4}).json()
        schema = client.get("/openapi.json").json()["components"]["schemas"]["ExplainedInContexts"]
    assert set(answer) == set(schema["properties"]) == {*spelling, "context_share", "context_words"}
    changed = {name for name, value in spelling.items() if answer[name] != value}
    assert changed == {"confidence", "neighbors"}  # of the vector; what is known about the spelling is the same
    assert answer["confidence"] == pytest.approx(contextual.confidence(word, contexts=some), abs=1e-5)
    near = [(one["word"], pytest.approx(one["cosine"], abs=1e-5)) for one in answer["neighbors"]]
    assert contextual.neighbors(contextual.embed(word, contexts=some), 4) == near
    assert 0 < answer["context_share"] < 1
    shares = {one["word"]: one["share"] for one in answer["context_words"]}
    assert {other for line in some for other in line.split()} >= set(shares)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert sum(shares.values()) == pytest.approx(1, abs=1e-4)


def test_contexts_that_are_refused(contextual, confident):
    def refused(body, status=422):
        answer = client.post("/explain", json={"word": "penusken", **body})
        assert answer.status_code == status
        return answer.json()["error"]

    limits = Limits(words=3, context_letters=30)
    with TestClient(make_app(contextual, limits=limits)) as client:
        assert refused({}) == "contexts in the body: field required; see /docs"
        assert refused({"contexts": "penusken"}).startswith("contexts in the body: input should be a valid list")
        assert refused({"contexts": ["penusken", None]}).startswith("contexts.1 in the body: input should be")
        assert refused({"contexts": []}).startswith("there are no contexts of 'penusken'; pass at least one sentence")
        assert refused({"contexts": ["ön penusken", "ön"]}).startswith("'penusken' does not occur in its context 'ön'")
        assert refused({"word": "a b", "contexts": ["a b"]}).startswith("'a b' is not a single word")
        assert refused({"contexts": ["penusken"] * 4}, 413).startswith("contexts in the body: ")
        assert "31 characters, at most 30" in refused({"contexts": ["penusken ön penusken", "penusken ön"]}, 413)
        answer = client.post("/explain", json={"word": "penusken", "contexts": ["penusken"]})
        assert (answer.status_code, answer.json()["context_share"], answer.json()["context_words"]) == (200, 0, [])
    with TestClient(make_app(confident)) as client:
        assert client.get("/model").json()["contexts"] is False
        assert refused({"contexts": ["penusken"]}).startswith("this model cannot use contexts; train one with a text")


@pytest.mark.parametrize("subword", ["est>", "<un", "est", "x>-<r", "ffff", "東", "EST>"])
def test_a_subword(client, model, subword):
    answer = client.get("/subword", params={"subword": subword, "n": 7}).json()
    subword = subword.lower()  # as the model reads words
    spelled = ["<" + re.sub(r"(\W|_)", r">\1<", word) + ">" for word in model.words]
    sharing = [word for word, text in zip(model.words, spelled, strict=True) if subword in text]
    assert (answer["n_words"], answer["words"]) == (len(sharing), sharing[:7])
    has_vector = any(subword in dict(model.weights(word)) for word in sharing[:20])
    assert (answer["subword"], answer["has_vector"]) == (subword, has_vector)
    assert len(answer["neighbors"]) == (7 if has_vector else 0)


def test_the_vector_of_a_subword(client, model):
    """A word's vector is the weighted sum of the vectors of its subwords, so these can be solved for."""
    words = [word for word in model.words if word.endswith("ji")]
    weights = [dict(model.weights(word)) for word in words]
    subwords = sorted(set().union(*weights))
    a = np.array([[some.get(subword, 0) for subword in subwords] for some in weights])
    vectors = vectors_of(model, subwords)
    np.testing.assert_allclose(a @ vectors, model.embed(words), atol=2e-3 * np.abs(vectors).max())
    near = client.get("/subword", params={"subword": "ji>", "n": 3}).json()["neighbors"]
    expected = model.neighbors(vectors[subwords.index("ji>")], 3)
    assert [(one["word"], one["cosine"]) for one in near] == expected


@pytest.mark.parametrize(
    "pair", [("emoji", "shoji"), ("naïvety", "unfriendliest"), ("cat", "cat"), ("a", "東京"), ("x-ray", "HOUSE")]
)
def test_compare(client, model, pair):
    answer = client.get("/compare", params={"first": pair[0], "second": pair[1]}).json()
    assert answer["cosine"] == model.similarity(*pair)
    weights = [dict(model.weights(word)) for word in pair]
    assert {one["subword"]: one["weights"] for one in answer["subwords"]} == {
        subword: [some.get(subword, 0) for some in weights] for subword in [*weights[0], *weights[1]]
    }
    contributions = [one["contribution"] for one in answer["subwords"]]
    assert contributions == sorted(contributions, reverse=True)
    assert sum(contributions) == pytest.approx(answer["cosine"], abs=1e-3)
    for word, one in zip(pair, answer["words"], strict=True):
        assert one == {
            **{"word": word, "read_as": model.read_as(word), "known": word in model},
            **{"confidence": pytest.approx(model.confidence(word), abs=1e-5), "coverage": model.coverage(word)},
            "pieces": list(model.segment(word)[0].pieces),
        }


def test_a_contribution_is_what_the_cosine_loses_without_the_subword(model):
    """To first order: taking a little of a subword out of both words changes the product of their vectors so."""
    pair = ("unfriendliest", "unkind")
    answer = {one["subword"]: one for one in compared(model, pair)["subwords"]}
    u, v = model.embed(list(pair)).astype(np.float64)
    for subword in ("<un", "<unkind", "est>"):
        vector = vectors_of(model, [subword])[0].astype(np.float64)
        a, b = answer[subword]["weights"]
        little = 1e-4
        change = (u @ v - (u - little * a * vector) @ (v - little * b * vector)) / little
        scale = np.linalg.norm(u) * np.linalg.norm(v)
        assert 2 * answer[subword]["contribution"] == pytest.approx(change / scale, abs=1e-4)


def test_a_table(client, model):
    answer = client.post("/table", json={"words": WORDS, "n": 3}).json()["results"]
    assert [row["word"] for row in answer] == WORDS
    for row, word in zip(answer, WORDS, strict=True):
        assert [one["word"] for one in row["neighbors"]] == [other for other, _ in model.neighbors(word, 3)]
        assert row["pieces"] == list(model.segment(word)[0].pieces)
        assert (row["known"], row["coverage"]) == (word in model, model.coverage(word))


def test_a_model_without_a_list_of_words():
    trained = pbos.train({"high": [1.0, 0.0], "higher": [0.0, 1.0]}, lam=0.1)
    empty = pbos.Model(trained.index, trained.spelling, trained.subword_vectors, pack_strings([]))
    with TestClient(make_app(empty)) as client:
        about = client.get("/model").json()
        assert (about["words"], about["examples"], about["map_examples"]) == (0, [], [])
        answer = client.get("/subword", params={"subword": "high"}).json()
        assert answer == {"subword": "high", "has_vector": True, "n_words": 0, "words": [], "neighbors": []}
        assert client.get("/neighbors?word=highest").json()["neighbors"] == []
        assert client.post("/table", json={"words": ["highest"]}).json()["results"][0]["neighbors"] == []


def test_head_is_get_without_the_body(client):
    for path in ("/", "/docs", "/static/page.js", "/openapi.json", "/health", "/model", "/explain?word=higher", "/no"):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers == got.headers and int(head.headers["Content-Length"]) == len(got.content)
    assert client.head("/map").status_code == 405


@pytest.mark.parametrize("language", ["en", "zh"])
def test_words_to_try_with_ones_own_model(shared_data, language):
    folder = shared_data / "vectors" / f"selftrained-{language}"
    words = (folder / "words.txt").read_text(encoding="utf-8").splitlines()
    model = pbos.train((words[:5000], np.load(folder / "vectors.npy")[:5000].astype(np.float32)), lam=0.1)
    examples, on_map = words_to_try(model)
    assert (examples, on_map) == words_to_try(model)
    assert len(set(examples)) == 5 and not any(word in model for word in examples)
    assert min(model.coverage(examples)) == 1
    assert 12 <= len(set(on_map)) <= 24 and all(word in model for word in on_map)


def test_words_to_try_with_hardly_any_words():
    for vectors in ({"high": [1.0, 0.0], "higher": [0.0, 1.0]}, {"a": [1.0]}, {"1": [1.0], "2-3": [2.0]}):
        model = pbos.train(vectors, lam=0.1)
        examples, on_map = words_to_try(model)
        assert not any(word in model for word in examples)
        assert all(word in model for word in on_map)


def test_a_word_without_a_vector_is_not_an_error(client, model):
    assert client.get("/embed", params={"word": "東京"}).json()["vector"] == [0.0] * model.dims
    assert client.post("/embed", json={"words": ["東京"]}).json()["vectors"] == [[0.0] * model.dims]
    assert client.get("/neighbors", params={"word": "東京"}).json()["neighbors"] == []
    assert client.get("/similarity", params={"first": "cat", "second": "東京"}).json()["cosine"] == 0
    answer = client.post("/similarity", json={"pairs": [["東京", "東京"]]}).json()
    assert [one["cosine"] for one in answer["results"]] == [0]
    assert client.get("/weights", params={"word": "東京"}).json()["weights"] == []
    answer = client.get("/explain", params={"word": "東京"}).json()
    assert (answer["coverage"], answer["weights"], answer["neighbors"], answer["known"]) == (0, [], [], False)


@pytest.mark.parametrize("missing", ["", None, float("nan")])
def test_a_missing_word_is_an_error_that_names_its_place(client, missing):
    def refused(path, body):
        text = json.dumps(body)  # NaN too, which httpx does not send
        answer = client.post(path, content=text, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        return answer.json()["error"]

    for path in ("/embed", "/confidence", "/segment", "/weights", "/map"):
        assert refused(path, {"words": ["a", "b", missing]}).startswith("words.2 in the body: ")
    assert refused("/similarity", {"pairs": [["a", "b"], ["c", missing]]}).startswith("pairs.1.1 in the body: ")


def test_map_shows_the_first_two_principal_components(client, model):
    words = ["king", "queen", "prince", "dog", "puppy", "red", "green", "unhappiest"]
    answer = client.post("/map", json={"words": [*words, "東京", "king"]}).json()
    assert answer["without_vector"] == ["東京"]
    assert [point["word"] for point in answer["points"]] == words
    units = model.embed(words).astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    centered = units - units.mean(axis=0)
    variances, directions = np.linalg.eigh(centered.T @ centered)  # in ascending order
    expected = centered @ directions[:, [-1, -2]]
    places = np.array([[point["x"], point["y"]] for point in answer["points"]])
    signs = np.sign((places * expected).sum(axis=0))  # the signs of components are arbitrary
    np.testing.assert_allclose(places, expected * signs, atol=1e-5)
    assert answer["spread"] == pytest.approx(variances[-2:].sum() / variances.sum(), abs=1e-5)


@pytest.mark.parametrize("words", [[], ["king"], ["東京"]])
def test_a_map_of_few_words(client, words):
    answer = client.post("/map", json={"words": words}).json()
    assert [(p["x"], p["y"]) for p in answer["points"]] == [(0.0, 0.0)] * words.count("king")


def test_a_model_of_one_dimension_has_a_map_too():
    model = pbos.train((["ab", "abc", "bca"], np.array([[1], [2], [-3]], np.float32)), lam=0.1)
    with TestClient(make_app(model)) as client:
        answer = client.post("/map", json={"words": ["ab", "bca"]}).json()
        assert [p["y"] for p in answer["points"]] == [0.0, 0.0]
        assert answer["spread"] == pytest.approx(1)
        assert client.get("/model").json()["dims"] == 1


def test_about_the_model_and_health(client, model):
    answer = client.get("/model").json()
    assert {name: answer[name] for name in ("name", "dims", "words", "dtype")} == {
        **{"name": "English", "dims": model.dims},
        **{"words": len(model.words), "dtype": model.subword_vectors.dtype},
    }
    assert model.coverage(answer["examples"]) > [0] * len(answer["examples"])
    assert answer["limits"]["words"] == Limits().words
    assert client.get("/health").json() == {"status": "ok", "version": pbos.__version__}


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_few_digits_are_enough_for_float32(numbers):
    given = np.array(numbers, np.float32)
    short = short_digits(given)
    np.testing.assert_array_equal(short.astype(np.float32), given)
    for number in short[(np.abs(short) > 1e-13) & (np.abs(short) < 1e8)].tolist():
        assert len(re.sub(r"e.*|\D", "", repr(number)).strip("0")) <= 9


def test_neighbors_asked_at_the_same_time(client, model):
    words = ["unfriendliest", "cat", "東京", "covfefe"] * 5
    found = [None] * len(words)

    def ask(at):
        found[at] = client.get("/neighbors", params={"word": words[at], "n": at % 3 + 1}).json()

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(words))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, (word, answer) in enumerate(zip(words, found, strict=True)):
        near = [{"word": other, "cosine": cosine} for other, cosine in model.neighbors(word, at % 3 + 1)]
        assert answer == {"word": word, "confidence": model.confidence(word), "neighbors": near}
