"""The web application: the page and the REST API.

Endpoints are plain functions, so FastAPI runs them in threads, and the kernels release the GIL. They write their own
JSON, because FastAPI would write it in the event loop. Many words are worked on in blocks: other threads get their turn
between them, and a request that nobody waits for stops. FastAPI also evaluates annotations, some of which name types
inside of `make_app`: so this module does not postpone them with `from __future__ import annotations`.
"""

import asyncio
import io
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from anyio import from_thread, to_thread
from fastapi import APIRouter, FastAPI, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from pydantic import Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from pbos import __version__
from pbos.errors import InputError
from pbos.model import Model, load
from pbos.server import answers, schemas
from pbos.server.gate import WEIGHT, Load, RequestGuard, error_response
from pbos.server.schemas import Limits
from pbos.words.arrays import FloatMatrix
from pbos.words.search import QUERIES

DEFAULT_LIMITS = Limits()
BLOCK = 256  # words worked on at a time
THREADS = max(4, os.cpu_count() or 1)  # requests that run at a time; the others wait
STATIC = Path(__file__).parent / "static"
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.Error} for status in (400, 401, 408, 413, 421, 422, 429)
}
JSON, RAW, NPY = "application/json", "application/octet-stream", "application/x-npy"
EXAMPLES = ["unfriendliest", "covfefe", "penpineapplepie", "naïvety", "state-of-the-art"]  # for the English model
MAP_EXAMPLES = [
    *("king", "queen", "prince", "princess", "dog", "doggo", "puppy", "cat", "kitten", "red", "reddish", "green"),
    *("greenish", "blue", "bluish", "happy", "unhappiest", "joyful", "joyfulness"),
]


