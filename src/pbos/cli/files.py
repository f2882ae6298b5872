"""Commands that make and change files: train, get, info, compress, complete, convert."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import pbos
from pbos.cli import options
from pbos.cli.common import MAX_SHOWN, check_column, name_of, note, output_path, texts_of, words_from, write_result
from pbos.errors import InputError
from pbos.files.atomic import check_target
from pbos.files.paths import is_remote
from pbos.settings import DTYPES
from pbos.tables.formats import FORMATS, check_words, choose_format

UNUSED_SETTINGS = {  # by solver
    "ridge": ("unit_length", "epochs", "lr"),
    "sgd": ("lam", "reliability", "own_share"),
}
FormatOption = Annotated[str | None, options.one_of([*FORMATS], "The format, if the name does not determine it.")]


class Training:
    """Options of train that the library takes as they are."""

    preset: options.PresetName = "default"
    limit: Annotated[int | None, Option(min=1, metavar="N", help="Use only the first N words.")] = None
    text: Annotated[
        Path | None, Option(metavar="FILE", help="Text that contains words of the table, to learn how to use contexts.")
    ] = None
    heldout: Annotated[
        float, Option(metavar="SHARE", help="Share of words to hold out; their mean cosine is reported.")
    ] = 0.0
    keep_targets: Annotated[
        bool | None,
        Option(help="Keep the given vectors, for --exact; default: yes, unless --max-vectors or --dtype is given."),
    ] = None
    dtype: options.DType = "float32"
    threads: options.Threads = None
    device: Annotated[
        str | None,
        Option(
            metavar="DEVICE",
            help="A GPU for the ridge regression, such as cuda:1 (extra torch).",
            rich_help_panel=options.RESOURCES,
        ),
    ] = None
    seed: options.Seed = 0


@options.with_options(Training, *options.SETTINGS)
def train(
    vectors: Annotated[str, Argument(metavar="VECTORS", help="Word vectors: word2vec, GloVe, .vec, .npz, a folder.")],
    output: options.ModelOutput,
    force: options.Force = False,
    counts: options.Counts = None,
    verbose: options.Verbose = False,
    memory: options.Memory = None,
    scheduler: options.Scheduler = None,
    parts: Annotated[
        str | None,
        Option(
            metavar="FOLDER",
            help="Where to keep what does not fit in memory, or what workers share; default: OUTPUT.parts.",
            rich_help_panel=options.RESOURCES,
        ),
    ] = None,
    plan: Annotated[
        bool,
        Option("--plan", help="Only print how much memory and disk the job needs.", rich_help_panel=options.RESOURCES),
    ] = False,
    json: Annotated[
        bool, Option("--json", help="Print the plan as JSON, in bytes.", rich_help_panel=options.RESOURCES)
    ] = False,
    **given: Any,
) -> None:
    """Train a model on word vectors. Settings that are not given come from the preset.

    \b
    Examples:
      pbos train vectors.vec -o my-model
      pbos train vectors.vec --max-vectors 50000 --dtype int8 -o small-model
      pbos train vectors.bin --heldout 0.05 --lam 0.01 -o my-model
      pbos train glove.txt.gz --counts counts.csv --preset pbos -o my-model
      pbos train GoogleNews.bin --memory 8G --dtype float16 -o my-model
      pbos train GoogleNews.bin --scheduler tcp://10.0.0.1:8786 -o /shared/my-model
    """
    from pbos.jobs.threads import memory_size
    from pbos.jobs.workspace import JOB
    from pbos.training.plan import Plan
    from pbos.training.train import check_arguments, folder_for_parts, read_vectors
    from pbos.words.variants import resolved

    if plan:  # nothing is written, so nothing is checked that makes a place to write
        recipe = check_arguments(**given).recipe
        scratch = None if memory is None else folder_for_parts(output, parts).parent
        table = read_vectors(vectors, given.get("limit"), None, scratch)
        most = None if memory is None else memory_size(memory)
        needs = Plan.of(table.words, table.dims, resolved(recipe, table.words), given.get("threads"), most)
        write_result(json, needs.to_dict(), ([f"{name}: {value}"] for name, value in needs.facts().items()))
        return
    if json:
        raise InputError("--json prints the plan; use it with --plan")
    given |= {"output": output, "memory": memory, "scheduler": scheduler, "parts": parts}
    checked = check_arguments(**given)
    check_output(output, replace=force or (checked.parts is not None and (checked.parts / JOB).exists()))
    start = time.perf_counter()
    note_saved(pbos.train(vectors, counts, **given), output, start, verbose)


def _published() -> list[str]:
    from pbos.tables import published

    return [table.name for table in published.tables()]


def get(
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME", help="The vectors; without a name, list all that are available.", autocompletion=_published
        ),
    ] = None,
    output: Annotated[
        str | None, Option("-o", "--output", metavar="FOLDER", help="Train a model on them and save it here.")
    ] = None,
    force: options.Force = False,
    verbose: options.Verbose = False,
    json: options.Json = False,
) -> None:
    """Download published word vectors by name.

    Checks them and prints their path. They are kept in ~/.cache/pbos, or in the folder that PBOS_CACHE names. An
    interrupted download is resumed. With --output, a model is trained on them with default settings; for other
    settings, use `pbos train`.

    \b
    Examples:
      pbos get
      pbos get glove-6b-100d -o glove-model
      pbos get fasttext-crawl-de
      pbos train "$(pbos get polyglot-tr)" --preset pbos -o turkish-model
    """
    from pbos.tables import published

    if output is None and force:
        raise InputError("--force replaces a model; name its folder with --output")
    if output is not None and (name is None or json):
        raise InputError("--output trains a model: give the NAME of the vectors, without --json")
    if name is None:
        for table in published.tables():
            facts = {"name": table.name, "description": table.about, "license": table.license, "page": table.page}
            write_result(json, facts, [[f"{table.name:<20} {table.about} ({table.license})"]])
        return
    if output is not None:
        check_output(output, replace=force)  # before a download
    path = published.get(name)
    if output is None:
        write_result(json, {"name": name, "path": str(path)}, [[path]])
        return
    counts, start = path / "counts.tsv.gz", time.perf_counter()
    note_saved(pbos.train(path, counts if counts.exists() else None, output=output), output, start, verbose)


def check_output(folder: str, *, replace: bool) -> None:
    """Raise an error if no model can be saved to a folder, or if it would replace one unasked."""
    from pbos.files.model_folder import check_writable, is_model, target_of

    if not replace and is_model(target_of(folder)):
        raise InputError(f"{folder} already contains a model; replace it with --force, or choose another folder")
    check_writable(folder)


def note_saved(model: pbos.Model, output: str, start: float, verbose: bool) -> None:
    """Report a new model: where it is, its size, how long it took, and how good the vectors of unseen words are."""
    seconds, training = time.perf_counter() - start, model.info["training"]
    note(f"saved to {output}: {len(model):,} words x {model.dims} dimensions{size_of(output)}, in {seconds:.0f} s")
    if "heldout_cosine" not in training and (cosines := training.get("tried")):
        note(
            f"the vectors of other words have an expected cosine of {max(cosines.values()):.2f} with the ones "
            "that these words would have had (1 is the same, 0 is unrelated)"
        )
    for name, value in training_facts(training).items():
        if verbose or name.startswith("mean cosine"):
            note(f"{name}: {value}")


def size_of(folder: str) -> str:
    """Return the size of the files in a local folder, to follow other facts."""
    return "" if is_remote(folder) else f", {sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6:,.1f} MB"


def training_facts(training: dict[str, Any]) -> dict[str, str]:
    """Return the report of a training as text."""
    facts = {}
    if losses := training.get("losses"):
        facts["loss, first and last epoch"] = f"{losses[0]:.3g}, {losses[-1]:.3g}"
    if "excess" in training:
        facts["lam"] = f"{training['lam']:g}"
        facts["above the minimum"] = f"about {training['excess']:.2%} after {training['iterations']} iterations"
    if "reliability" in training:
        facts["reliability"] = str(training["reliability"])
    if tried := training.get("tried"):
        scores = [f"{what}: {score:.3f}" for what, score in tried.items()]
        facts["cosine of held-out words by lam, reliability"] = "; ".join(scores)
    if "heldout_cosine" in training:
        cosine, frequent, rare = (training[f"heldout_cosine{kind}"] for kind in ("", "_frequent", "_rare"))
        thirds = f"the most frequent third {frequent:.3f}, the rarest {rare:.3f}"
        facts[f"mean cosine of {training['heldout_words']:,} held-out words"] = f"{cosine:.3f} ({thirds})"
    return facts


def info(
    folder: Annotated[str | None, Argument(metavar="MODEL", help="The model, as for --model.")] = None,
    model: options.Model = None,
    json: options.Json = False,
    verify: Annotated[bool, Option("--verify", help="Also check that no byte of the model has changed.")] = False,
) -> None:
    """Show the size and the settings of a model.

    \b
    Examples:
      pbos info
      pbos info my-model --json
    """
    if folder is not None and model is not None:
        raise InputError("give the model once: as the argument, or with --model")
    config = pbos.load(folder if model is None else model, verify=verify).config()
    facts, made = config, config["info"]
    with suppress(AttributeError, KeyError, TypeError, ValueError):  # an info that pbos has not written
        hidden = {"info", "spelling", "training", *UNUSED_SETTINGS.get(made["solver"], ())}
        told = {**config, **config["spelling"], **made, "confidence": config["confidence"]}
        told |= training_facts(made["training"])
        facts = {name: value for name, value in told.items() if name not in hidden}
    width = max(map(len, facts))
    write_result(json, config, ([f"{name:<{width}}  {shown(value)}"] for name, value in facts.items()))


def shown(value: Any) -> str:
    """Return a fact about a model as people write it."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return "; ".join(map(shown, value))
        case dict():
            return ", ".join(f"{name} {shown(one)}" for name, one in value.items())
    return str(value)


