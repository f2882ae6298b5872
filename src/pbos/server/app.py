"""The web application: the page and the REST API.

Endpoints are plain functions, so FastAPI runs them in threads, and the kernels release the GIL. They write their own
JSON, because FastAPI would write it in the event loop. FastAPI also evaluates annotations, some of which name types
inside of `make_app`: so this module does not postpone them with `from __future__ import annotations`.
"""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from pydantic import Field
from starlette.exceptions import HTTPException

from pbos import __version__
from pbos.arrays import FloatMatrix, unit_rows
from pbos.errors import InputError
from pbos.model import Model, load
from pbos.server import schemas
from pbos.server.gate import Gate, error_response
from pbos.server.schemas import Limits
from pbos.subwords import Segmentation

DEFAULT_LIMITS = Limits()
STATIC = Path(__file__).parent / "static"
JSON, RAW, NPY = "application/json", "application/octet-stream", "application/x-npy"
EXAMPLES = ["unfriendliest", "covfefe", "penpineapplepie", "naïvety", "state-of-the-art"]  # for the English model
MAP_EXAMPLES = [
    *("king", "queen", "prince", "princess", "dog", "doggo", "puppy", "cat", "kitten", "red", "reddish", "green"),
    *("greenish", "blue", "bluish", "happy", "unhappiest", "joyful", "joyfulness"),
]


