"""What the API takes and gives, as its documentation shows it."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Result = TypeVar("Result")


class Request(BaseModel):
    """What is sent; a name that is not known is refused."""

    model_config = ConfigDict(extra="forbid")


class Words(Request):
    """Many words."""

    words: list[str] = Field(examples=[["higher", "unfriendliest"]])


class WordsToCut(Words):
    """Many words, and how many segmentations of each."""

    n: int = Field(1, description="How many segmentations of each word.")


class Pairs(Request):
    """Pairs of words."""

    pairs: list[tuple[str, str]] = Field(examples=[[["king", "queen"], ["king", "kingly"]]])


class Results(BaseModel, Generic[Result]):
    """One result for each word, in their order."""

    results: list[Result]


class Error(BaseModel):
    """What went wrong, in one sentence."""

    status: int
    error: str


class Health(BaseModel):
    """The server answers, and the model is ready."""

    status: str
    version: str


class LimitsOfServer(BaseModel):
    """The most that one request can ask for."""

    words: int = Field(description="Words in a batch.")
    word_length: int = Field(description="Characters of a word.")
    n: int = Field(description="Segmentations or neighbors.")
    map_words: int = Field(description="Words on a map.")
    body_bytes: int = Field(description="Bytes of a request's body.")


class About(BaseModel):
    """What the model is, words to try, and the limits of the server."""

    name: str
    dims: int
    words: int
    subwords: int
    vectors: int
    dtype: str
    normalization: str
    boundaries: bool
    examples: list[str]
    map_examples: list[str]
    limits: LimitsOfServer


class WordVector(BaseModel):
    """A word and its vector."""

    word: str
    vector: list[float]


class Vectors(BaseModel):
    """The vectors of many words, in their order."""

    shape: tuple[int, int]
    vectors: list[list[float]]


class Cut(BaseModel):
    """One way to cut a word, and its probability among all ways."""

    pieces: list[str]
    probability: float


class SegmentedWord(BaseModel):
    """A word and its best segmentations, best first."""

    word: str
    segmentations: list[Cut]


class Weight(BaseModel):
    """A subword's share in the vector of a word."""

    subword: str
    weight: float


class WeightedWord(BaseModel):
    """A word and the weights of its subwords, largest first; they sum to 1."""

    word: str
    weights: list[Weight]


class Neighbor(BaseModel):
    """A training word and how near it is."""

    word: str
    cosine: float


class WordWithNeighbors(BaseModel):
    """A word and the training words nearest to it; none where it has no vector."""

    word: str
    neighbors: list[Neighbor]


class Similarity(BaseModel):
    """The cosine of two words; 0 where one has no vector."""

    words: tuple[str, str]
    cosine: float


class SpanOfLattice(BaseModel):
    """A subword at a place of a word, in code points."""

    start: int
    end: int
    subword: str
    prob: float
    posterior: float
    weight: float


class WholeLattice(BaseModel):
    """The word as it is cut, with its marks, and every span of it."""

    word: str
    spans: list[SpanOfLattice]


class ExplainedWord(SegmentedWord, WeightedWord, WordWithNeighbors):
    """Everything about a word: what `model.explain(word).to_dict()` gives, and more."""

    coverage: float
    entropy: float
    lattice: WholeLattice
    known: bool = Field(description="Whether it was a training word.")
    svg: str = Field(description="The drawing of the lattice.")


class Point(BaseModel):
    """A word at its place."""

    word: str
    x: float
    y: float


class Map(BaseModel):
    """Words in the plane in which their unit vectors spread most."""

    points: list[Point]
    without_vector: list[str] = Field(description="Words none of whose subwords owns a vector.")
    spread: float = Field(description="How much of the words' spread the plane shows, 0 to 1.")