def compress(
    output: options.ModelOutput,
    force: options.Force = False,
    model: options.Model = None,
    min_vector_words: Annotated[
        int, Option(min=1, metavar="N", help="Keep only vectors of subwords that at least N training words contain.")
    ] = 1,
    dtype: Annotated[str | None, options.one_of(DTYPES, "How to store the vectors.")] = None,
    dims: Annotated[
        int | None, Option(min=1, metavar="N", help="Project vectors onto their first N principal components.")
    ] = None,
    keep_targets: Annotated[
        bool, Option("--keep-targets", help="Keep the given vectors, if the model has them, for --exact.")
    ] = False,
) -> None:
    """Make a smaller model. Drops the given vectors unless told to keep them.

    \b
    Examples:
      pbos compress -m my-model --dtype int8 -o small-model
      pbos compress -m my-model --min-vector-words 5 --dims 100 --dtype int8 -o tiny-model
    """
    before = pbos.load(model)
    check_output(output, replace=force)
    after = before.compress(min_vector_words=min_vector_words, dtype=dtype, dims=dims, keep_targets=keep_targets)
    after.save(output)
    old, new = before.subword_vectors, after.subword_vectors
    note(f"saved to {output}: {len(new):,} subword vectors x {new.dims} {new.dtype}{size_of(output)}")
    note(f"subword vectors: {old.nbytes / 1e6:,.1f} MB before, {new.nbytes / 1e6:,.1f} MB now")
    if before.has_targets and not after.has_targets:
        note("dropped the given vectors, which --exact needs; keep them with --keep-targets")


