"""Record the first minutes of a new user: a clean environment, the wheel, and nothing else.

    python scripts/first_minutes.py > docs/first-minutes.md

Builds the wheel, runs COMMANDS in a new folder, and writes what they print and the seconds they took.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """# The first minutes

A recording: a new user with a clean environment, the wheel and nothing else, on two cores. In brackets is how long each
command took. The first call of a kind compiles; `pbos compile` does it for all at once. The home of GloVe cannot be
reached from this machine, so a package had its vectors, instead of `pbos get glove-6b-50d`. To repeat it, run
`python scripts/first_minutes.py`.

```text"""
COMMANDS = """\
python -m venv env
pip install pbos-*.whl
pbos neighbors unfriendliest -n 3
pbos neighbors rewatchable -n 3
pbos explain unfriendliest
python -c 'import pbos; model = pbos.load(); print(model["covfefe"][:4], model.confidence("covfefe"))'
pbos get | head -5
pbos train ~/vectors/glove-6b-50d --limit 100000 --heldout .05 -o my-model
pbos neighbors -m my-model unfriendliest selfie-stick -n 3
pbos embed -m my-model unfriendliest selfie-stick -o vectors.vec && cut -c 1-60 vectors.vec
pbos train ~/vectors/glove-6b-50d --limit 100000 -o my-model
pbos serve -m my-model
pip install "pbos[serve]"
pbos serve -m my-model --port 8765 & sleep 9; curl -s localhost:8765/ | grep '<title>'; kill $!
du -sh --apparent-size env my-model
"""


def main() -> None:
    """Build the wheel and run the commands."""
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        home = Path(folder, "home")
        home.mkdir()
        fetch = [sys.executable, "-m", "experiments", "real-data", "glove-6b-50d", "-o", str(home / "vectors")]
        subprocess.run(fetch, cwd=ROOT, check=True)
        path = f"{folder}/env/bin:{os.environ['PATH']}"
        environment = {**os.environ, "HOME": str(home), "PATH": path, "COLUMNS": "100", "PIP_QUIET": "1"}
        for name in ("PYTHONPATH", "NUMBA_CACHE_DIR", "VIRTUAL_ENV", "PBOS_CACHE"):
            environment.pop(name, None)
        for command in COMMANDS.splitlines():
            local = command.replace("pip install ", "pip install --find-links . --no-warn-script-location ")
            start = time.perf_counter()
            done = subprocess.run(
                ["bash", "-c", local],
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            said = done.stdout.replace(str(home), "~").replace(folder, ".")
            lines = [line for line in said.splitlines() if not line.startswith(("WARNING: Location", "[notice]"))]
            print(f"$ {command}", *lines, f"[{time.perf_counter() - start:.1f} s]\n", sep="\n", flush=True)
    print("```")


if __name__ == "__main__":
    main()