def make_app(
    model: Model | None = None,
    *,
    name: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    hosts: Iterable[str] | None = None,
    token: str | None = None,
) -> FastAPI:
    """Return the page and the API of a model, for any ASGI server.

    All features of the model are used once, so that the first request is as fast as later ones.

    >>> from fastapi.testclient import TestClient
    >>> client = TestClient(make_app())
    >>> client.get("/segment", params={"word": "penpineapplepie"}).json()["segmentations"][0]["pieces"]
    ['pen', 'pineapple', 'pie']

    Args:
        model: The model; None for the English model that comes with pbos.
        name: The name of the model on the page.
        limits: The most that one request can ask for, and that all of them can together.
        hosts: The names in the Host header to answer for, besides localhost and addresses; None for any.
        token: What clients must send as `Authorization: Bearer TOKEN`; None to let everybody in.
    """
    if token is not None and not re.fullmatch("[!-~]+", token):
        raise InputError("the token must be printable ASCII without spaces; choose another")
    english = model is None
    model = load() if model is None else model
    warm_up(model)

    Word = Annotated[str, Field(min_length=1, max_length=limits.word_length, examples=["unfriendliest"])]
    Subword = Annotated[str, Field(min_length=1, max_length=limits.word_length, examples=["est>"])]
    Count = Annotated[int, Field(ge=1, le=limits.n)]

    class Words(schemas.Request):
        words: schemas.Items[Word] = Field(max_length=limits.words, examples=[["higher", "unfriendliest"]])

    class WordsToSegment(Words):
        n: Count = Field(1, description="Segmentations per word.")

    class WordInContexts(schemas.Request):
        word: Word
        contexts: schemas.Items[str] = Field(max_length=limits.words, examples=[["The unfriendliest of all."]])
        n: Count = Field(5, description="Segmentations.")
        neighbors: Count = 10

    class Pairs(schemas.Request):
        pairs: schemas.Items[tuple[Word, Word]] = Field(max_length=limits.words // 2, examples=[[["king", "queen"]]])

    class MapWords(schemas.Request):
        words: schemas.Items[Word] = Field(max_length=limits.map_words, examples=[["king", "queen", "dog", "puppy"]])

    class TableWords(schemas.Request):
        words: schemas.Items[Word] = Field(max_length=limits.table_words, examples=[["higher", "unfriendliest"]])
        n: Count = Field(5, description="Neighbors per word.")

    binary = {"schema": {"type": "string", "format": "binary"}}
    load_now = Load(limits)
    nearest = Batches(partial(answers.with_neighbors, model))

    def within_cost(words: list[str], n: int = 1, letters: int = limits.letters) -> list[str]:
        """Return words, or refuse them if they take too long together."""
        cost = sum(map(len, words)) * n
        if cost > letters:
            asked = "characters times n" if n > 1 else "characters"
            most = f"at most {letters:,} per request"
            raise HTTPException(413, f"the words have {cost:,} {asked}, {most}; send fewer words at a time")
        return words

    vectors = APIRouter(tags=["vectors"], responses=REFUSALS, route_class=Route)
    spelling = APIRouter(tags=["spelling"], responses=REFUSALS, route_class=Route)
    server = APIRouter(tags=["server"])

    # -- vectors -------------------------------------------------------------------------------------------------------

    @vectors.get("/embed", response_model=schemas.WordVector)
    def embed_word(word: Word) -> Response:
        """Return the vector of a word; zeros if none of its subwords has a vector."""
        (confidence,), vector = answers.confidences(model, [word]), short_digits(model.embed(word))
        return as_json({"word": word, "confidence": confidence, "vector": vector.tolist()})

    @vectors.post("/embed", response_model=schemas.Vectors, responses={200: {"content": {RAW: binary, NPY: binary}}})
    def embed_batch(body: Words, accept: Annotated[str, Header(include_in_schema=False)] = JSON) -> Response:
        """Return the vectors of many words, as JSON or, if the Accept header asks for it, as bytes.

        `Accept: application/octet-stream` returns little-endian float32, row by row, with the headers `X-Shape` (such
        as `2,160`) and `X-Dtype`; `Accept: application/x-npy` returns a file for `numpy.load`.
        """
        vectors = np.empty((len(within_cost(body.words)), model.dims), np.float32)
        for rows in blocks(len(vectors)):
            model.embed(body.words[rows], out=vectors[rows])
        return as_vectors(vectors, accept)

    @vectors.get("/neighbors", response_model=schemas.WordWithNeighbors)
    async def neighbors(word: Word, n: Count = 10) -> Response:
        """Return the training words nearest to a word, by cosine; an empty list if the word has no vector."""
        return as_json(await nearest.ask((word, n)))

    @vectors.post("/confidence", response_model=schemas.Results[schemas.WordWithConfidence])
    def confidence(body: Words) -> Response:
        """Return how far to trust the vectors of many words; an error if the model has no confidence."""
        return as_results(within_cost(body.words), partial(answers.trusted, model))

    @vectors.get("/similarity", response_model=schemas.Similarity)
    def similarity(first: Word, second: Word) -> Response:
        """Return the cosine of two words; 0 if one has no vector."""
        return as_json(answers.similar(model, [(first, second)])[0])

    @vectors.post("/similarity", response_model=schemas.Results[schemas.Similarity])
    def similarity_batch(body: Pairs) -> Response:
        """Return the cosines of many pairs of words."""
        within_cost([word for pair in body.pairs for word in pair])
        return as_results(body.pairs, partial(answers.similar, model))

    @vectors.post("/map", response_model=schemas.Map)
    def map_words(body: MapWords) -> Response:
        """Place words on the plane of the first two principal components of their unit vectors."""
        return as_json(answers.placed(model, list(dict.fromkeys(within_cost(body.words)))))

    @vectors.post("/table", response_model=schemas.Results[schemas.Row])
    def table(body: TableWords) -> Response:
        """Describe many words: how far to trust each one's vector, and its nearest words."""
        return as_results(within_cost(body.words, body.n), partial(answers.table_rows, model, n=body.n))

    # -- spelling ------------------------------------------------------------------------------------------------------

    @spelling.get("/segment", response_model=schemas.SegmentedWord)
    def segment_word(word: Word, n: Count = 1) -> Response:
        """Return the n most probable segmentations of a word, best first."""
        return as_json(answers.segmented(model, [word], n)[0])

    @spelling.post("/segment", response_model=schemas.Results[schemas.SegmentedWord])
    def segment_batch(body: WordsToSegment) -> Response:
        """Return the n most probable segmentations of many words."""
        return as_results(within_cost(body.words, body.n), partial(answers.segmented, model, n=body.n))

    @spelling.get("/weights", response_model=schemas.WeightedWord)
    def weigh_word(word: Word) -> Response:
        """Return the weights of a word's subwords, largest first."""
        return as_json(answers.weighted(model, [word])[0])

    @spelling.post("/weights", response_model=schemas.Results[schemas.WeightedWord])
    def weigh_batch(body: Words) -> Response:
        """Return the weights of the subwords of many words."""
        return as_results(within_cost(body.words), partial(answers.weighted, model))

    @spelling.get("/explain", response_model=schemas.ExplainedWord)
    def explain(word: Word, n: Count = 5, neighbors: Count = 10) -> Response:
        """Explain the vector of a word: segmentations, weights, confidence, neighbors, and a drawing as SVG."""
        explanation = model.explain(word, n, neighbors=neighbors)
        return as_json({**explanation.to_dict(), "svg": explanation.svg()})

    @spelling.post("/explain", response_model=schemas.ExplainedInContexts)
    def explain_in_contexts(body: WordInContexts) -> Response:
        """Explain the vector of a word from its spelling and from sentences in which it occurs.

        An error if the model cannot use contexts, or if a sentence does not contain the word.
        """
        contexts = within_cost(body.contexts, letters=limits.context_letters)
        explanation = model.explain(body.word, body.n, contexts=contexts, neighbors=body.neighbors)
        return as_json({**explanation.to_dict(), "svg": explanation.svg()})

    @spelling.get("/subword", response_model=schemas.AboutSubword)
    def subword(subword: Subword, n: Count = 10) -> Response:
        """Return which training words share a subword, and which are nearest to its vector.

        With boundaries, `<un` is a subword at the start of words, `est>` at their end.
        """
        return as_json(answers.about_subword(model, subword, n))

    @spelling.get("/compare", response_model=schemas.Comparison)
    def compare(first: Word, second: Word) -> Response:
        """Compare two words: the cosine of their vectors, and what each of their subwords contributes to it."""
        return as_json(answers.compared(model, [first, second]))

    # -- the server ----------------------------------------------------------------------------------------------------

    @server.get("/model")
    @cache
    def about_model() -> schemas.About:
        """Describe the model and the limits of the server."""
        examples, map_examples = (EXAMPLES, MAP_EXAMPLES) if english else answers.words_to_try(model)
        return schemas.About(
            **{"contexts": False, **model.config()},  # only fields of About: `info` may name local files
            name=name or ("English" if english else "your model"),
            normalization=model.spelling.normalization,
            boundaries=model.spelling.boundaries,
            examples=examples,
            map_examples=map_examples,
            limits=limits,
        )

    @server.get("/health")
    async def health() -> dict[str, str]:  # not in a thread: it answers even if all of them are busy
        """Return the status "ok" and the version; the server answers as soon as the model is ready."""
        return {"status": "ok", "version": __version__}

    @server.get("/health/live")
    async def live() -> dict[str, str]:
        """Return the status "ok" as long as the server answers at all; if it does not, restart it."""
        return {"status": "ok"}

    @server.get("/health/ready", responses={503: {"model": schemas.Error, "description": "Not now."}})
    async def ready() -> Response:
        """Return the status "ok" if requests get in, 503 if they would be refused; then send them elsewhere."""
        return error_response(503, "the server is too busy") if load_now.full else as_json({"status": "ok"})

    app = FastAPI(
        title="pbos",
        version=__version__,
        description="A vector for every word, from its spelling, with an explanation.",
        docs_url=None,  # FastAPI's own pages load scripts from other servers
        redoc_url=None,
        lifespan=few_threads,
        exception_handlers={HTTPException: http_error, RequestValidationError: validation_error},
    )
    for router in (vectors, spelling, server):
        app.include_router(router)
    app.add_api_route("/", lambda: FileResponse(STATIC / "index.html"), include_in_schema=False)
    app.add_api_route("/docs", lambda: FileResponse(STATIC / "docs.html"), include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC), "static")
    app.add_middleware(RequestGuard, load=load_now, hosts=hosts, token=token)
    return app