def complete(
    vectors: Annotated[str, Argument(metavar="VECTORS", help="The word vectors you have.")],
    output: Annotated[str, Option("-o", "--output", metavar="FILE", help="The new table; its suffix is the format.")],
    words: Annotated[
        str | None,
        Argument(metavar="WORDS", help="A file with a word per line, or a table (- for stdin); optional with --text."),
    ] = None,
    text: Annotated[
        list[str] | None,
        Option(metavar="FILE", help="Text that contains the words, or co-occurrences of pbos count; can be repeated."),
    ] = None,
    min_count: Annotated[
        int, Option(min=1, metavar="N", help="With --text and no WORDS: add words that occur at least N times.")
    ] = 5,
    column: options.Column = None,
    format: FormatOption = None,
    min_confidence: Annotated[
        float | None, Option(metavar="0..1", help="Leave out words with a lower confidence (expected cosine).")
    ] = None,
    model: Annotated[
        str | None,
        Option("-m", "--model", metavar="FOLDER", help="A model of these vectors; default: train one."),
    ] = None,
    limit: Annotated[int | None, Option(min=1, metavar="N", help="Train on the first N words only.")] = None,
    threads: options.Threads = None,
) -> None:
    """Add missing words to a table of vectors.

    Their vectors come from their spelling and, with --text, from the contexts in which they occur. The given vectors
    come first, unchanged. New words follow in the order of the list or, without a list, by their frequency in the text.
    All new vectors have the mean length of the given vectors of rare words. Words without any known subword or context
    are left out.

    \b
    Examples:
      pbos complete vectors.vec words.txt -o completed.vec
      pbos complete vectors.bin words.txt -o completed.kv --min-confidence 0.4
      pbos complete vectors.vec --text corpus.txt.gz --min-count 10 -o completed.safetensors
      pbos complete vectors.vec words.txt --text corpus.txt -o completed.npz
    """
    from pbos.training.complete import check_completion

    output = output_path(output)
    format = choose_format(output, format)  # training takes a while: find out first whether the table can be written
    check_target(output)
    if words is None and text is None:
        raise InputError("there are no words to add; give a file of words, --text, or both")
    if words == "-" and "-" in (text or ()):
        raise InputError("words and --text cannot both be read from stdin")
    read_from = None if text is None else texts_of(text)
    check_completion(model, min_confidence, threads=threads, text=read_from, limit=limit)
    check_column(column, *(text or ()), words)
    listed = None if words is None else list(words_from(None, words, column if text is None else None))
    if words is not None and not listed:
        raise InputError(f"{name_of(words)}: no words found")
    check_words(listed or [], format)
    given = pbos.WordVectors.read(vectors)
    table = pbos.complete(
        given,
        listed,
        text=read_from,
        min_count=min_count,
        column=None if text is None else column,
        model=model,
        min_confidence=min_confidence,
        limit=limit,
        threads=threads,
    )
    table.write(output, format=format)
    note(f"wrote {output}: {len(given):,} given words and {len(table) - len(given):,} new ones x {table.dims}")
    if lost := [word for word in dict.fromkeys(listed or ()) if word not in table]:
        why = "no known subword" + ("" if text is None else " and no context")
        why += "" if min_confidence is None else f", or confidence below {min_confidence:g}"
        shown = ", ".join(lost[:MAX_SHOWN]) + (", ..." if len(lost) > MAX_SHOWN else "")
        note(f"left out {len(lost):,} of {len(set(listed or ())):,} words ({why}): {shown}")


def convert(
    source: Annotated[str, Argument(metavar="FROM", help="A vector file or folder.")],
    target: Annotated[str, Argument(metavar="TO", help="The new file; its name determines the format.")],
    format: FormatOption = None,
    limit: Annotated[int | None, Option(min=1, metavar="N", help="Take only the first N words.")] = None,
) -> None:
    """Convert word vectors between formats.

    \b
    Examples:
      pbos convert GoogleNews.bin.gz vectors.vec
      pbos convert glove.840B.300d.txt vectors.npz --limit 100000
      pbos convert vectors.vec vectors --format glove
    """
    target = output_path(target)
    vectors = pbos.WordVectors.read(source, limit=limit)
    vectors.write(target, format=format)
    note(f"wrote {target}: {len(vectors):,} words x {vectors.dims}")