def make_app(model: Model | None = None, *, name: str | None = None, limits: Limits = DEFAULT_LIMITS) -> FastAPI:
    """Return the page and the API of a model, for any ASGI server.

    All features of the model are used once, so that the first request is as fast as later ones.

    >>> from fastapi.testclient import TestClient
    >>> client = TestClient(make_app())
    >>> client.get("/segment", params={"word": "penpineapplepie"}).json()["segmentations"][0]["pieces"]
    ['pen', 'pineapple', 'pie']

    Args:
        model: The model; None for the English model that comes with pbos.
        name: The name of the model on the page.
        limits: The most that one request can ask for.
    """
    if model is None:
        model, name, examples, map_examples = load(), name or "English", EXAMPLES, MAP_EXAMPLES
    else:
        examples, map_examples = words_to_try(model)
    warm_up(model)
    config = model.config()
    about = schemas.About(  # without `model.info`, which may name local files
        name=name or "your model",
        **{key: config[key] for key in ("dims", "words", "subwords", "vectors", "dtype", "confidence")},
        normalization=model.spelling.normalization,
        boundaries=model.spelling.boundaries,
        examples=examples,
        map_examples=map_examples,
        limits=limits,
    )

    Word = Annotated[str, Field(min_length=1, max_length=limits.word_length, examples=["unfriendliest"])]
    Count = Annotated[int, Field(ge=1, le=limits.n)]

    class Words(schemas.Request):
        words: list[Word] = Field(max_length=limits.words, examples=[["higher", "unfriendliest"]])

    class WordsToSegment(Words):
        n: Count = Field(1, description="Segmentations per word.")

    class Pairs(schemas.Request):
        pairs: list[tuple[Word, Word]] = Field(max_length=limits.words // 2, examples=[[["king", "queen"]]])

    class MapWords(schemas.Request):
        words: list[Word] = Field(max_length=limits.map_words, examples=[["king", "queen", "dog", "puppy"]])

    binary = {"schema": {"type": "string", "format": "binary"}}
    errors: dict[int | str, dict[str, Any]] = {413: {"model": schemas.Error}, 422: {"model": schemas.Error}}
    vectors = APIRouter(tags=["vectors"], responses=errors)
    spelling = APIRouter(tags=["spelling"], responses=errors)
    server = APIRouter(tags=["server"])

    # -- vectors -------------------------------------------------------------------------------------------------------

    @vectors.get("/embed", response_model=schemas.WordVector)
    def embed_word(word: Word) -> Response:
        """Return the vector of a word; zeros if none of its subwords has a vector."""
        return as_json({"word": word, "confidence": confidence_of(model, word), "vector": model[word].tolist()})

    @vectors.post("/embed", response_model=schemas.Vectors, responses={200: {"content": {RAW: binary, NPY: binary}}})
    def embed_batch(body: Words, accept: Annotated[str, Header(include_in_schema=False)] = JSON) -> Response:
        """Return the vectors of many words, as JSON or, if the Accept header asks for it, as bytes.

        `Accept: application/octet-stream` returns little-endian float32, row by row, with the headers `X-Shape` (such
        as `2,160`) and `X-Dtype`; `Accept: application/x-npy` returns a file for `numpy.load`.
        """
        return as_vectors(model.embed(body.words), accept)

    @vectors.get("/neighbors", response_model=schemas.WordWithNeighbors)
    def neighbors(word: Word, n: Count = 10) -> Response:
        """Return the training words nearest to a word, by cosine; an empty list if the word has no vector."""
        found = [{"word": other, "cosine": cosine} for other, cosine in model.neighbors(word, n)]
        return as_json({"word": word, "confidence": confidence_of(model, word), "neighbors": found})

    @vectors.post("/confidence", response_model=schemas.Results[schemas.Confidence])
    def confidences(body: Words) -> Response:
        """Return how far to trust the vectors of many words; an error if the model has no confidence."""
        found = model.confidence(body.words).tolist()
        return as_results({"word": word, "confidence": trust} for word, trust in zip(body.words, found, strict=True))

    @vectors.get("/similarity", response_model=schemas.Similarity)
    def similarity(first: Word, second: Word) -> Response:
        """Return the cosine of two words; 0 if one has no vector."""
        return as_json({"words": [first, second], "cosine": model.similarity(first, second)})

    @vectors.post("/similarity", response_model=schemas.Results[schemas.Similarity])
    def similarities(body: Pairs) -> Response:
        """Return the cosines of many pairs of words."""
        cosines = model.similarity([first for first, _ in body.pairs], [second for _, second in body.pairs]).tolist()
        return as_results({"words": pair, "cosine": cosine} for pair, cosine in zip(body.pairs, cosines, strict=True))

    @vectors.post("/map", response_model=schemas.Map)
    def map_words(body: MapWords) -> Response:
        """Place words on the plane of the first two principal components of their unit vectors."""
        words = np.array(list(dict.fromkeys(body.words)), object)
        units = unit_rows(model.embed(words))
        known = units.any(axis=1)
        positions, spread = project(units[known])
        points = [{"word": word, "x": x, "y": y} for word, (x, y) in zip(words[known], positions.tolist(), strict=True)]
        return as_json({"points": points, "without_vector": words[~known].tolist(), "spread": spread})

    # -- spelling ------------------------------------------------------------------------------------------------------

    @spelling.get("/segment", response_model=schemas.SegmentedWord)
    def segment_word(word: Word, n: Count = 1) -> Response:
        """Return the n most probable segmentations of a word, best first."""
        return as_json(segmented(word, model.segment(word, n)))

    @spelling.post("/segment", response_model=schemas.Results[schemas.SegmentedWord])
    def segment_words(body: WordsToSegment) -> Response:
        """Return the n most probable segmentations of many words."""
        return as_results(map(segmented, body.words, model.segment(body.words, body.n)))

    @spelling.get("/weights", response_model=schemas.WeightedWord)
    def weigh_word(word: Word) -> Response:
        """Return the weights of a word's subwords, largest first."""
        return as_json(weighted(word, model.weights(word)))

    @spelling.post("/weights", response_model=schemas.Results[schemas.WeightedWord])
    def weigh_words(body: Words) -> Response:
        """Return the weights of the subwords of many words."""
        return as_results(map(weighted, body.words, model.weights(body.words)))

    @spelling.get("/explain", response_model=schemas.ExplainedWord)
    def explain(word: Word, n: Count = 5, neighbors: Count = 10) -> Response:
        """Explain the vector of a word: segmentations, weights, confidence, neighbors, and a drawing as SVG."""
        explanation = model.explain(word, n, neighbors=neighbors)
        return as_json({**explanation.to_dict(), "svg": explanation.svg()})

    # -- the server ----------------------------------------------------------------------------------------------------

    @server.get("/model")
    def about_model() -> schemas.About:
        """Describe the model and the limits of the server."""
        return about

    @server.get("/health")
    async def health() -> dict[str, str]:  # not in a thread: it answers even if all of them are busy
        """Return the status "ok" and the version; the server answers as soon as the model is ready."""
        return {"status": "ok", "version": __version__}

    app = FastAPI(
        title="pbos",
        version=__version__,
        description="A vector for every word, from its spelling, with an explanation.",
        docs_url=None,  # FastAPI's own pages load scripts from other servers
        redoc_url=None,
        exception_handlers={
            InputError: input_error,
            HTTPException: http_error,
            RequestValidationError: validation_error,
        },
    )
    for router in (vectors, spelling, server):
        app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), "static")

    @app.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(STATIC / "index.html")

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return FileResponse(STATIC / "docs.html")

    app.add_middleware(Gate, max_bytes=limits.body_bytes)
    return app


