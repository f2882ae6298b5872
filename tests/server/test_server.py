"""The API returns what the model's methods return; limits and errors; `pbos serve` as a process."""

import asyncio
import gc
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fastapi.exceptions import RequestValidationError
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos.server import Limits, gate, make_app
from pbos.server.answers import compared, vectors_of
from pbos.server.app import Batches, short_digits
from pbos.server.examples import words_to_try
from pbos.server.run import listen
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


# -- answers -----------------------------------------------------------------------------------------------------------


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
        ("/embed?word=unfriendliest", 1),
        ("/neighbors?word=unfriendliest", 1),
        ("/explain?word=unfriendliest", 1),
        ("/similarity?first=unfriendliest&second=king", 1),
        ("/compare?first=unfriendliest&second=king", 1),
        ("/segment?word=unfriendliest", 0),
        ("/weights?word=unfriendliest", 0),
    ],
)
def test_a_word_is_composed_once(client, monkeypatch, path, times):
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


@pytest.mark.parametrize("language", ["en", "he", "zh"])
def test_words_to_try_with_ones_own_model(shared_data, language):
    stop_words = pytest.importorskip(f"spacy.lang.{language}.stop_words").STOP_WORDS
    folder = shared_data / "vectors" / f"selftrained-{language}"
    words = (folder / "words.txt").read_text(encoding="utf-8").splitlines()
    model = pbos.train((words[:5000], np.load(folder / "vectors.npy")[:5000].astype(np.float32)), lam=0.1)
    examples, on_map = words_to_try(model)
    assert (examples, on_map) == words_to_try(model)
    assert len(set(examples)) == 5 and not any(word in model for word in examples)
    assert min(model.coverage(examples)) == 1
    held_out = [word for word in words[5000:5500] if word not in model]
    assert np.median(model.confidence(examples)) >= np.median(model.confidence(held_out))
    assert len(set(on_map)) == 24 and all(word in model for word in on_map)
    assert len(stop_words & set(model.words[:500])) > 40
    assert len(stop_words & set(on_map)) <= 1


def test_words_to_try_with_hardly_any_words():
    for vectors in ({"high": [1.0, 0.0], "higher": [0.0, 1.0]}, {"a": [1.0]}, {"1": [1.0], "2-3": [2.0]}):
        model = pbos.train(vectors, lam=0.1)
        examples, on_map = words_to_try(model)
        assert examples and not any(word in model for word in examples)
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


# -- errors and limits -------------------------------------------------------------------------------------------------


