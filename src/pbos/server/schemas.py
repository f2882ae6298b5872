"""What the API accepts and returns, as its documentation shows it."""

# ruff: noqa: D101 (the fields speak for themselves)

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator

Item = TypeVar("Item")
Items = Annotated[list[Item], FailFast()]  # only the first wrong item is an error
Pair = Annotated[list[Item], Field(min_length=2, max_length=2)]


@dataclass(frozen=True)
class Limits:
    """The most that one request can ask for, and that all of them can together."""

    words: int = 10_000  # in a batch; a pair counts as two
    word_length: int = 200  # characters
    n: int = 100  # segmentations or neighbors
    letters: int = 200_000  # characters of all words, times n: about a second of work, and 25 MB of JSON
    context_letters: int = 20_000  # characters of the sentences around a word: about a second of work
    map_words: int = 500
    table_words: int = 500  # each with its nearest words, which take a millisecond or more
    body_bytes: int = 2 << 20
    body_seconds: float = 20  # from the head of a request to the end of its body
    requests: int = 256  # that run or wait; 8 KiB of a body count as one more
    held_bytes: int = 256 << 20  # bodies and answers in memory


class Request(BaseModel):
    """The body of a request; unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def without_most_unknown(cls, body: Any) -> Any:
        """Keep only the first unknown field: each would be an error of its own, which takes long."""
        if isinstance(body, dict):
            for name in [name for name in body if name not in cls.model_fields][1:]:
                del body[name]
        return body


class Results(BaseModel, Generic[Item]):
    results: list[Item] = Field(description="One per word or pair, in the order of the request.")


class Error(BaseModel):
    status: int
    error: str = Field(description="What went wrong, in one sentence.")


class About(BaseModel):
    name: str
    dims: int
    words: int
    subwords: int
    vectors: int = Field(description="Subwords that have a vector.")
    dtype: str
    confidence: bool = Field(description="Whether the model has a confidence.")
    contexts: bool = Field(description="Whether the model can use contexts.")
    normalization: str
    boundaries: bool
    examples: list[str]
    map_examples: list[str]
    limits: Limits


class WordWithConfidence(BaseModel):
    word: str
    confidence: float | None = Field(
        description="The expected cosine of the vector and the one the word would have had as a training word, 0 to 1; "
        "null if the model has no confidence."
    )


class WordVector(WordWithConfidence):
    vector: list[float]


class Vectors(BaseModel):
    shape: Pair[int]
    vectors: list[list[float]] = Field(description="In the order of the request.")


class Segmentation(BaseModel):
    pieces: list[str]
    probability: float


class SegmentedWord(BaseModel):
    word: str
    segmentations: list[Segmentation] = Field(description="The most probable ones, best first.")


class Weight(BaseModel):
    subword: str
    weight: float


class WeightedWord(BaseModel):
    word: str
    weights: list[Weight] = Field(description="Largest first; they sum to 1.")


class Neighbor(BaseModel):
    word: str
    cosine: float


class WordWithNeighbors(WordWithConfidence):
    neighbors: list[Neighbor] = Field(description="The training words nearest to it; none if it has no vector.")


class Similarity(BaseModel):
    words: Pair[str]
    cosine: float = Field(description="0 if a word has no vector.")


class ReadWord(WordWithConfidence):
    read_as: str = Field(description="The word as the model reads it: normalized, or in a form that it knows.")
    known: bool = Field(description="Whether it is a training word.")
    coverage: float = Field(description="The share of characters that are in a subword with a vector.")


class DescribedWord(ReadWord):
    pieces: list[str] = Field(description="The most probable segmentation.")


class Row(DescribedWord, WordWithNeighbors):
    pass


class AboutSubword(BaseModel):
    subword: str
    has_vector: bool
    n_words: int = Field(description="How many training words contain it; 0 if the model has no list of words.")
    words: list[str] = Field(description="The first n of these, in the order of the table.")
    neighbors: list[Neighbor] = Field(description="The training words nearest to its vector.")


class ComparedSubword(BaseModel):
    subword: str
    weights: Pair[float] = Field(description="In the first word and in the second.")
    contribution: float


class Comparison(BaseModel):
    words: Pair[DescribedWord]
    cosine: float
    subwords: list[ComparedSubword] = Field(
        description="Subwords of either word, largest contribution first. The contributions add up to the cosine, "
        "except for negligible subwords."
    )


class Span(BaseModel):
    start: int = Field(description="In code points of the spelled word.")
    end: int
    subword: str
    prob: float
    posterior: float
    weight: float


class ExplainedWord(SegmentedWord, WeightedWord, ReadWord, WordWithNeighbors):
    spelled: str = Field(description="The word with its boundary marks.")
    spans: list[Span]
    entropy: float = Field(description="Of the segmentations, in nats.")
    svg: str = Field(description="A drawing of the lattice.")


class ContextWord(BaseModel):
    word: str
    share: float


class ExplainedInContexts(ExplainedWord):
    context_share: float = Field(description="How much of the vector comes from contexts, not from spelling.")
    context_words: list[ContextWord] = Field(
        description="How much each surrounding word adds to the vector of the contexts, largest first; they sum to 1."
    )


class Point(BaseModel):
    word: str
    x: float
    y: float


class Map(BaseModel):
    points: list[Point]
    without_vector: list[str] = Field(description="Words that have no vector.")
    spread: float = Field(description="The share of the variance that the map shows, 0 to 1.")
