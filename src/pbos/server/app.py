"""The application: every address of the page and of the API.

The endpoints are plain functions, not coroutines: FastAPI runs them in threads, the kernels release the GIL, and the
event loop stays free. They return their JSON ready-made, because FastAPI would write it in the event loop.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, FastAPI, Header, Query, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from pbos import __version__
from pbos.errors import InputError
from pbos.lattice import Segmentation
from pbos.model import Model, load, principal_directions, unit_rows
from pbos.server import schemas
from pbos.server.gate import Gate, refusal
from pbos.server.metrics import Metrics
from pbos.subword_vectors import FloatMatrix

STATIC = Path(__file__).parent / "static"
RAW, NPY = "application/octet-stream", "application/x-npy"
EXAMPLES = ("unfriendliest", "covfefe", "penpineapplepie", "naïvety", "state-of-the-art")  # for the embedded model
MAP_EXAMPLES = (
    *("king", "queen", "prince", "princess", "dog", "doggo", "puppy", "cat", "kitten", "red", "reddish", "green"),
    *("greenish", "blue", "bluish", "happy", "unhappiest", "joyful", "joyfulness"),
)
DESCRIPTION = "A vector for every word, from its spelling, with the reasons shown."
WordQuery = Annotated[str, Query(description="A word.", examples=["unfriendliest"])]
OtherQuery = Annotated[str, Query(description="Another word.", examples=["unkind"])]


@dataclass(frozen=True)
class Limits:
    """The most that one request can ask for.

    Attributes:
        words: Words in a batch.
        word_length: Characters of a word.
        n: Segmentations or neighbors.
        map_words: Words on a map.
        body_bytes: Bytes of a request's body.
    """

    words: int = 10_000
    word_length: int = 200
    n: int = 100
    map_words: int = 500
    body_bytes: int = 2 << 20

    def check_words(self, words: list[str], most: int | None = None) -> None:
        """Refuse too many words, and words that are too long."""
        most = self.words if most is None else most
        if len(words) > most:
            raise HTTPException(413, f"{len(words):,} words are too many for one request; send at most {most:,}")
        for at, word in enumerate(words):
            self._check_length(word, f"word {at}")

    def check_word(self, word: str) -> None:
        """Refuse a word that is empty or too long."""
        if not word:
            raise InputError("the word is empty; an empty string has no spelling to work with")
        self._check_length(word, "the word")

    def _check_length(self, word: str, name: str) -> None:
        if len(word) > self.word_length:
            raise InputError(f"{name} has {len(word):,} characters; at most {self.word_length:,} are allowed")

    def check_n(self, n: int) -> None:
        """Refuse a number of results that is none or too large."""
        if not 1 <= n <= self.n:
            raise InputError(f"n must be between 1 and {self.n}, got {n}")


def make_app(model: Model | None = None, *, name: str | None = None, limits: Limits | None = None) -> FastAPI:
    """Return the page and the API over a model, for any ASGI server.

    The model is used once for everything first, so that the first request is as quick as any.

    >>> from fastapi.testclient import TestClient
    >>> client = TestClient(make_app())
    >>> client.get("/segment", params={"word": "penpineapplepie"}).json()["segmentations"][0]["pieces"]
    ['pen', 'pineapple', 'pie']

    Args:
        model: The model; None for the English one that comes with pbos.
        name: What the page calls it.
        limits: The most that one request can ask for.
    """
    limits = limits or Limits()
    metrics = Metrics()
    if model is None:
        model, name = load(), name or "English"
        examples, map_examples = list(EXAMPLES), list(MAP_EXAMPLES)
    else:
        examples, map_examples = words_to_try(model)
    warm_up(model)
    about = describe(model, name or "a model of your own", examples, map_examples, limits)

    app = FastAPI(
        title="pbos",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # FastAPI's own page loads scripts from elsewhere
        redoc_url=None,
    )
    about_words = APIRouter(responses={413: {"model": schemas.Error}, 422: {"model": schemas.Error}})

    # -- vectors -------------------------------------------------------------------------------------------------------

    @about_words.get("/embed", tags=["vectors"], response_model=schemas.WordVector)
    def embed_word(word: WordQuery) -> Response:
        """Give the vector of one word; zeros where none of its subwords owns a vector."""
        limits.check_word(word)
        metrics.count_words(1)
        return as_json({"word": word, "vector": model[word].tolist()})

    @about_words.post(
        "/embed",
        tags=["vectors"],
        response_model=schemas.Vectors,
        responses={200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (RAW, NPY)}}},
    )
    def embed(
        body: schemas.Words, accept: Annotated[str, Header(include_in_schema=False)] = "application/json"
    ) -> Response:
        """Give the vectors of many words: as JSON, or by the header Accept as bytes.

        `Accept: application/octet-stream` gives little-endian float32, row by row, with the headers `X-Shape` (as
        `2,160`) and `X-Dtype`; `Accept: application/x-npy` gives a file for `numpy.load`.
        """
        limits.check_words(body.words)
        vectors = model.embed(body.words)
        metrics.count_words(len(vectors))
        return as_vectors(vectors, accept)

    @about_words.get("/neighbors", tags=["vectors"], response_model=schemas.WordWithNeighbors)
    def neighbors(word: WordQuery, n: int = 10) -> Response:
        """List the training words nearest to a word, by cosine; none where the word has no vector."""
        limits.check_word(word)
        limits.check_n(n)
        metrics.count_words(1)
        near = model.explain(word, neighbors=n).neighbors or []
        return as_json({"word": word, "neighbors": [{"word": other, "cosine": cosine} for other, cosine in near]})

    @about_words.get("/similarity", tags=["vectors"], response_model=schemas.Similarity)
    def similarity(first: WordQuery, second: OtherQuery) -> Response:
        """Give the cosine of two words; 0 where one has no vector."""
        for word in (first, second):
            limits.check_word(word)
        metrics.count_words(2)
        return as_json({"words": [first, second], "cosine": model.similarity(first, second)})

    @about_words.post("/similarity", tags=["vectors"], response_model=schemas.Results[schemas.Similarity])
    def similarities(body: schemas.Pairs) -> Response:
        """Give the cosines of many pairs of words."""
        limits.check_words([word for pair in body.pairs for word in pair])
        metrics.count_words(2 * len(body.pairs))
        cosines = model.similarity([first for first, _ in body.pairs], [second for _, second in body.pairs])
        return as_results(
            {"words": pair, "cosine": cosine} for pair, cosine in zip(body.pairs, cosines.tolist(), strict=True)
        )

    @about_words.post("/map", tags=["vectors"], response_model=schemas.Map)
    def map_of_words(body: schemas.Words) -> Response:
        """Place words in the plane in which they spread most (principal components of their unit vectors)."""
        limits.check_words(body.words, limits.map_words)
        words = list(dict.fromkeys(body.words))
        metrics.count_words(len(words))
        units = unit_rows(model.embed(words))
        rows = np.flatnonzero(np.any(units, axis=1)).tolist()
        places, spread = plane(units[rows])
        points = [{"word": words[row], "x": x, "y": y} for row, (x, y) in zip(rows, places.tolist(), strict=True)]
        without = [word for row, word in enumerate(words) if row not in set(rows)]
        return as_json({"points": points, "without_vector": without, "spread": spread})

    # -- spelling ------------------------------------------------------------------------------------------------------

    @about_words.get("/segment", tags=["spelling"], response_model=schemas.SegmentedWord)
    def segment_word(word: WordQuery, n: int = 1) -> Response:
        """Cut a word into subwords: the n most probable ways, best first."""
        limits.check_word(word)
        limits.check_n(n)
        return as_json(segmented(word, model.segment(word, n)))

    @about_words.post("/segment", tags=["spelling"], response_model=schemas.Results[schemas.SegmentedWord])
    def segment(body: schemas.WordsToCut) -> Response:
        """Cut many words."""
        limits.check_words(body.words)
        limits.check_n(body.n)
        return as_results(map(segmented, body.words, model.segment(body.words, body.n)))

    @about_words.get("/weights", tags=["spelling"], response_model=schemas.WeightedWord)
    def weights_of_word(word: WordQuery) -> Response:
        """Give the weights of a word's subwords, largest first."""
        limits.check_word(word)
        return as_json(weighted(word, model.weights(word)))

    @about_words.post("/weights", tags=["spelling"], response_model=schemas.Results[schemas.WeightedWord])
    def weights(body: schemas.Words) -> Response:
        """Give the weights of the subwords of many words."""
        limits.check_words(body.words)
        return as_results(map(weighted, body.words, model.weights(body.words)))

    @about_words.get("/explain", tags=["spelling"], response_model=schemas.ExplainedWord)
    def explain(word: WordQuery, n: int = 5, neighbors: int = 10) -> Response:
        """Show why a word gets its vector: segmentations, weights, coverage, neighbors, and a drawing as SVG."""
        limits.check_word(word)
        limits.check_n(n)
        limits.check_n(neighbors)
        metrics.count_words(1)
        explanation = model.explain(word, n, neighbors=neighbors)
        return as_json({**explanation.to_dict(), "known": word in model, "svg": explanation.svg()})

    # -- the server ----------------------------------------------------------------------------------------------------

    @app.get("/model", tags=["server"], response_model=schemas.About)
    def about_model() -> Response:
        """Say what the model is, and the limits of the server."""
        return as_json(about)

    @app.get("/health", tags=["server"])
    async def health() -> schemas.Health:  # not in a thread: it answers even if all of them are busy
        """Answer when the model is ready, which it is as soon as the server answers at all."""
        return schemas.Health(status="ok", version=__version__)

    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def show_metrics() -> Response:
        """Give requests, errors, seconds and words in the text format of Prometheus."""
        return PlainTextResponse(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return FileResponse(STATIC / "docs.html")

    app.include_router(about_words)
    app.mount("/static", StaticFiles(directory=STATIC), "static")

    # -- what is wrong -------------------------------------------------------------------------------------------------

    @app.exception_handler(InputError)
    def bad_input(request: Any, error: InputError) -> Response:
        return refusal(422, str(error))

    @app.exception_handler(HTTPException)
    def refused(request: Any, error: HTTPException) -> Response:
        answer = refusal(error.status_code, sentence_of(error, request.url.path))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(RequestValidationError)
    def bad_request(request: Any, error: RequestValidationError) -> Response:
        return refusal(422, sentence_of_first(error))

    paths = {"/", "/docs", "/openapi.json", *app.openapi()["paths"]}
    app.add_middleware(Gate, metrics=metrics, paths=paths, max_bytes=limits.body_bytes)
    return app


def warm_up(model: Model) -> None:
    """Use a model for everything once: kernels compiled, index unpacked, training words embedded."""
    word = model.words[0]
    model.explain(word).to_dict()
    model.explain(word).svg()
    model.segment([word])
    model.similarity(word, word)
    _ = word in model


def describe(model: Model, name: str, examples: list[str], map_examples: list[str], limits: Limits) -> dict[str, Any]:
    """Return what the page says about a model. Its `info` stays here: it may name files of this machine."""
    config = model.config()
    sizes = {key: config[key] for key in ("dims", "words", "subwords", "vectors", "dtype")}
    spelling = {"normalization": model.spelling.normalization, "boundaries": model.spelling.boundaries}
    tries = {"examples": examples, "map_examples": map_examples}
    return {"name": name, **sizes, **spelling, **tries, "limits": asdict(limits)}


def words_to_try(model: Model) -> tuple[list[str], list[str]]:
    """Choose words of a model for the page: long ones to cut, frequent ones for the map."""
    plain = [word for word in model.words[:5000] if word.isalpha()] or model.words[:100]
    long = sorted(plain, key=lambda word: -len(word) if len(word) <= 16 else 0)
    return long[:5], [word for word in plain if len(word) > 3][:24]


def plane(vectors: FloatMatrix) -> tuple[FloatMatrix, float]:
    """Place vectors in the plane in which they spread most, (n, 2), and say how much of their spread it shows.

    >>> places, spread = plane(np.array([[0, 0, 1], [0, 4, 1], [0, 2, 2], [0, 2, 0]], np.float32))
    >>> [round(float(x), 3) for x in places[:, 0]], spread
    ([-2.0, 2.0, 0.0, 0.0], 1.0)
    """
    if not len(vectors):
        return np.zeros((0, 2), np.float32), 1.0
    centred = vectors - vectors.mean(axis=0)
    places = np.zeros((len(vectors), 2), np.float32)
    n = min(2, vectors.shape[1])
    places[:, :n] = centred @ principal_directions(centred, n)
    total = float(np.square(centred).sum())
    return places, min(1.0, float(np.square(places).sum()) / total) if total > 0 else 1.0


# -- answers -----------------------------------------------------------------------------------------------------------


def segmented(word: str, found: list[Segmentation]) -> dict[str, Any]:
    """Return a word's segmentations as plain data."""
    return {"word": word, "segmentations": [{"pieces": one.pieces, "probability": one.probability} for one in found]}


def weighted(word: str, found: list[tuple[str, float]]) -> dict[str, Any]:
    """Return a word's weights as plain data."""
    return {"word": word, "weights": [{"subword": subword, "weight": weight} for subword, weight in found]}


def as_json(value: Any) -> Response:
    """Answer with a small value."""
    return Response(json.dumps(value, ensure_ascii=False), media_type="application/json")


def as_results(results: Iterable[Any]) -> Response:
    """Answer with many results, written one by one: a long run of the JSON writer would keep the GIL to itself."""
    rows = ",\n".join(json.dumps(result, ensure_ascii=False) for result in results)
    return Response(f'{{"results": [{rows}]}}', media_type="application/json")


def as_vectors(vectors: FloatMatrix, accept: str) -> Response:
    """Answer with vectors, as the client prefers them."""
    shape = {"X-Shape": ",".join(map(str, vectors.shape)), "X-Dtype": "float32"}
    wanted = [kind.split(";")[0].strip().lower() for kind in accept.split(",")]
    kind = next((kind for kind in wanted if kind in (RAW, NPY, "application/json")), "application/json")
    if kind == RAW:
        return Response(vectors.astype("<f4", copy=False).tobytes(), media_type=RAW, headers=shape)
    if kind == NPY:
        file = io.BytesIO()
        np.save(file, vectors.astype("<f4", copy=False))
        return Response(file.getvalue(), media_type=NPY, headers=shape)
    rows = ",\n".join(json.dumps(row.tolist()) for row in vectors)
    return Response(f'{{"shape": {list(vectors.shape)}, "vectors": [{rows}]}}', media_type="application/json")


def sentence_of(error: HTTPException, path: str) -> str:
    """Say what an error of FastAPI's own means here."""
    if error.status_code == 404:
        return f"there is nothing at {path}; see /docs"
    if error.status_code == 405:
        return f"{path} does not take this method; see /docs"
    return str(error.detail)


def sentence_of_first(error: RequestValidationError) -> str:
    """Say in one sentence what is wrong with a request: the first of what FastAPI found."""
    first = error.errors()[0]
    place, *inner = map(str, first["loc"])
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['ctx']['error']} at character {inner[0]}; see /docs"
    if not inner:
        return "the body must be a JSON object, sent with Content-Type: application/json; see /docs"
    name = ".".join(inner)
    if first["type"] == "missing":
        return f"{name} is missing in the {place}; see /docs"
    message = str(first["msg"])
    return f"{place} {name}: {message[0].lower()}{message[1:]}; see /docs"