def test_bad_requests_get_one_sentence(model):
    limits = Limits(words=3, word_length=10, n=5, map_words=2, body_bytes=500)
    json_body = {"Content-Type": "application/json"}
    with TestClient(make_app(model, limits=limits)) as client:
        for answer, status, message in [
            (client.get("/segment"), 422, "word in the query: field required"),
            (client.get("/segment?word="), 422, "word in the query: string should have at least 1 character"),
            (
                client.get("/segment?word=abcdefghijk"),
                422,
                "word in the query: string should have at most 10 characters",
            ),
            (client.get("/segment?word=a&n=0"), 422, "n in the query: input should be greater than or equal to 1"),
            (client.get("/neighbors?word=a&n=6"), 422, "n in the query: input should be less than or equal to 5"),
            (client.get("/explain?word=a&neighbors=6"), 422, "neighbors in the query: input should be less than"),
            (client.get("/explain?word=a&n=x"), 422, "n in the query: input should be a valid integer"),
            (client.get("/similarity?first=a"), 422, "second in the query: field required"),
            (client.post("/segment", json={"words": ["a"], "n": 6}), 422, "n in the body: input should be less than"),
            (client.post("/embed", json={"words": ["a", "abcdefghijk"]}), 422, "words.1 in the body: .* 10 characters"),
            (
                client.post("/embed", json={"words": list("abcd")}),
                413,
                "words in the body: .* at most 3 items .* not 4",
            ),
            (client.post("/map", json={"words": list("abc")}), 413, "words in the body: .* at most 2 items .* not 3"),
            (client.post("/similarity", json={"pairs": [["a", "b"]] * 2}), 413, "pairs in the body: .* at most 1 item"),
            (client.post("/similarity", json={"pairs": [["a"]]}), 422, "pairs.0.1 in the body: field required"),
            (client.post("/similarity", json={"pairs": [["a"] * 3]}), 422, "pairs.0 in the body: .* at most 2 items"),
            (client.post("/embed", json={"words": "higher"}), 422, "words in the body: input should be a valid list"),
            (client.post("/embed", json={"words": [1]}), 422, "words.0 in the body: input should be a valid string"),
            (client.post("/embed", json={"word": ["a"]}), 422, "words in the body: field required"),
            (
                client.post("/embed", json={"words": ["a"], "no": 1}),
                422,
                "no in the body: extra inputs are not permitted",
            ),
            (
                client.post("/embed", content=b'{"\\ud800": 1}', headers=json_body),
                422,
                "the body must be a JSON object",
            ),
            (client.post("/embed", json=["a"]), 422, "the body must be a JSON object"),
            (
                client.post("/embed", content=b'{"words": ["a"]}', headers={"Content-Type": "text/plain"}),
                422,
                "sent with Content-Type: application/json",
            ),
            (client.post("/embed", content=b'{"words": ', headers=json_body), 422, "the body is not JSON"),
            (client.post("/embed", content=b'{"words": ["\\ud800"]}', headers=json_body), 422, "words.0 in the body"),
            (client.post("/embed", json={"words": ["a" * 500]}), 413, "the body is longer than 500 bytes"),
            (client.post("/embed", content=iter([b"a"] * 501), headers=json_body), 413, "the body is longer than 500"),
            (client.post("/embed", content=b"[" * 400, headers=json_body), 422, "the body"),
            (client.post("/embed", content=b'{"words": [' + b"1" * 450, headers=json_body), 422, "the body"),
            (client.get("/nothing"), 404, "GET /nothing: Not Found; see /docs"),
            (client.get("/static/%2e%2e/app.py"), 404, "Not Found"),
            (client.get("/static/..%2fapp.py"), 404, "Not Found"),
            (client.post("/health"), 405, "POST /health: Method Not Allowed"),
        ]:
            assert answer.status_code == status, answer.text
            assert answer.headers["Content-Type"] == "application/json"
            content = answer.json()
            assert set(content) == {"status", "error"} and content["status"] == status
            assert re.search(message, content["error"]), content
        assert client.post("/health").headers["Allow"] == client.post("/").headers["Allow"] == "GET, HEAD"
        assert client.delete("/embed").headers["Allow"] == "GET, HEAD, POST"
        assert client.head("/map").headers["Allow"] == "POST"
        assert client.get("/segment?word=abcdefghij&n=5").status_code == 200  # exactly at the limits
        assert client.post("/embed", json={"words": list("abc")}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/embed", {"words": ["abcde"] * 9}),
        ("/confidence", {"words": ["abcde"] * 9}),
        ("/weights", {"words": ["abcde"] * 9}),
        ("/map", {"words": ["abcde"] * 9}),
        ("/segment", {"words": ["abcde"] * 9}),
        ("/segment", {"words": ["abcd", "e"], "n": 9}),
        ("/table", {"words": ["abcd", "e"], "n": 9}),
        ("/similarity", {"pairs": [["abcde", "abcde"]] * 5}),
    ],
)
def test_a_request_that_is_within_each_limit_can_cost_too_much(model, path, body):
    client = TestClient(make_app(model, limits=Limits(letters=40)))
    refused = client.post(path, json=body)
    assert refused.status_code == 413
    assert "characters" in refused.json()["error"] and "at most 40" in refused.json()["error"]
    key = "pairs" if "pairs" in body else "words"
    fewer = {**body, key: body[key][:-1]}
    assert client.post(path, json=fewer).status_code == 200


