"""All settings of a model, and the presets. Imports no Numba, so that the command line can show its help at once."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from numbers import Real
from typing import Any, Literal, TypedDict, get_args

from pbos.errors import InputError, whole_number

Normalization = Literal["NFC", "NFKC", "lower", "casefold", "none", "auto"]
Fallback = Literal["none", "case", "accents", "auto"]
Weighting = Literal["posterior", "uniform", "both"]
Solver = Literal["ridge", "sgd"]
DType = Literal["float32", "float16", "int8"]
Missing = Literal["error", "zeros"]
FORMS: tuple[str, ...] = get_args(Normalization)[:-1]  # all but auto
DTYPES: tuple[str, ...] = get_args(DType)
MISSING: tuple[str, ...] = get_args(Missing)
INCLUDED = ("english", "russian")  # models that come with pbos
MOST_NEAR = 1000  # spelling neighbors of a word
MAX_DIMS = 1_000_000  # of vectors in files; more are a mistake, or meant to fill the memory


def setting(default: Any, help: str, choices: Any = None, least: int = 1) -> Any:
    """Declare a setting: its default, its help text, for strings the choices, for whole numbers the least value."""
    return field(default=default, metadata={"help": help, "choices": get_args(choices), "least": least})


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise InputError if a value is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"unknown {name} {value!r}; choose one of: {', '.join(choices)}")


def plain(value: Any) -> Any:
    """Return a value as it is, or a NumPy scalar as Python's own, which JSON can store."""
    return value.item() if getattr(value, "shape", None) == () else value


def checked_setting(declared: Field[Any], value: Any) -> Any:
    """Return a value, as a float where its field is one; raise InputError if it does not fit the field."""
    name, kind = declared.name, str(declared.type)
    if choices := declared.metadata["choices"]:
        check_choice(name, value, choices)
    elif kind == "bool" and not isinstance(value, bool):
        raise InputError(f"{name} must be True or False, got {value!r}")
    elif kind == "int" or (kind == "int | None" and value is not None):
        return whole_number(name, value, declared.metadata["least"])
    elif kind == "float":
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InputError(f"{name} must be a number, got {value!r}")
        try:
            return float(value)
        except OverflowError:
            raise InputError(f"{name} must be a finite number, got one with over 300 digits") from None
    return value