@asynccontextmanager
async def few_threads(app: FastAPI) -> AsyncIterator[None]:
    """Let only some requests run at a time: each needs memory and all cores."""
    to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


class Posted(Request):
    """A request whose body is parsed in a thread, if it is long: megabytes of JSON would stop the event loop."""

    async def json(self) -> Any:
        """Return what the body contains."""
        body = await self.body()
        return await to_thread.run_sync(json.loads, body) if len(body) > WEIGHT else json.loads(body)


class Route(APIRoute):
    """A route of such requests."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what handles a request."""
        handle = super().get_route_handler()

        async def handle_posted(request: Request) -> Response:
            return await handle(Posted(request.scope, request.receive))

        return handle_posted


class Batches:
    """Collects requests that come while others are worked on, and works on them together, in a thread."""

    def __init__(self, function: Callable[[list[Any]], list[Any]]) -> None:
        self.function = function
        self.waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self.worker: asyncio.Task[None] | None = None

    async def ask(self, item: Any) -> Any:
        """Return the result for one item."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((item, future))
        if self.worker is None or self.worker.done():
            self.worker = asyncio.create_task(self.work())
        return await future

    async def work(self) -> None:
        """Work on all that wait, and on those that came in the meantime, until none is left."""
        while self.waiting:
            batch, self.waiting = self.waiting[:QUERIES], self.waiting[QUERIES:]
            results = await self.results([item for item, _ in batch])
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)

    async def results(self, items: list[Any]) -> list[Any]:
        """Return the result of each item, or its own error: items that fail together are halved until one is left."""
        try:
            return await to_thread.run_sync(self.function, items)
        except Exception as error:
            half = len(items) // 2
            return [*await self.results(items[:half]), *await self.results(items[half:])] if half else [error]


def warm_up(model: Model) -> None:
    """Use all features of a model once, so that kernels are compiled and lazy parts are ready."""
    word = next(iter(model), "a")
    model.explain(word).svg()
    if model.has_contexts:
        model.explain("a", contexts="such a word")
    model.segment([word])
    model.similarity(word, word)
    answers.vectors_of(model, [word])


# -- responses ---------------------------------------------------------------------------------------------------------


def blocks(n_items: int) -> Iterator[slice]:
    """Yield slices of items, until the request is cancelled; in a thread."""
    for first in range(0, n_items, BLOCK):
        from_thread.check_cancelled()
        yield slice(first, first + BLOCK)


def as_json(value: Any) -> Response:
    """Return a small value as JSON."""
    return Response(to_json(value), media_type=JSON)


def as_results(items: Any, results_of: Callable[[Any], list[Any]], head: bytes = b'{"results":[') -> Response:
    """Return the results for many items as JSON: an object that starts with `head`, the results, and its end."""
    written = [to_json(results_of(items[rows]))[1:-1] for rows in blocks(len(items))]
    return Response(head + b",\n".join(written) + b"]}", media_type=JSON)


def as_vectors(vectors: FloatMatrix, accept: str) -> Response:
    """Return vectors in the first known format of an Accept header; JSON if there is none."""
    wanted = [kind.split(";")[0].strip().lower() for kind in accept.split(",")]
    kind = next((kind for kind in wanted if kind in (RAW, NPY, JSON)), JSON)
    if kind == JSON:
        head = b'{"shape":[%d,%d],"vectors":[' % vectors.shape
        return as_results(vectors, lambda rows: short_digits(rows).tolist(), head)
    headers = {"X-Shape": ",".join(map(str, vectors.shape)), "X-Dtype": "float32"}
    if kind == RAW:
        return Response(vectors.astype("<f4", copy=False).tobytes(), media_type=RAW, headers=headers)
    file = io.BytesIO()
    np.save(file, vectors)
    return Response(file.getvalue(), media_type=NPY, headers=headers)


def short_digits(vectors: FloatMatrix) -> npt.NDArray[np.float64]:
    """Return float32 numbers as float64 ones of 9 significant digits, which are the same float32 numbers.

    >>> np.float32([0.1, 0]).tolist(), short_digits(np.float32([0.1, 0])).tolist()
    ([0.10000000149011612, 0.0], [0.100000001, 0.0])
    """
    numbers = vectors.astype(np.float64)
    size = np.abs(numbers)
    scale = 10.0 ** (8 - np.floor(np.log10(size, out=np.zeros_like(size), where=size > 0)))
    return np.rint(numbers * scale) / scale


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