def test_only_known_hosts_are_answered(model):
    """A page of another site, whose name leads to this server, must not read its answers (DNS rebinding)."""
    client = TestClient(make_app(model, hosts=["PBOS.example"]))
    for host in ("localhost", "LocalHost:8000", "127.0.0.1", "192.0.2.7:80", "[::1]:8000", "pbos.EXAMPLE:443"):
        assert client.get("/segment?word=a", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "pbos.example.evil", "localhost.evil:8000", "127.0.0.1.evil", "[::", ""):
        for path in ("/segment?word=a", "/", "/health"):
            refused = client.get(path, headers={"Host": host})
            assert (refused.status_code, refused.json()["status"]) == (421, 421), host
    assert TestClient(make_app(model)).get("/model", headers={"Host": "any.example"}).status_code == 200


def test_a_token(model):
    client = TestClient(make_app(model, token="sesame"))
    right = b"Bearer sesame"
    for path in ("/model", "/segment?word=a", "/nothing"):
        for wrong in (
            None,
            b"",
            b"Bearer",
            b"Bearer s",
            b"sesame",
            right[:-1],
            right + b" ",
            right.replace(b"B", b"b"),
        ):
            refused = client.get(path, headers={} if wrong is None else {b"Authorization": wrong})
            assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert client.get(path, headers={b"Authorization": right}).status_code in (200, 404)
    assert client.post("/embed", content=b"a" * 10_000_000).status_code == 401  # before the body is read
    for path in ("/", "/docs", "/static/page.js", "/openapi.json", "/health", "/health/live", "/health/ready"):
        assert client.get(path).status_code == 200


@pytest.mark.parametrize("token", ["", "open sesame", "sésame", "a\nb"])
def test_a_token_that_cannot_be_sent(model, token):
    with pytest.raises(pbos.InputError, match="the token must be"):
        make_app(model, token=token)


def test_more_requests_than_the_server_takes(model):
    waiting = Waiting(*model.__reduce__()[1])
    waiting.started, waiting.go_on = threading.Event(), threading.Event()
    with TestClient(make_app(waiting, limits=Limits(requests=1))) as client:
        answers = []
        slow = threading.Thread(target=lambda: answers.append(client.post("/segment", json={"words": ["slow"]})))
        slow.start()
        assert waiting.started.wait(60)
        refused = client.get("/segment?word=a")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert client.get("/health/live").json() == {"status": "ok"}
        assert client.get("/health/ready").status_code == 503
        waiting.go_on.set()
        slow.join()
        assert answers[0].status_code == 200
        assert client.get("/health/ready").json() == {"status": "ok"}
        assert client.get("/segment?word=a").status_code == 200


def test_long_requests_count_more(model):
    waiting = Waiting(*model.__reduce__()[1])
    waiting.started, waiting.go_on = threading.Event(), threading.Event()
    with TestClient(make_app(waiting, limits=Limits(requests=3))) as client:
        body = b'{"words": ["slow"]}' + b" " * 20_000
        ask = {"content": body, "headers": {"Content-Type": "application/json"}}
        slow = threading.Thread(target=lambda: client.post("/segment", **ask))
        slow.start()
        assert waiting.started.wait(60)
        assert client.get("/segment?word=a").status_code == 429
        waiting.go_on.set()
        slow.join()
        assert client.get("/segment?word=a").status_code == 200


def test_more_bytes_than_the_server_keeps(model):
    client = TestClient(make_app(model, limits=Limits(held_bytes=30)))
    body = b'{"words": ["a"], "n": 1}      '
    assert client.post("/segment", content=body, headers={"Content-Type": "application/json"}).status_code == 429
    assert client.post("/segment", content=body[:24], headers={"Content-Type": "application/json"}).status_code == 200


