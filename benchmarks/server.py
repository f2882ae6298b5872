"""Requests per second of `pbos serve` with the English model, and how long they take: the table in docs/server.md.

    python benchmarks/server.py         (needs wrk; PYTHONPATH may name the sources of another version)

Words are distinct: halves of two training words, put together. wrk and the server share the machine.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pbos

SECONDS = 4
REQUESTS = [  # what is asked, with how many words, which answer, and how many connections
    *(("GET /neighbors", 1, None, connections) for connections in (1, 16, 128)),
    ("GET /segment", 1, None, 16),
    ("GET /health", 0, None, 16),
    ("POST /embed", 1000, "application/json", 4),
    ("POST /embed", 1000, "application/octet-stream", 4),
]
SCRIPT = """
local parts, at = {%s}, 0
request = function()
  at = at %% #parts + 1
  return wrk.format(%s)
end
done = function(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("\\n%%f %%f %%f %%d\\n", summary.requests * 1e6 / summary.duration,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, failed))
end
"""


def make_words(n: int) -> list[str]:
    """Return words that the model does not have."""
    known, choose = pbos.load(), random.Random(0)
    words = (choose.choice(known.words)[:4] + choose.choice(known.words)[-4:] for _ in range(2 * n))
    return [word for word in dict.fromkeys(words) if re.fullmatch("[a-z]+", word) and word not in known][:n]


def script(request: str, n_words: int, accept: str | None, words: list[str]) -> str:
    """Return what wrk runs to make requests."""
    method, path = request.split()
    if method == "GET":
        parts = [f"{path}?word={word}" if n_words else path for word in words]
        return SCRIPT % (",".join(map(json.dumps, parts)), '"GET", parts[at]')
    groups = [words[first : first + n_words] for first in range(0, len(words), n_words)]
    parts = [json.dumps(json.dumps({"words": group})) for group in groups]
    headers = f'{{["Content-Type"] = "application/json", ["Accept"] = "{accept}"}}'
    return SCRIPT % (",".join(parts), f'"POST", "{path}", {headers}, parts[at]')


def measure(words: list[str]) -> None:
    """Run the server, and print a row for each kind of request."""
    command = [sys.executable, "-c", "from pbos.cli import main; main()", "serve", "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        url = server.stdout.readline().split()[0]
        for request, n_words, accept, connections in REQUESTS:
            file = Path(folder, "script.lua")
            file.write_text(script(request, n_words, accept, words))
            wrk = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}", "--timeout", "20", "-s", str(file), url]
            output = subprocess.run(wrk, check=True, capture_output=True, text=True).stdout
            rate, median, late, failed = map(float, output.splitlines()[-1].split())
            row = f"{request} {accept or ''} | {connections} | {rate:,.0f} | {median:.1f} | {late:.1f} | {failed:.0f}"
            print(f"| {row} |", flush=True)
        server.terminate()


if __name__ == "__main__":
    print("| request | connections | per second | median, ms | p99, ms | failed |\n|---|---|---|---|---|---|")
    measure(make_words(20_000))