def warm_up(model: Model) -> None:
    """Use all features of a model once, so that kernels are compiled and lazy parts are ready."""
    word = model.words[0]
    explanation = model.explain(word)
    explanation.to_dict()
    explanation.svg()
    model.segment([word])
    model.similarity(word, word)


def words_to_try(model: Model) -> tuple[list[str], list[str]]:
    """Choose example words for the page: long ones to segment, frequent ones for the map."""
    plain = [word for word in model.words[:5000] if word.isalpha()] or model.words[:100]
    long = sorted(plain, key=lambda word: -len(word) if len(word) <= 16 else 0)
    return long[:5], [word for word in plain if len(word) > 3][:24]


def project(vectors: FloatMatrix) -> tuple[FloatMatrix, float]:
    """Return the first two principal components of vectors, (n, 2), and the share of their variance that these show.

    >>> positions, spread = project(np.array([[0, 0, 1], [0, 4, 1], [0, 2, 2], [0, 2, 0]], np.float32))
    >>> np.abs(positions[:, 0]).round(3).tolist(), spread
    ([2.0, 2.0, 0.0, 0.0], 1.0)
    """
    centered = vectors - vectors.sum(axis=0) / max(1, len(vectors))
    u, s, _ = np.linalg.svd(centered, full_matrices=False)
    positions = np.pad(u * s, ((0, 0), (0, 2)))[:, :2]  # also for fewer than two words or dimensions
    total = float(np.square(s).sum())
    return positions, float(np.square(s[:2]).sum()) / total if total > 0 else 1.0


# -- responses ---------------------------------------------------------------------------------------------------------


def confidence_of(model: Model, word: str) -> float | None:
    """Return the confidence of a word; None if the model has none."""
    return model.confidence(word) if model.has_confidence else None


def segmented(word: str, segmentations: list[Segmentation]) -> dict[str, Any]:
    """Return a word and its segmentations as plain data."""
    return {"word": word, "segmentations": [one._asdict() for one in segmentations]}


def weighted(word: str, weights: list[tuple[str, float]]) -> dict[str, Any]:
    """Return a word and its weights as plain data."""
    return {"word": word, "weights": [{"subword": subword, "weight": weight} for subword, weight in weights]}


def as_json(value: Any) -> Response:
    """Return a small value as JSON."""
    return Response(json.dumps(value, ensure_ascii=False), media_type=JSON)


def as_results(results: Iterable[Any]) -> Response:
    """Return many results as JSON, written one by one: a single long call of json.dumps would hold the GIL."""
    rows = ",\n".join(json.dumps(result, ensure_ascii=False) for result in results)
    return Response(f'{{"results": [{rows}]}}', media_type=JSON)


def as_vectors(vectors: FloatMatrix, accept: str) -> Response:
    """Return vectors in the first known format of an Accept header; JSON if there is none."""
    wanted = [kind.split(";")[0].strip().lower() for kind in accept.split(",")]
    kind = next((kind for kind in wanted if kind in (RAW, NPY, JSON)), JSON)
    if kind == JSON:
        rows = ",\n".join(json.dumps(row.tolist()) for row in vectors)
        return Response(f'{{"shape": {list(vectors.shape)}, "vectors": [{rows}]}}', media_type=JSON)
    vectors = vectors.astype("<f4", copy=False)
    file = io.BytesIO()
    if kind == NPY:
        np.save(file, vectors)
    else:
        file.write(vectors.tobytes())
    headers = {"X-Shape": ",".join(map(str, vectors.shape)), "X-Dtype": "float32"}
    return Response(file.getvalue(), media_type=kind, headers=headers)


async def input_error(request: Request, error: InputError) -> Response:
    """Return the response for words that pbos does not accept."""
    return error_response(422, str(error))


async def http_error(request: Request, error: HTTPException) -> Response:
    """Return the response for an error with a status, such as an unknown path."""
    sentence = f"{request.method} {request.url.path}: {error.detail}; see /docs"
    return error_response(error.status_code, sentence, error.headers)


async def validation_error(request: Request, error: RequestValidationError) -> Response:
    """Return the response for a request that does not fit the schema: the first problem, in one sentence."""
    problem = error.errors()[0]
    place, *path = map(str, problem["loc"])
    status = 413 if problem["type"] == "too_long" and len(path) == 1 else 422
    if problem["type"] == "json_invalid":
        sentence = f"the body is not JSON: {problem['ctx']['error']} at character {path[0]}"
    elif not path:
        sentence = "the body must be a JSON object, sent with Content-Type: application/json"
    else:
        sentence = f"{'.'.join(path)} in the {place}: {problem['msg'][0].lower()}{problem['msg'][1:]}"
    return error_response(status, f"{sentence}; see /docs")