def asked(app, messages, path="/segment", headers=(), cancel_at=None):
    """Return what an application sends for the messages that it receives; after the last, nothing more comes.

    When the event `cancel_at` is set, the request is cancelled.
    """

    async def ask():
        sent, left = [], list(messages)

        async def receive():
            return left.pop(0) if left else await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "root_path": ""}
        scope["headers"] = [(b"content-type", b"application/json"), *headers]
        task = asyncio.create_task(app(scope, receive, send))
        if cancel_at is not None:
            await asyncio.to_thread(cancel_at.wait, 60)
            task.cancel()
        await task
        return sent

    return asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_body_is_parsed_while_others_are_answered(model, monkeypatch):
    """Megabytes of JSON take long to parse; the request counts before it is parsed."""
    started, go_on, loads = threading.Event(), threading.Event(), json.loads
    body = b'{"words": ["a"]}' + b" " * 10_000

    def slow(text, **options):
        if text == body:
            started.set()
            assert go_on.wait(60)
        return loads(text, **options)

    monkeypatch.setattr(json, "loads", slow)
    with TestClient(make_app(model, limits=Limits(requests=1))) as client:
        ask = {"content": body, "headers": {"Content-Type": "application/json"}}
        answers = []
        posting = threading.Thread(target=lambda: answers.append(client.post("/embed", **ask)))
        posting.start()
        assert started.wait(60)
        assert client.get("/health/live").status_code == 200  # would hang if the event loop were busy
        assert client.get("/segment?word=a").status_code == 429
        assert not answers
        go_on.set()
        posting.join()
        assert answers[0].status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/embed", {f"field {at}": 0 for at in range(2000)}, "words in the body: field required"),
        ("/embed", {"words": ["a"], **dict.fromkeys(map(str, range(2000)))}, "0 in the body: extra inputs"),
        ("/embed", {"words": [1] * 2000}, "words.0 in the body: input should be a valid string"),
        ("/segment", {"words": ["a", *[""] * 2000], "n": 0}, "words.1 in the body: string should have at least"),
        ("/table", {"words": [[]] * 400}, "words.0 in the body: input should be a valid string"),
        ("/map", {"words": [{}] * 400}, "words.0 in the body: input should be a valid string"),
        ("/similarity", {"pairs": [["a", 1, 2]] * 2000}, "pairs.0 in the body: tuple should have at most 2 items"),
        ("/similarity", {"pairs": [["", ""]] * 2000}, "pairs.0.0 in the body: string should have at least 1"),
    ],
)
def test_a_body_with_many_errors_is_refused_at_the_first(client, monkeypatch, path, body, message):
    made = []
    init = RequestValidationError.__init__

    def note(self, errors, **rest):
        made.append(len(errors))
        init(self, errors, **rest)

    monkeypatch.setattr(RequestValidationError, "__init__", note)
    refused = client.post(path, json=body)
    assert (refused.status_code, refused.json()["error"][: len(message)]) == (422, message)
    assert max(made) <= 2


