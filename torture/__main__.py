"""Run the attacks within a time: `python -m torture --minutes 10 fuzz crashes`."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from importlib import import_module

ATTACKS = ("words", "fuzz", "damage", "crashes", "concurrency", "server", "determinism")


def main() -> None:
    """Run attacks one after another, each for its share of the time; exit with 1 if one has found something."""
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"attacks (default: all): {', '.join(ATTACKS)}")
    parser.add_argument("--minutes", type=float, default=180, help="time for all attacks together (default: 180)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="default: another one every time")
    options = parser.parse_args()
    names = options.names or list(ATTACKS)
    if unknown := set(names) - set(ATTACKS):
        parser.error(f"no attack is named {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    print(f"seed {options.seed}", flush=True)
    failed = []
    for name in names:
        began = time.perf_counter()
        try:
            found = import_module(f"torture.{name}").run(options.minutes * 60 / len(names), options.seed)
        except Exception:
            traceback.print_exc()
            failed.append(name)
            found = {"failed": True}
        print(f"{name} ({time.perf_counter() - began:.0f} s): {json.dumps(found)}", flush=True)
    sys.exit(f"something was found by: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
