"""Commands about words: segment, explain, embed, neighbors, similarity."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import pbos
from pbos.cli import options
from pbos.cli.common import (
    Uncovered,
    batches,
    check_column,
    lines_of,
    name_of,
    note,
    output_path,
    warn_missing,
    words_from,
    write,
    write_result,
)
from pbos.errors import InputError, one_line
from pbos.files.atomic import write_whole
from pbos.files.paths import is_folder, is_table
from pbos.jobs.progress import Advance
from pbos.settings import MISSING
from pbos.tables.formats import OUTPUT_FORMATS, choose_format

NumberOption = Annotated[int, Option("-n", "--number", min=1, metavar="N", help="Number of segmentations.")]
ExactOption = Annotated[bool, Option("--exact", help="Use the given vectors of training words.")]
TargetsOption = Annotated[
    str | None, Option("--vectors", metavar="FILE", help="Like --exact, with the words and vectors of this file.")
]


@options.with_options(object, "boundaries", "types", "min_prob_words", "em_rounds")
def segment(
    words: options.Words = None,
    model: options.Model = None,
    counts: options.Counts = None,
    input: options.Input = None,
    column: options.Column = None,
    number: NumberOption = 1,
    sample: Annotated[int, Option(min=0, metavar="N", help="Draw N segmentations at random instead.")] = 0,
    seed: Annotated[int | None, Option(min=0, metavar="N", help="Seed of --sample, to make it repeatable.")] = None,
    json: options.Json = False,
    **given: Any,
) -> None:
    """Cut words into subwords, with the probability of each cut.

    With --counts, no model is needed, and the settings can be chosen; those in the third example cut words closer to
    their stems and affixes. The model can also be a saved segmenter.

    \b
    Examples:
      pbos segment higher
      pbos segment -n 3 penpineapplepie --counts unigram_freq.csv
      pbos segment -c unigram_freq.csv --boundaries --types --min-prob-words 2 --em-rounds 10 unfriendliness
      pbos segment --sample 5 --seed 1 unfriendliest
      pbos segment --json -i words.txt
    """
    check_column(column, input)
    segmenter = segmenter_of(model, counts, **given)
    seed = secrets.randbits(64) if seed is None else seed
    done = 0
    for batch in batches(words_from(words, input, column)):
        if sample:  # by the position of the words, so that the draws do not depend on the size of batches
            found = segmenter.subwords.sample(batch, sample, seed, first=done)
        else:
            found = segmenter.segment(batch, number)
        done += len(batch)
        for word, segmentations in zip(batch, found, strict=True):
            rows = [(word, "/".join(one.pieces), f"{one.probability:.3f}") for one in segmentations]
            write_result(json, {"word": word, "segmentations": [one._asdict() for one in segmentations]}, rows)


def explain(
    words: options.Words = None,
    model: options.Model = None,
    counts: options.Counts = None,
    input: options.Input = None,
    column: options.Column = None,
    number: NumberOption = 5,
    neighbors: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Show the N nearest training words; default: 10 in JSON, none in text."),
    ] = None,
    context: Annotated[
        list[str] | None, Option(metavar="SENTENCE", help="A sentence that contains the word; can be repeated.")
    ] = None,
    svg: Annotated[str | None, Option(metavar="FILE", help="Draw the lattice of one word.")] = None,
    json: options.Json = False,
) -> None:
    """Show why a word gets its vector: segmentations and weights.

    With --context, the vector is a mixture of spelling and context, and their shares and the most telling context words
    are shown too. This needs a model that was trained with --text.

    \b
    Examples:
      pbos explain unfriendliest
      pbos explain --neighbors 5 unfriendliest
      pbos explain higher --counts en
      pbos explain higher --svg higher.svg
      pbos explain -m my-model kubernetes --context "We deploy it on kubernetes clusters."
      pbos explain --json higher
    """
    check_column(column, input)
    segmenter = segmenter_of(model, counts)
    more: dict[str, Any] = {} if neighbors is None else {"neighbors": neighbors}
    if context:
        more["contexts"] = context
    if more and not hasattr(segmenter, "neighbors"):
        option = "--context" if context else "--neighbors"
        raise InputError(f"{option} needs a model, which has vectors; leave it out")
    if svg is not None and Path(svg).suffix not in (".svg", ""):
        raise InputError(f"{svg}: --svg writes SVG; choose a name that ends in .svg")
    if (svg is not None or context) and (words is None or len(words) != 1):
        raise InputError(f"{'--context is about' if context else '--svg draws'} one word; give a single one")
    for at, word in enumerate(words_from(words, input, column)):
        explanation = segmenter.explain(word, number, **more)
        if svg is not None:
            with write_whole(output_path(svg)) as stream:
                stream.write(explanation.svg().encode())
        if json:
            write_result(json, explanation.to_dict(), ())
            continue
        write(f"\n{explanation}" if at else str(explanation))
        if neighbors:
            write("  nearest words")
            for near, cosine in explanation.neighbors:
                write(f"    {one_line(near)}  {cosine:.3f}")


def segmenter_of(model: str | None, counts: str | None, **given: Any) -> pbos.Segmenter:
    """Return a model or a saved segmenter, or a segmenter made from counts with some settings."""
    if counts is not None:
        if model is not None:
            raise InputError("give a model with --model or counts with --counts, not both")
        return pbos.Segmenter.from_counts(counts, **given)
    if given:
        option = f"--{next(iter(given)).replace('_', '-')}"
        raise InputError(f"{option} needs word counts; give them with --counts, or leave it out")
    from pbos.files.model_folder import folder_of, load_folder, resolve_model

    folder = resolve_model(model)
    has_vectors = "vectors" in load_folder(folder_of(folder), layout={})[1]
    return pbos.load(model) if has_vectors else pbos.Segmenter.load(folder)


def embed(
    words: options.Words = None,
    model: options.Model = None,
    input: options.Input = None,
    output: Annotated[
        str | None,
        Option(
            "-o", "--output", metavar="FILE", help="The file; its suffix is the format. Or a FOLDER/. Default: stdout."
        ),
    ] = None,
    column: options.Column = None,
    vector_column: Annotated[str, Option(metavar="NAME", help="Tables: the name of the new column.")] = "vector",
    confidence: Annotated[
        bool,
        Option(
            "--confidence", help="Also write how far to trust each vector: after the word, as a field, or as a column."
        ),
    ] = False,
    exact: ExactOption = False,
    vectors: TargetsOption = None,
    missing: Annotated[
        str | None,
        options.one_of(
            (*MISSING, "skip", "null"),
            "Blank lines and nulls: stop, write zeros, leave them out, or write null (tables only). Default: null in "
            "tables, zeros in .npy, skip elsewhere.",
        ),
    ] = None,
    threads: options.Threads = None,
    scheduler: options.Scheduler = None,
    json: options.Json = False,
) -> None:
    """Write the vector of every word: lines of a word and numbers.

    The input is a text file with one word per line, or a table (.parquet, .arrow, .feather, .csv, .tsv; extra arrow).
    The output is a table (.parquet, .arrow, .feather), which keeps the other columns; JSON lines (.jsonl); a matrix
    (.npy); or a file of word vectors (.vec, .txt, .bin, .glove, .npz, .kv, .safetensors). Words are streamed, so memory
    does not grow with their number, except for the last three formats. The confidence of a word is the expected cosine,
    0 to 1, of its vector and the one it would have had as a training word.

    If the output is a folder, the input can be many files, such as 'words/*.parquet'. The folder gets Parquet files of
    about a million words each, and is complete when it has a file _SUCCESS. After an interruption, run the same command
    again to continue. With --scheduler, the files are made on a cluster; model, input and output must be on storage
    that all of its workers share.

    \b
    Examples:
      pbos embed unfriendliest --json
      cat words.txt | pbos embed > vectors.txt
      pbos embed --confidence -i words.txt | cut -d " " -f 1-2
      pbos embed -i words.txt -o vectors.vec
      pbos embed -i words.csv --column word -o vectors.parquet
      pbos embed -i 'words/*.parquet' -o vectors/ --scheduler tcp://10.0.0.1:8786
      pbos embed -m my-model --vectors vectors.vec -i words.txt > vectors.txt
    """
    output = None if output == "-" else output
    to_folder = scheduler is not None or (output is not None and (output.endswith("/") or is_folder(output)))
    if to_folder and (words or input is None or output is None):
        raise InputError("a folder of vectors is made from files: name them with --input, and the folder with --output")
    if to_folder or output is None:
        format = "folder" if to_folder else "jsonl" if json else "text"
    else:
        format = choose_format(output, formats=OUTPUT_FORMATS)
    to_table = format in ("table", "folder")
    if not to_table:
        check_column(column, input)
    if missing == ("skip" if to_table else "null"):
        raise InputError(f"--missing {missing} is for {'formats other than tables' if to_table else 'tables'}")
    if json and format != "jsonl":
        raise InputError("--json writes JSON lines; name the output .jsonl, or leave it out to write to stdout")
    if confidence and not (to_table or format == "jsonl" or output is None):
        raise InputError("--confidence needs a table or .jsonl as output file, or text on stdout")
    missing = missing or ("null" if to_table else "zeros" if format == "npy" else "skip")
    given: dict[str, Any] = {"exact": exact or vectors is not None, "threads": threads}
    chosen: Any = model if to_folder and vectors is None else _load(model, vectors)
    if not to_table:
        _write_rows(chosen, words_from(words, input, column, missing), output, format, confidence=confidence, **given)
        return
    given |= {
        "column": column,
        "vector_column": vector_column,
        "confidence_column": "confidence" if confidence else None,
        "missing": missing,
    }
    if to_folder:
        done = pbos.embed_files(chosen, str(input), str(output), scheduler=scheduler, **given)
        if done.kept:
            note(f"{done.kept} of {done.kept + done.parts} parts were already there")
    else:
        from pbos.adapters.arrow import embed_table
        from pbos.tables.columns import table_of_words

        table: Any = input
        if words or input is None or not is_table(input):
            table = table_of_words(words_from(words, input, None, missing), column or "word")
        done = embed_table(chosen, table, str(output), **given)
    if to_folder or table is input:  # otherwise `words_from` has warned
        warn_missing(done.missing, missing)
    Uncovered(done.uncovered, done.examples).warn()


def _write_rows(
    model: pbos.Model, words: Iterator[str], output: str | None, format: str, *, confidence: bool, **given: Any
) -> None:
    """Write words and their vectors, batch by batch, to a file that is no table or to stdout."""
    from pbos.jobs.progress import progress
    from pbos.tables.writing import rows, without_bad_words, write_batches

    uncovered, done = Uncovered(), 0

    def embedded(advance: Advance) -> Iterator[tuple[Any, ...]]:
        nonlocal done
        for batch in batches(words):
            vectors = model.embed(batch, missing="zeros", **given)
            uncovered.add(batch, vectors)
            trust = [model.confidence(batch, missing="zeros", threads=given["threads"])] if confidence else []
            yield batch, vectors, *trust
            done += len(batch)
            advance(len(batch), note=f"{done:,} words")

    with progress("embedding", None, None if output else False) as advance:  # no bar in the middle of vectors
        found = without_bad_words(format, embedded(advance))
        if output is not None:
            write_batches(output, format, found, model.dims)
        else:
            for row in rows(format, found):
                write(row.decode().removesuffix("\n"))
    uncovered.warn()


def _load(model: str | None, vectors: str | None) -> pbos.Model:
    """Load a model, with the given vectors of a file if there is one."""
    loaded = pbos.load(model)
    return loaded if vectors is None else loaded.with_targets(vectors)


def neighbors(
    words: options.Words = None,
    model: options.Model = None,
    input: options.Input = None,
    column: options.Column = None,
    number: Annotated[int, Option("-n", "--number", min=1, metavar="N", help="Number of neighbors.")] = 10,
    positive: Annotated[list[str] | None, Option(metavar="WORD", help="A word to add; can be repeated.")] = None,
    negative: Annotated[list[str] | None, Option(metavar="WORD", help="A word to subtract.")] = None,
    among: Annotated[
        str | None, Option(metavar="FILE", help="Search these words instead of the training words.")
    ] = None,
    exact: ExactOption = False,
    vectors: TargetsOption = None,
    json: options.Json = False,
) -> None:
    """List the words nearest to a word, or to a sum of words.

    The columns are the word, a near word and their cosine; then, if the model has it, the confidence of the word: how
    far to trust its vector, 0 to 1. A word without any known subword has no neighbors.

    \b
    Examples:
      pbos neighbors unfriendliest
      pbos neighbors -n 3 --json covfefe
      pbos neighbors --positive king --positive woman --negative man
      pbos neighbors -i queries.txt --among my-words.txt
    """
    combined = bool(positive or negative)
    if combined and (words or input is not None):
        raise InputError("give words, or --positive and --negative ones, not both")
    check_column(column, input, among)
    loaded, exact = _load(model, vectors), exact or vectors is not None
    searched = None if among is None else list(words_from(None, among, column))
    given: dict[str, Any] = {"among": searched, "exact": exact}
    uncovered = Uncovered()

    def show(asked: dict[str, Any], label: str, near: list[tuple[str, float]]) -> None:
        trust = [] if asked.get("confidence") is None else [f"{asked['confidence']:.3f}"]
        found = [{"word": word, "cosine": cosine} for word, cosine in near]
        rows = [(label, word, f"{cosine:.3f}", *trust) for word, cosine in near]
        write_result(json, {**asked, "neighbors": found}, rows)

    if combined:
        plus, minus = (list(words_from(signed, None)) if signed else [] for signed in (positive, negative))
        uncovered.add(plus + minus, loaded.embed(plus + minus, exact=exact))
        label = " + ".join(plus) + "".join(f" - {word}" for word in minus)
        near = loaded.neighbors(n=number, positive=plus, negative=minus, **given)
        show({"positive": plus, "negative": minus}, label.strip(), near)
    else:
        for batch in batches(words_from(words, input, column)):
            uncovered.add(batch, loaded.embed(batch, exact=exact))
            trusts = loaded.confidence(batch).tolist() if loaded.has_confidence else [None] * len(batch)
            for word, trust, near in zip(batch, trusts, loaded.neighbors(batch, number, **given), strict=True):
                show({"word": word, "confidence": trust}, word, near)
    uncovered.warn()


def similarity(
    words: options.Words = None,
    model: options.Model = None,
    input: options.Input = None,
    json: options.Json = False,
) -> None:
    """Print the cosine of two words, or of many pairs.

    Pairs are lines of two words separated by a tab. The cosine is 0 for a word without any known subword.

    \b
    Examples:
      pbos similarity king queen
      pbos similarity -i pairs.tsv --json
    """
    if words and (len(words) != 2 or input is not None):
        got = "1 word" if len(words) == 1 else f"{len(words)} words"
        raise InputError(f"similarity takes two words, or pairs from a file or stdin; got {got}")
    loaded = pbos.load(model)
    uncovered = Uncovered()
    for batch in batches([list(words_from(words, None))] if words else _pairs(input)):
        first, second = map(list, zip(*batch, strict=True))
        vectors = loaded.embed(first + second)
        uncovered.add(first + second, vectors)
        found = pbos.cosines(vectors[: len(batch)], vectors[len(batch) :])
        for one, other, cosine in zip(first, second, found.tolist(), strict=True):
            write_result(json, {"words": [one, other], "cosine": cosine}, [(one, other, f"{cosine:.3f}")])
    uncovered.warn()


def _pairs(file: str | None) -> Iterator[list[str]]:
    good = bad = first = 0
    for number, line in enumerate(lines_of(file), 1):
        pair = [word.strip() for word in line.split("\t")[:2]]
        if len(pair) == 2 and all(pair):
            good += 1
            yield pair
        else:
            bad, first = bad + 1, first or number
    place = f"{name_of(file)}, line {first}"
    if bad and not good:
        raise InputError(f"{place}: expected two words separated by a tab")
    warn_missing(bad, "skip", place)