@pytest.mark.parametrize(
    "body",
    [
        b'{"words":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"words":' + b'{"a":' * 100_000,
        b'{"words": [], "' + b"a" * 100_000 + b'": 1}',
        b'{"words": [], ' + b'"a": 1, ' * 10_000 + b'"a": 1}',
        b'{"words": [], "n": ' + b"9" * 100_000 + b"}",
        b'{"words": ["a"], "n": 1e999}',
        b'{"words": ["\xff"]}',
        b'{"words": ["\\ud800"]}',
        b'{"words": "' + b"a" * 100_000 + b'"}',
        b'{"words": ["' + b"a" * 100_000 + b'"]}',
        b"\x00" * 1000,
        b"9" * 100_000,
    ],
)
def test_odd_json_gets_one_short_sentence(client, body):
    refused = client.post("/segment", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code in (400, 422)
    assert set(refused.json()) == {"status", "error"} and len(refused.content) < 1000


def test_garbage_collection_goes_on_after_a_body_was_parsed(client):
    for body in (b'{"words": []}', b'{"words": '):
        client.post("/segment", content=body, headers={"Content-Type": "application/json"})
        assert gc.isenabled()


def test_an_error_of_one_word_reaches_only_its_request():
    """Requests that come at the same time are worked on together."""
    worked_on = []

    def lengths(words):
        worked_on.append(len(words))
        if "bad" in words:
            raise pbos.InputError("bad")
        return list(map(len, words))

    async def ask(words):
        batches = Batches(lengths)
        return await asyncio.gather(*map(batches.ask, words), return_exceptions=True)

    words = [*("a" * n for n in range(20)), "bad", *("a" * n for n in range(20))]
    results = asyncio.run(ask(words))
    for word, result in zip(words, results, strict=True):
        assert str(result) == "bad" if word == "bad" else result == len(word)
    assert worked_on[0] == len(words) and len(worked_on) < 15  # not each word alone


def test_a_request_that_is_let_in_makes_no_refusal(model, monkeypatch):
    client, made, init = TestClient(make_app(model)), [], gate.JSONResponse.__init__

    def note(self, content, *arguments, **options):
        made.append(content)
        init(self, content, *arguments, **options)

    monkeypatch.setattr(gate.JSONResponse, "__init__", note)
    assert client.post("/segment", json={"words": ["a"]}).status_code == 200
    assert made == []
    assert client.post("/segment", content=b"a" * (3 << 20)).status_code == 413
    assert [one["status"] for one in made] == [413]


def test_a_body_that_does_not_end(model):
    app = make_app(model, limits=Limits(body_seconds=0.01))
    start, body = asked(
        app, [{"type": "http.request", "body": b"{", "more_body": True}], headers=[(b"content-length", b"9")]
    )
    assert start["status"] == 408
    assert json.loads(body["body"])["error"] == "the body did not arrive within 0.01 seconds"


class Counting(pbos.Model):
    """A model that counts the words it segments; calls can wait until the request is abandoned."""

    n_words, waits = 0, False

    def segment(self, words, n=1, *, threads=None):
        if len(words) > 1:
            self.n_words += len(words)
            self.started.set()
            if self.waits:
                assert gate._abandoned.get().wait(60)
        return super().segment(words, n, threads=threads)


@pytest.fixture
def counting(model):
    counting = Counting(*model.__reduce__()[1])
    counting.started = threading.Event()
    return counting


def test_what_nobody_waits_for_is_not_computed(counting):
    body = json.dumps({"words": ["a"] * 2000}).encode()
    messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]
    app = make_app(counting)
    counting.waits = True
    assert asked(app, messages, headers=[(b"content-length", b"%d" % len(body))]) == []
    assert counting.n_words < 2000
    counting.waits = False
    assert asked(app, messages[:1], headers=[(b"content-length", b"%d" % len(body))])[0]["status"] == 200
    assert counting.n_words >= 2000


def test_what_is_cancelled_is_answered(counting):
    """The server cancels what is not done some seconds after it was stopped."""
    app, counting.waits = make_app(counting), True
    body = json.dumps({"words": ["a"] * 2000}).encode()
    headers = [(b"content-length", b"%d" % len(body))]
    start, message = asked(app, [{"type": "http.request", "body": body}], headers=headers, cancel_at=counting.started)
    assert (start["status"], json.loads(message["body"])["error"]) == (503, "the server was stopped")


def test_a_long_answer_is_sent_in_pieces(client, model):
    words = model.words[:3000]
    answer = client.post("/embed", json={"words": words}).json()
    np.testing.assert_array_equal(np.array(answer["vectors"], np.float32), model.embed(words))
    body = json.dumps({"words": words}).encode()
    message = {"type": "http.request", "body": body}
    _, *pieces = asked(client.app, [message], path="/embed", headers=[(b"content-length", b"%d" % len(body))])
    assert len(pieces) > 1 and {piece.get("more_body", False) for piece in pieces[:-1]} == {True}
    assert max(len(piece["body"]) for piece in pieces) <= 1 << 16
    assert json.loads(b"".join(piece["body"] for piece in pieces)) == answer


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


class Broken(pbos.Model):
    """A model with a bug."""

    def weights(self, word):
        raise ZeroDivisionError(f"nothing for {word}")

    def _neighbors_of_vectors(self, words, vectors, n):
        if words == ["secret"]:
            raise ZeroDivisionError(f"nothing for {words}")
        return super()._neighbors_of_vectors(words, vectors, n)


def test_a_bug_gives_an_error_that_shows_no_internals(model, caplog):
    with TestClient(make_app(Broken(*model.__reduce__()[1]))) as client:
        for path in ("/weights", "/neighbors"):
            answer = client.get(path, params={"word": "secret"})
            assert answer.status_code == 500
            sentence = "the server failed on this request; see its log for details"
            assert answer.json() == {"status": 500, "error": sentence}
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert caplog.text.count("failed with ZeroDivisionError") == 2
    assert "in weights" in caplog.text and "in _neighbors_of_vectors" in caplog.text
    assert "secret" not in caplog.text  # logs do not contain what users ask


