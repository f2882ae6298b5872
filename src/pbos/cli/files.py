"""Commands that make and change files: train, info, compress, convert."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from pbos.cli.common import JsonOption, ModelOption, load_model, note, prepare, write, write_json
from pbos.cli.vectors import ThreadsOption


class PresetName(str, Enum):
    """The presets of `pbos.training`, spelled out here so that --help need not import it."""

    default = "default"
    pbos = "pbos"
    pbos_n = "pbos-n"
    bos = "bos"


class SolverName(str, Enum):
    """The solvers of `pbos.training`."""

    ridge = "ridge"
    sgd = "sgd"


class DType(str, Enum):
    """How vectors can be held."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


class VectorFormat(str, Enum):
    """The formats of vector files."""

    word2vec = "word2vec"
    word2vec_binary = "word2vec-binary"
    glove = "glove"
    npz = "npz"
    folder = "folder"


SOLVER_REPORT = ("losses", "lam", "lams", "iterations", "residual")  # what `solver_facts` puts in words
OTHER_SETTINGS = {"ridge": ("unit_length", "epochs", "lr"), "sgd": ("lam",)}  # which a solver does not use
OutputOption = Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where to save the model.")]


def train(
    vectors: Annotated[Path, typer.Argument(metavar="VECTORS", help="word2vec, GloVe, fastText .vec, npz, folder.")],
    output: OutputOption,
    counts: Annotated[
        str | None,
        typer.Option("-c", "--counts", metavar="FILE", help="Word counts: a file, or a language code such as en."),
    ] = None,
    preset: Annotated[PresetName, typer.Option(help="The settings to start from.")] = PresetName.default,
    solver: Annotated[SolverName | None, typer.Option(help="Ridge regression, or the paper's SGD.")] = None,
    lam: Annotated[
        str | None,
        typer.Option(metavar="NUMBER|auto", help="For ridge: the penalty; auto chooses it by words set aside."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="For sgd: how often to go over the words.")] = None,
    lr: Annotated[float | None, typer.Option(help="For sgd: the rate of the first epoch.")] = None,
    max_vectors: Annotated[int | None, typer.Option(min=1, help="Keep the so many vectors that matter most.")] = None,
    min_len: Annotated[int | None, typer.Option(min=1, help="The shortest subword that owns a vector.")] = None,
    max_len: Annotated[int | None, typer.Option(min=1, help="The longest subword.")] = None,
    min_count: Annotated[int | None, typer.Option(min=1, help="Drop subwords that fewer training words hold.")] = None,
    boundaries: Annotated[bool | None, typer.Option(help="Write words with < and > around them.")] = None,
    normalization: Annotated[str | None, typer.Option(help="NFC, NFKC, casefold or none.")] = None,
    unseen_char_prob: Annotated[float | None, typer.Option(help="Probability of a character never seen.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use the first so many words.")] = None,
    heldout: Annotated[float, typer.Option(help="Share of words to set aside; their cosine is reported.")] = 0.0,
    keep_targets: Annotated[bool, typer.Option(help="Keep the given vectors in the model.")] = False,
    dtype: Annotated[DType, typer.Option(help="How to hold the vectors.")] = DType.float32,
    threads: ThreadsOption = None,
    device: Annotated[str | None, typer.Option(help="For ridge: a GPU, as cuda or cuda:1 (extra torch).")] = None,
    seed: Annotated[int, typer.Option(help="Fixes all that is random.")] = 0,
) -> None:
    """Train a model on word vectors.

    \b
    Examples:
      pbos train vectors.vec -o my-model
      pbos train vectors.vec --max-vectors 50000 --dtype int8 -o small-model
      pbos train vectors.bin --heldout 0.05 --lam 0.01 -o my-model
      pbos train glove.txt.gz --counts counts.csv --preset pbos -o my-model
    """
    from pbos.storage import check_writable

    check_writable(output)
    prepare()
    import pbos

    options = {
        "solver": solver and solver.value,
        "lam": lam and number_or_text(lam),
        "epochs": epochs,
        "lr": lr,
        "max_vectors": max_vectors,
        "min_len": min_len,
        "max_len": max_len,
        "min_count": min_count,
        "boundaries": boundaries,
        "normalization": normalization,
        "unseen_char_prob": unseen_char_prob,
    }
    settings: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    model = pbos.train(
        vectors,
        counts,
        preset=preset.value,
        limit=limit,
        heldout=heldout,
        keep_targets=keep_targets,
        threads=threads,
        device=device,
        seed=seed,
        **settings,
    )
    if dtype is not DType.float32:
        model = model.compress(dtype=dtype.value)
    model.save(output)
    training = model.info["training"]
    note(f"saved to {output}: {len(model.words):,} words, {len(model.vectors):,} subword vectors x {model.dims}")
    for name, value in solver_facts(training).items():
        note(f"{name}: {value}")
    if "heldout_cosine" in training:
        note(f"mean cosine of {training['heldout_words']:,} held-out words: {training['heldout_cosine']:.3f}")


