"""Who gets in, limits of requests, errors, and requests that nobody waits for."""

import asyncio
import json
import re
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from anyio import from_thread
from fastapi.exceptions import RequestValidationError
from fastapi.testclient import TestClient

import pbos
from pbos.server import Limits, make_app
from pbos.server.app import Batches


@pytest.fixture(scope="module")
def model():
    return pbos.load()


@pytest.fixture(scope="module")
def client():
    with TestClient(make_app()) as client:
        yield client


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


def test_a_body_that_does_not_end(model):
    app = make_app(model, limits=Limits(body_seconds=0.01))
    start, body = asked(
        app, [{"type": "http.request", "body": b"{", "more_body": True}], headers=[(b"content-length", b"9")]
    )
    assert start["status"] == 408
    assert json.loads(body["body"])["error"] == "the body did not arrive within 0.01 seconds"


class Counting(pbos.Model):
    """A model that counts the words it segments; calls can wait until the request is cancelled."""

    n_words, waits = 0, False

    def segment(self, words, n=1, *, threads=None):
        if len(words) > 1:
            self.n_words += len(words)
            self.started.set()
            with suppress(asyncio.CancelledError):
                while self.waits:
                    time.sleep(0.01)
                    from_thread.check_cancelled()
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
    message = {"type": "http.request", "body": body}
    start, message = asked(app, [message], headers=headers, cancel_at=counting.started)
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


class Broken(pbos.Model):
    """A model with a bug."""

    def weights(self, word):
        raise ZeroDivisionError(f"nothing for {word}")

    def neighbors(self, words, n):
        if words == ["secret"]:
            raise ZeroDivisionError(f"nothing for {words}")
        return super().neighbors(words, n)


def test_a_bug_gives_an_error_that_shows_no_internals(model, caplog):
    with TestClient(make_app(Broken(*model.__reduce__()[1]))) as client:
        for path in ("/weights", "/neighbors"):
            answer = client.get(path, params={"word": "secret"})
            assert answer.status_code == 500
            sentence = "the server failed on this request; see its log for details"
            assert answer.json() == {"status": 500, "error": sentence}
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert caplog.text.count("failed with ZeroDivisionError") == 2
    assert "in weights" in caplog.text and "in neighbors" in caplog.text
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