def test_security_headers(client):
    for path in ("/", "/docs", "/static/page.js", "/explain?word=a", "/nothing", "/health"):
        headers = client.get(path, headers={"Origin": "https://elsewhere.example"}).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in headers


class Waiting(pbos.Model):
    """A model whose `segment(["slow"])` waits for an event."""

    started, go_on = threading.Event(), threading.Event()

    def segment(self, word, n=1, *, threads=None):
        if not isinstance(word, str) and list(word) == ["slow"]:
            self.started.set()
            assert self.go_on.wait(60)
        return super().segment(word, n, threads=threads)


def test_a_long_request_does_not_block_others(model):
    with TestClient(make_app(Waiting(*model.__reduce__()[1]))) as client:
        answers = []
        slow = threading.Thread(target=lambda: answers.append(client.post("/segment", json={"words": ["slow"]})))
        slow.start()
        assert Waiting.started.wait(60)
        assert client.get("/health").status_code == 200  # would hang if the event loop were busy
        assert not answers
        Waiting.go_on.set()
        slow.join()
        assert answers[0].json()["results"][0]["word"] == "slow"


# -- documentation -----------------------------------------------------------------------------------------------------


def test_openapi_describes_every_path(client):
    spec = client.get("/openapi.json").json()
    needed = {"/embed", "/segment", "/weights", "/neighbors", "/similarity", "/explain", "/map", "/model", "/health"}
    assert {*needed, "/confidence", "/table", "/subword", "/compare"} <= set(spec["paths"])
    for methods in spec["paths"].values():
        for operation in methods.values():
            assert operation["description"] and operation["tags"]
            if operation["tags"] != ["server"]:  # these take no input
                refusal = operation["responses"]["422"]["content"]["application/json"]["schema"]
                assert refusal["$ref"].endswith("/Error")
    words = spec["components"]["schemas"]["Words"]["properties"]["words"]
    assert (words["maxItems"], words["items"]["maxLength"]) == (Limits().words, Limits().word_length)
    formats = spec["paths"]["/embed"]["post"]["responses"]["200"]["content"]
    assert {"application/json", "application/octet-stream", "application/x-npy"} <= set(formats)


