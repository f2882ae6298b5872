"""Compare pbos with its peers on the same words, in one table: calls alternate, and the best of five runs counts.

    python benchmarks/run.py [--json FILE] [question ...]        (default: all questions)

`make bench` creates the environment and runs this; README.md has the results of the last full run.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# Keep libraries from starting threads of their own.
os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

HERE = Path(__file__).resolve().parent
QUESTIONS = sorted(path.stem.replace("_", "-") for path in (HERE / "questions").glob("[!_]*.py"))
PACKAGES = ["pbos", "numpy", "numba"]
PEERS = ["fasttext-wheel", "floret", "gensim", "model2vec", "morfessor", "sentencepiece", "tokenizers"]


def main() -> None:
    import measure

    arguments = parser().parse_args()
    about = machine()
    print("\n".join(f"{name}: {value}" for name, value in about.items()), end="\n\n")
    print(measure.HEADER, flush=True)
    found = []
    for name in arguments.question or QUESTIONS:
        measure.log(name)
        for row in importlib.import_module(f"questions.{name.replace('-', '_')}").rows():
            print(row, flush=True)
            found.append({"name": name, **row.to_dict()})
            if arguments.json:  # after each row, because a full run takes long
                arguments.json.write_text(json.dumps({**about, "rows": found}, indent=2, ensure_ascii=False))
        clear_caches()
    measure.log("done")


def clear_caches() -> None:
    """Free the models and words of a question: the peers alone take 6 GB."""
    import inputs
    import peers

    for value in (*vars(inputs).values(), *vars(peers).values()):
        if hasattr(value, "cache_clear"):
            value.cache_clear()
    gc.collect()


def parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    result = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    help = f"the questions to run; default: all ({', '.join(QUESTIONS)})"
    result.add_argument("question", nargs="*", choices=[[], *QUESTIONS], metavar="question", help=help)
    result.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to this file")
    return result


def machine() -> dict[str, str]:
    """Return the machine, the versions, the commit and the command line."""
    versions = {name: installed(name) for name in (*PACKAGES, *PEERS)}
    return {
        "machine": f"{os.cpu_count()} cores of {processor()}, {platform.system()}",
        "versions": ", ".join([f"Python {platform.python_version()}", *(f"{k} {v}" for k, v in versions.items())]),
        "commit": commit(),
        "command": " ".join(["python", "benchmarks/run.py", *sys.argv[1:]]),
    }


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def commit() -> str:
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