def number_or_text(text: str) -> float | str:
    """Read a number; the library tells what else it takes."""
    try:
        return float(text)
    except ValueError:
        return text


def solver_facts(training: dict[str, Any]) -> dict[str, str]:
    """Put how a model's solver fared in words."""
    facts = {}
    if losses := training.get("losses"):
        facts["loss, first and last epoch"] = f"{losses[0]:.3g}, {losses[-1]:.3g}"
    if "residual" in training:
        facts["lam"] = f"{training['lam']:g}"
        facts["residual"] = f"{training['residual']:.3g} after {training['iterations']} iterations"
    if lams := training.get("lams"):
        facts["cosine of words set aside, by lam"] = ", ".join(f"{lam}: {score:.3f}" for lam, score in lams.items())
    return facts


def info(model: ModelOption = None, json: JsonOption = False) -> None:
    """Show what a model is and how it was made.

    \b
    Examples:
      pbos info
      pbos info -m my-model --json
    """
    config = load_model(model).config()
    if json:
        write_json(config)
        return
    made = config.pop("info")
    spelling = config.pop("spelling")
    training = made.pop("training", {})
    facts = {**config, **spelling, **made, **{k: v for k, v in training.items() if k not in SOLVER_REPORT}}
    for name in OTHER_SETTINGS.get(made.get("solver"), ()):
        facts.pop(name, None)
    facts |= solver_facts(training)
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
        write(f"{name:<{width}}  {shown}")


def compress(
    output: OutputOption,
    model: ModelOption = None,
    min_count: Annotated[int, typer.Option(min=1, help="Drop subwords that fewer training words hold.")] = 1,
    dtype: Annotated[DType | None, typer.Option(help="How to hold the vectors.")] = None,
    dims: Annotated[int | None, typer.Option(min=1, help="Project onto so many dimensions.")] = None,
) -> None:
    """Make a smaller model.

    \b
    Examples:
      pbos compress -m my-model --dtype int8 -o small-model
      pbos compress -m my-model --min-count 5 --dims 100 --dtype int8 -o tiny-model
    """
    from pbos.storage import check_writable

    check_writable(output)
    before = load_model(model)
    after = before.compress(min_count=min_count, dtype=dtype and dtype.value, dims=dims)
    after.save(output)
    sizes = [f"{one.vectors.nbytes / 1e6:,.1f} MB" for one in (before, after)]
    note(f"saved to {output}: {len(after.vectors):,} subword vectors x {after.dims} {after.vectors.dtype}")
    note(f"subword vectors: {sizes[0]} before, {sizes[1]} now")


def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="A vector file or folder.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="Where to write it; the name chooses the format.")],
    format: Annotated[VectorFormat | None, typer.Option(help="The format, where the name does not say it.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take the first so many words.")] = None,
) -> None:
    """Convert word vectors between formats.

    \b
    Examples:
      pbos convert GoogleNews.bin.gz vectors.vec
      pbos convert glove.840B.300d.txt vectors.npz --limit 100000
    """
    prepare()
    from pbos.vectors import WordVectors

    vectors = WordVectors.read(source, limit=limit)
    vectors.write(target, format=format and format.value)
    note(f"wrote {target}: {len(vectors):,} words x {vectors.dims}")