def test_responses_match_openapi(client):
    """A response has exactly the fields of its schema."""
    spec = client.get("/openapi.json").json()
    for path, query in [
        ("/embed", "?word=a"),
        ("/segment", "?word=a"),
        ("/weights", "?word=a"),
        ("/neighbors", "?word=a"),
        ("/similarity", "?first=a&second=b"),
        ("/explain", "?word=a"),
        ("/subword", "?subword=a"),
        ("/compare", "?first=a&second=b"),
        ("/model", ""),
    ]:
        reference = spec["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        schema = spec["components"]["schemas"][reference.rsplit("/", 1)[1]]
        answer = client.get(path + query).json()
        assert set(answer) == set(schema["properties"])
        for name, field in schema["properties"].items():  # and so do the objects in its lists
            inner = field.get("items", {}).get("$ref", "").rsplit("/", 1)[-1]
            if inner and answer[name]:
                assert set(answer[name][0]) == set(spec["components"]["schemas"][inner]["properties"])


# -- pbos serve --------------------------------------------------------------------------------------------------------


def serve(*arguments, **options):
    command = [sys.executable, "-c", "from pbos.cli import main; main()", "serve", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_serve_prints_its_address_and_stops_cleanly():
    import httpx

    process = serve("--port", 0)
    line = process.stdout.readline()
    url = re.match(r"http://127\.0\.0\.1:\d+", line).group()
    assert httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok"
    assert "<title>pbos</title>" in httpx.get(url, timeout=60).text
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert err == "pbos: stopped\n"


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_a_server_in_the_background_ignores_ctrl_c():
    """A shell ignores it for a job that a script starts with &; `kill` stops the server."""
    import httpx

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = serve("--port", 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        url = process.stdout.readline().split()[0]
        assert httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok"
        process.send_signal(signal.SIGINT)
        for _ in range(5):  # a server looks ten times a second whether it should stop
            time.sleep(0.1)
            assert httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok"
    finally:
        process.send_signal(signal.SIGTERM)
        ended = *process.communicate(timeout=60), process.returncode
    assert ended == ("", "", -signal.SIGTERM)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_commands_in_the_documentation(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "page.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    sessions = [part.split("\n", 1) for block in blocks for part in block.split("$ ")[1:]]
    assert len(sessions) > 8
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    number = re.compile(r"-?\d+\.\d+")
    process = serve("--port", 0)
    try:
        host = process.stdout.readline().split()[0].removeprefix("http://")
        for command, expected in sessions:
            command = command.replace("127.0.0.1:8000", host)
            done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert number.sub("#", done.stdout.strip()) == number.sub("#", expected.strip()), command
            shown, given = (list(map(float, number.findall(text))) for text in (expected, done.stdout))
            assert given == pytest.approx(shown, abs=1e-4)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_answers_are_sent_at_once():
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_one_sentence(run):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        expected = f"pbos: port {port} is in use on 127.0.0.1; choose another with --port\n"
        assert run("serve", "--port", port) == (2, "", expected)


def test_a_token_that_is_set_but_empty_lets_nobody_in(run, monkeypatch):
    monkeypatch.setattr("pbos.server.run.run", lambda app, listener: None)
    monkeypatch.setenv("PBOS_TOKEN", "")  # as after PBOS_TOKEN=$(a command that fails)
    code, out, err = run("serve", "--port", 0)
    assert (code, out, err.count("\n")) == (2, "", 1) and "the token must be" in err
    monkeypatch.setenv("PBOS_TOKEN", "sesame")
    assert run("serve", "--port", 0)[0] == 0
    monkeypatch.delenv("PBOS_TOKEN")
    assert run("serve", "--port", 0)[0] == 0


def test_a_host_that_is_not_local_is_one_sentence(run):
    code, out, err = run("serve", "--host", "192.0.2.1", "--port", 0)  # reserved for documentation
    assert (code, out) == (2, "")
    assert err == "pbos: 192.0.2.1 is not an address of this machine; choose another with --host\n"


@pytest.mark.parametrize("name", ["http://words.example.org", "words.example.org:80", "words.example.org/pbos"])
def test_a_host_to_allow_is_a_name(run, monkeypatch, name):
    monkeypatch.setattr("pbos.server.run.run", lambda app, listener: None)
    code, out, err = run("serve", "--allow-host", name, "--port", 0)
    assert (code, out, err.count("\n")) == (2, "", 1) and f"--allow-host {name}: give the name alone" in err


def test_a_request_with_two_ends_is_refused(client):
    headers = {"Transfer-Encoding": "chunked", "Content-Length": "4"}
    answer = client.post("/embed", content=b"{}", headers=headers)
    assert answer.status_code == 400 and "both Content-Length and Transfer-Encoding" in answer.json()["error"]


def test_an_empty_host_does_not_let_in_other_machines(run, monkeypatch):
    monkeypatch.setattr("pbos.server.run.run", lambda app, listener: None)
    code, out, err = run("serve", "--host", "", "--port", 0)
    assert (code, out, err.count("\n")) == (2, "", 1) and "--host is empty" in err


def test_a_model_that_does_not_exist_is_one_sentence(run):
    code, out, err = run("serve", "-m", "nowhere", "--port", 0)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "nowhere" in err


def test_help_has_examples(run):
    code, out, _ = run("serve", "--help")
    assert code == 0 and "Examples:" in out


def test_the_wheel_contains_the_page(tmp_path):
    from hatchling.builders.wheel import WheelBuilder

    root = Path(__file__).parents[2]
    (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    static = root / "src" / "pbos" / "server" / "static"
    assert {f"pbos/server/static/{file.name}" for file in static.iterdir()} <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_missing_extra_is_named(missing):
    code = (
        f"import sys; sys.modules['{missing}'] = None; sys.argv = ['pbos', 'serve']\nimport pbos.cli; pbos.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and 'pip install "pbos[serve]"' in done.stderr
