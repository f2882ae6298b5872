"""Commands that make and change files: train, info, compress, convert."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from pbos.cli.common import (
    CountsOption,
    JsonOption,
    ModelOption,
    PresetOption,
    ThreadsOption,
    load_model,
    note,
    one_of,
    prepare,
    with_settings,
    write,
    write_json,
)
from pbos.settings import DTYPES, Preset
from pbos.vectors import FORMATS

SOLVER_REPORT = ("losses", "lam", "lams", "iterations", "residual")  # what `solver_facts` describes
OTHER_SETTINGS = {"ridge": ("unit_length", "epochs", "lr"), "sgd": ("lam",)}  # which a solver does not use
OutputOption = Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Where to save the model.")]


@with_settings(*(setting.name for setting in fields(Preset)))
def train(
    vectors: Annotated[
        Path, typer.Argument(metavar="VECTORS", help="The word vectors: word2vec, GloVe, fastText .vec, npz, a folder.")
    ],
    output: OutputOption,
    counts: CountsOption = None,
    preset: PresetOption = "default",
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first N words.")] = None,
    heldout: Annotated[float, typer.Option(help="Share of words to hold out; their mean cosine is reported.")] = 0.0,
    keep_targets: Annotated[
        bool, typer.Option("--keep-targets", help="Keep the given vectors in the model, for --exact.")
    ] = False,
    dtype: Annotated[str, one_of(DTYPES, "How to store the vectors.")] = "float32",
    threads: ThreadsOption = None,
    device: Annotated[
        str | None, typer.Option(help="Ridge: a GPU such as cuda or cuda:1 (extra torch), instead of the CPU.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Determines the order of words and which ones are held out.")] = 0,
    **settings: Any,
) -> None:
    """Train a model on word vectors. Settings that are not given are those of the preset.

    \b
    Examples:
      pbos train vectors.vec -o my-model
      pbos train vectors.vec --max-vectors 50000 --dtype int8 -o small-model
      pbos train vectors.bin --heldout 0.05 --lam 0.01 -o my-model
      pbos train glove.txt.gz --counts counts.csv --preset pbos -o my-model
    """
    prepare()
    import pbos
    from pbos.storage import check_writable

    check_writable(output)
    model = pbos.train(
        vectors,
        counts,
        preset=preset,
        limit=limit,
        heldout=heldout,
        keep_targets=keep_targets,
        threads=threads,
        device=device,
        seed=seed,
        **settings,
    )
    if dtype != "float32":
        model = model.compress(dtype=dtype)
    model.save(output)
    note(f"saved to {output}: {len(model):,} words, {len(model.subword_vectors):,} subword vectors x {model.dims}")
    training = model.info["training"]
    for name, value in solver_facts(training).items():
        note(f"{name}: {value}")
    if "heldout_cosine" in training:
        note(f"mean cosine of {training['heldout_words']:,} held-out words: {training['heldout_cosine']:.3f}")


def solver_facts(training: dict[str, Any]) -> dict[str, str]:
    """Return the solver's report as text."""
    facts = {}
    if losses := training.get("losses"):
        facts["loss, first and last epoch"] = f"{losses[0]:.3g}, {losses[-1]:.3g}"
    if "residual" in training:
        facts["lam"] = f"{training['lam']:g}"
        facts["residual"] = f"{training['residual']:.3g} after {training['iterations']} iterations"
    if lams := training.get("lams"):
        facts["cosine of held-out words by lam"] = ", ".join(f"{lam}: {score:.3f}" for lam, score in lams.items())
    return facts


def info(model: ModelOption = None, json: JsonOption = False) -> None:
    """Show the size and the settings of a model.

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
    min_vector_words: Annotated[
        int, typer.Option(min=1, help="Keep vectors of subwords that at least N training words contain.")
    ] = 1,
    dtype: Annotated[str | None, one_of(DTYPES, "How to store the vectors.")] = None,
    dims: Annotated[int | None, typer.Option(min=1, help="Project onto the first N principal components.")] = None,
) -> None:
    """Make a smaller model.

    \b
    Examples:
      pbos compress -m my-model --dtype int8 -o small-model
      pbos compress -m my-model --min-vector-words 5 --dims 100 --dtype int8 -o tiny-model
    """
    before = load_model(model)
    from pbos.storage import check_writable

    check_writable(output)
    after = before.compress(min_vector_words=min_vector_words, dtype=dtype, dims=dims)
    after.save(output)
    old, new = before.subword_vectors, after.subword_vectors
    note(f"saved to {output}: {len(new):,} subword vectors x {new.dims} {new.dtype}")
    note(f"subword vectors: {old.nbytes / 1e6:,.1f} MB before, {new.nbytes / 1e6:,.1f} MB now")


def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="A vector file or folder.")],
    target: Annotated[Path, typer.Argument(metavar="TO", help="The new file; its name determines the format.")],
    format: Annotated[str | None, one_of(FORMATS, "The format, if the name does not determine it.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Take only the first N words.")] = None,
) -> None:
    """Convert word vectors between formats.

    \b
    Examples:
      pbos convert GoogleNews.bin.gz vectors.vec
      pbos convert glove.840B.300d.txt vectors.npz --limit 100000
      pbos convert vectors.vec vectors --format glove
    """
    prepare()
    from pbos.vectors import WordVectors

    vectors = WordVectors.read(source, limit=limit)
    vectors.write(target, format=format)
    note(f"wrote {target}: {len(vectors):,} words x {vectors.dims}")