@dataclass(frozen=True)
class Spelling:
    """How a word becomes subwords and weights; stored in the model file."""

    normalization: Normalization = setting(
        "NFC", "How to normalize words; auto lowercases if the table has (almost) no capitals, else NFC.", Normalization
    )
    boundaries: bool = setting(False, "Put the marks < and > around words.")
    min_len: int = setting(1, "Shortest subword that has a vector, in characters.")
    max_len: int | None = setting(None, "Longest subword; no limit by default.")
    weighting: Weighting = setting(
        "posterior", "How to weight subwords: by a(s|w), equally, or by 1 + a(s|w).", Weighting
    )
    unseen_char_prob: float = setting(0.01, "Probability of an unseen character.")
    inner_boundaries: bool = setting(False, "Put marks around punctuation inside words too: <well>-<known>.")
    start_weight: float = setting(1.0, "Factor for the weight of subwords at the start of a word.")
    end_weight: float = setting(1.0, "Factor for the weight of subwords at the end of a word.")
    fallback: Fallback = setting(
        "none",
        "Read an unknown word as a training word that differs only in case, or in case and accents; auto also ignores "
        "accents if the table has (almost) none.",
        Fallback,
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, checked_setting(one, plain(getattr(self, one.name))))
        if self.max_len is not None and self.max_len < self.min_len:
            raise InputError(f"max_len must be at least min_len, got min_len {self.min_len} and max_len {self.max_len}")
        if not 1e-37 < self.unseen_char_prob <= 1:
            raise InputError(f"unseen_char_prob must be above 1e-37 and at most 1, got {self.unseen_char_prob}")
        if not (0 < self.start_weight < math.inf and 0 < self.end_weight < math.inf):
            got = f"{self.start_weight} and {self.end_weight}"
            raise InputError(f"start_weight and end_weight must be finite numbers above 0, got {got}")
        if not self.boundaries and (self.inner_boundaries, self.start_weight, self.end_weight) != (False, 1, 1):
            raise InputError("inner_boundaries, start_weight and end_weight need boundaries=True")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Preset(Spelling):
    """All settings of a model: its spelling, and how it is trained."""

    types: bool = setting(False, "Count every word once for the subword probabilities, whatever its count.")
    round_probs: bool = setting(False, "Round subword probabilities to 255 levels, one byte each.")
    min_prob_words: int = setting(1, "A subword has to be in N words to get a probability.")
    em_rounds: int = setting(0, "Rounds of EM that fit the subword probabilities to the words.", least=0)
    min_vector_words: int = setting(1, "A subword has to be in N training words to get a vector.")
    merge: bool = setting(False, "Subwords that are in exactly the same training words share one vector.")
    max_vectors: int | None = setting(None, "Keep only the N most important vectors, and train them again.")
    solver: Solver = setting("sgd", "Ridge regression, or the paper's stochastic gradient descent.", Solver)
    lam: float | Literal["auto"] = setting("auto", "Ridge penalty; auto picks the best on held-out words.")
    reliability: float | Literal["auto", "even"] = setting(
        "even",
        "Ridge: rarer words count less; a word at this share of the words, most frequent first, counts half; auto "
        "picks it on held-out words, even counts all words the same.",
    )
    own_share: float | Literal["fitted"] = setting(
        "fitted",
        "Ridge: how much of its own vector a training word keeps, 0 to 1; the rest comes from the subwords it shares "
        "with others. fitted leaves it to the solver.",
    )
    confidence: bool = setting(False, "Ridge: learn from held-out words how far to trust a vector.")
    spelling_neighbors: int = setting(
        0,
        "Add the given vectors of up to N training words near an unseen word in spelling to its own; 16 is a good N.",
        least=0,
    )
    unit_length: bool = setting(False, "SGD: scale subword vectors to length 1 before summing (PBoS-n).")
    epochs: int = setting(50, "SGD: passes over the words.")
    lr: float = setting(1.0, "SGD: learning rate of the first epoch; epoch e (from 0) uses lr / sqrt(1 + e).")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.lr < math.inf:
            raise InputError(f"lr must be a finite number above 0, got {self.lr}")
        for name, words, least, most, expected in (
            ("lam", ("auto",), 1e-30, 1e30, 'from 1e-30 to 1e30, or "auto"'),  # as a float32
            ("reliability", ("auto", "even"), 0, 1, "from 0 to 1, or auto or even"),
            ("own_share", ("fitted",), 0, 1, "from 0 to 1, or fitted"),
        ):
            value = getattr(self, name)
            is_number = type(value) in (int, float)
            if not (least <= value <= most if is_number else isinstance(value, str) and value in words):
                raise InputError(f"{name} must be a number {expected}, got {value!r}")
        if self.solver == "sgd" and (self.reliability, self.own_share, self.confidence) != ("even", "fitted", False):
            raise InputError('reliability, own_share and confidence need solver="ridge"')
        if self.spelling_neighbors > MOST_NEAR:
            raise InputError(f"spelling_neighbors must be at most {MOST_NEAR:,}, got {self.spelling_neighbors:,}")
        if self.spelling_neighbors and not self.confidence:
            raise InputError("spelling_neighbors needs a model that has a confidence; train it with confidence=True")
        if self.own_share != "fitted" and not self.boundaries:
            raise InputError("own_share needs boundaries=True: it is the vector of the whole word with its marks")
        if self.unit_length and self.solver != "sgd":
            raise InputError('unit_length needs solver="sgd": ridge regression needs words that are plain sums')

    @property
    def spelling(self) -> Spelling:
        """The settings that a trained model needs."""
        return Spelling(**{one.name: getattr(self, one.name) for one in fields(Spelling)})

    @classmethod
    def named(cls, preset: str, settings: Mapping[str, Any], others: Iterable[str] = ()) -> Preset:
        """Return a preset with some settings changed; `others` are further keywords to suggest for a misspelled one.

        >>> Preset.named("pbos", {"epochs": 20}).epochs
        20
        """
        check_choice("preset", preset, PRESETS)
        known = [one.name for one in fields(cls)]
        for name in settings:
            if name not in known:
                near = difflib.get_close_matches(name, [*known, *others], n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the settings are: {', '.join(known)}"
                raise InputError(f"unknown setting {name!r}; {hint}")
        off: list[str] = []  # settings of the preset that need one which these switch off
        if plain(settings.get("boundaries")) is False:
            off += ["inner_boundaries", "start_weight", "end_weight", "own_share"]
        if str(settings.get("solver")) == "sgd":
            off += ["reliability", "own_share", "confidence"]
        return replace(PRESETS[preset], **{name: getattr(Preset, name) for name in off} | {**settings})


PRESETS = {
    "default": Preset(
        normalization="auto",
        fallback="auto",
        boundaries=True,
        inner_boundaries=True,
        weighting="both",
        start_weight=4.0,
        end_weight=2.0,
        types=True,
        round_probs=True,
        min_prob_words=2,
        em_rounds=10,
        merge=True,
        solver="ridge",
        reliability="auto",
        own_share=0.3,
        confidence=True,
    ),
    "pbos": Preset(),
    "pbos-n": Preset(unit_length=True),
    "bos": Preset(boundaries=True, min_len=3, max_len=6, weighting="uniform"),
}


class Settings(TypedDict, total=False):
    """Settings that `pbos.train` takes in place of the preset's own."""

    normalization: Normalization
    boundaries: bool
    min_len: int
    max_len: int | None
    weighting: Weighting
    unseen_char_prob: float
    inner_boundaries: bool
    start_weight: float
    end_weight: float
    fallback: Fallback
    types: bool
    round_probs: bool
    min_prob_words: int
    em_rounds: int
    min_vector_words: int
    merge: bool
    max_vectors: int | None
    solver: Solver
    lam: float | Literal["auto"]
    reliability: float | Literal["auto", "even"]
    own_share: float | Literal["fitted"]
    confidence: bool
    spelling_neighbors: int
    unit_length: bool
    epochs: int
    lr: float


Settings.__doc__ = f"{Settings.__doc__}\n\n" + "\n".join(
    f"    {one.name}: {one.metadata['help']}" for one in fields(Preset)
)
