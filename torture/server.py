"""Attacks on a running `pbos serve`: broken, slow, huge, abandoned and forbidden requests, and more than it can do.

Needs the extra `serve`. Every attack raises AssertionError with what reproduces the failure, and returns counts.
"""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

TOKEN = "one+two=three"
FILES = 256  # descriptors of the attacked server
SHORT = {"HEAD_SECONDS": 5, "SEND_SECONDS": 2}  # so that attacks do not take minutes
PATIENCE = 300  # seconds for an answer of a busy machine
START = """
import sys, pbos.server.run as run, pbos.server.app as app
from pbos.server import Limits
for name, value in {times}.items(): setattr(run, name, value)
run.STOP_SECONDS = 30
if {times}: app.make_app.__kwdefaults__["limits"] = Limits(body_seconds=2)
sys.argv = ["pbos", "serve", "--port", "0", *{arguments}]
from pbos.cli import main
main()
"""
Counts = dict[str, float]


class Served(NamedTuple):
    """A running server."""

    process: subprocess.Popen[str]
    port: int
    log: Path


class Reply(NamedTuple):
    """The answer to one request; status 0 if the connection was closed without one."""

    status: int
    head: str
    body: bytes


@contextmanager
def served(*arguments: str, token: str | None = None, files: int = FILES, short: bool = True) -> Iterator[Served]:
    """Run `pbos serve`, by default with few descriptors and short times."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    environment = {**os.environ, **({} if token is None else {"PBOS_TOKEN": token})}
    code = START.format(times=SHORT if short else {}, arguments=list(arguments))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("w") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=environment,
                preexec_fn=few_files,
            )
        assert process.stdout is not None
        found = re.search(r":(\d+)  ", process.stdout.readline())
        try:
            assert found, log.read_text()
            yield Served(process, int(found[1]), log)
        finally:
            process.terminate()  # it may have inherited that Ctrl-C is ignored, as a job in the background does
            try:
                process.communicate(timeout=PATIENCE)
            finally:
                process.kill()


def request(method: str, path: str, body: bytes = b"", host: str = "localhost", **headers: str) -> bytes:
    """Return a request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def talk(server: Served, data: bytes) -> Reply:
    """Send bytes and return the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # the answer may be there nevertheless
            connection.sendall(data)
        return reply(connection)


def reply(connection: socket.socket) -> Reply:
    """Read one answer."""
    with suppress(ConnectionResetError, TimeoutError), connection.makefile("rb") as file:
        head = b"".join(itertools.takewhile(lambda line: line != b"\r\n", file))
        length = re.search(rb"content-length: (\d+)", head)
        body = file.read(int(length[1]) if length else -1)
        if head and (length is None or len(body) == int(length[1])):
            return Reply(int(head.split()[1]), head.decode("latin-1"), body)
    return Reply(0, "", b"")


def check_alive(server: Served, where: str) -> None:
    """Fail unless the server answers; if its memory is full of answers that nobody takes, when it has dropped these."""
    assert server.process.poll() is None, f"the server ended with {server.process.returncode} after {where}"
    deadline = time.monotonic() + PATIENCE
    for path in ("/health/live", "/segment?word=higher"):
        while (found := talk(server, request("GET", path))).status == 429 and time.monotonic() < deadline:
            time.sleep(1)  # as the answer says: retry-after
        assert found.status == 200, f"{path} gives {found} after {where}"


# -- broken requests ---------------------------------------------------------------------------------------------------

BODY = b'{"words": ["higher", "lower"], "n": 2}'
WHOLE = [
    request("GET", "/segment?word=higher&n=3"),
    request("GET", "/explain?word=%F0%9F%98%80"),
    request("POST", "/segment", BODY),
    request("POST", "/embed", BODY.replace(b', "n": 2', b"")),
    b"POST /segment HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    request("GET", "/subword?subword=est%3E&n=3"),
    request("GET", "/compare?first=higher&second=%F0%9F%98%80"),
    request("POST", "/table", BODY),
]
PIECES = [b"\r\n", b"\0", b"\xff", b"%", b"%00", b"..%2f", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"]
PIECES += [b"Expect: 100-continue\r\n", b"Upgrade: websocket\r\nConnection: Upgrade\r\n"]
PIECES += [b'"\\ud800"', b"[" * 5000, b"1e999"]


def broken(rng: random.Random) -> bytes:
    """Return a request with some bytes changed, added, removed or repeated, or only noise."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.choice([1, 20, 300, 70_000]))
    data = bytearray(rng.choice(WHOLE) * rng.choice([1, 1, 1, 3]))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at:at] = rng.choice(PIECES)
        elif kind == 2:
            del data[at : at + rng.randint(1, 30)]
        else:
            data[at:at] = data[at : at + rng.randint(1, 300)]
    return bytes(data)


def garbage(server: Served, cases: int, seed: int) -> Counter[str]:
    """Send broken requests: every answer is below 500, and the server goes on."""
    rng, found = random.Random(seed), Counter[str]()
    for case in range(cases):
        data = broken(rng)
        with socket.create_connection(("127.0.0.1", server.port), timeout=0.1) as connection:
            with suppress(OSError):
                connection.sendall(data)
            status = reply(connection).status
        assert status < 500, f"status {status} for {data!r}"
        found[f"status {status}"] += 1
        if case % 100 == 99:
            check_alive(server, f"{case + 1} broken requests of seed {seed}")
    check_alive(server, f"{cases} broken requests of seed {seed}")
    return found


# -- slow and huge requests --------------------------------------------------------------------------------------------


def slow(server: Served, connections: int) -> Counter[str]:
    """Keep more connections than the server can have: it answers others, closes these in time, and logs little."""
    head, large = WHOLE[2][:20], json.dumps({"words": ["higher"] * 2000}).encode()
    # idle; slow head, body; slow to take the answer
    kinds = [b"", head, WHOLE[2][:-5], request("POST", "/embed", large)]
    found, opened, before = Counter[str](), [], open_files(server)
    for at in range(connections):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", server.port))
        opened.append(connection)
        try:
            connection.sendall(kinds[at % 4])
        except OSError:
            found["closed at once"] += 1
        if at % 40 == 39:
            check_alive(server, f"{at + 1} slow connections")
    check_alive(server, f"{connections} slow connections")
    deadline = time.monotonic() + 60
    while (files := open_files(server)) > before + 5 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert files <= before + 5, f"the server has {files} files open after {connections} slow connections, not {before}"
    for connection in opened:
        connection.close()
    size = server.log.stat().st_size
    assert size < 10_000, f"{connections} slow connections gave {size} bytes of log"
    check_alive(server, f"{connections} slow connections that ended")
    found["connections"] = connections
    return found


def open_files(server: Served) -> int:
    """Return how many files the server has open."""
    return sum(1 for _ in Path(f"/proc/{server.process.pid}/fd").iterdir())


def oversize(server: Served, sizes: list[int]) -> Counter[str]:
    """Send bodies and heads that are too long, with and without a length: they are answered."""
    found = Counter[str]()
    for size in sizes:
        whole = talk(server, request("POST", "/embed", b"a" * size))
        assert whole.status == 413, f"a body of {size} bytes gives {whole}"
        pieces = b"".join(b"%x\r\n%s\r\n" % (1 << 16, b"a" * (1 << 16)) for _ in range(size >> 16))
        start = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunked = talk(server, start + pieces + b"0\r\n\r\n")
        assert chunked.status == 413, f"a chunked body of {size} bytes gives {chunked}"
        long_head = talk(server, request("GET", "/segment?word=" + "a" * size))
        assert long_head.status in (0, 400), f"a head of {size} bytes gives {long_head}"
        check_alive(server, f"requests of {size} bytes")
        found["requests"] += 3
    words = ["a" * 200] * 10_000  # within each limit alone
    for path, body in [("/segment", {"words": words, "n": 100}), ("/weights", {"words": words})]:
        costly = talk(server, request("POST", path, json.dumps(body).encode()))
        assert costly.status == 413, f"{path} of {len(words)} long words gives {costly.status}"
        found["requests"] += 1
    return found


STUFFED = [  # two megabytes each
    b"{" + b",".join(b'"%x":0' % at for at in range(210_000)) + b"}",
    b'{"words":["a"],' + b",".join([b'"":0'] * 400_000) + b"}",
    b'{"words":[' + b",".join([b"[]"] * 690_000) + b"]}",
    b'{"words":[' + b",".join([b"1"] * 1_000_000) + b"]}",
    b'{"words":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
    b'{"words":[],"' + b"a" * 2_000_000 + b'":1}',
    b'{"n":' + b"9" * 2_000_000 + b"}",
]


def most_memory(server: Served) -> int:
    """Return how much memory the server had at most, in MiB."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())[0]) >> 10


def stuffed(server: Served, clients: int) -> Counter[str]:
    """Send bodies full of what is wrong, many at once: most are refused unread, and the server answers others."""
    found, before = Counter[str](), most_memory(server)
    for body in STUFFED:
        with ThreadPoolExecutor(clients) as pool:
            given = [pool.submit(talk, server, request("POST", "/segment", body)) for _ in range(clients)]
            while not all(one.done() for one in given):
                live = talk(server, request("GET", "/health/live"))
                assert live.status == 200, f"/health/live gives {live} while {body[:40]!r} is sent"
        statuses = Counter(one.result().status for one in given)
        assert set(statuses) <= {400, 422, 429}, f"{statuses} for {body[:40]!r}"
        check_alive(server, f"{clients} bodies {body[:40]!r}")
        found += Counter({f"stuffed: status {status}": n for status, n in statuses.items()})
    grown = most_memory(server) - before
    assert grown < 400, f"{clients} bodies of 2 MB at a time took {grown} MiB"
    return found


# -- abandoned requests ------------------------------------------------------------------------------------------------


def seconds_used(server: Served) -> float:
    """Return the processor time that the server has used."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def abandoned(server: Served, clients: int, seed: int) -> Counter[str]:
    """Ask for much and leave at once: most of it is not computed."""
    rng = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=20)) for _ in range(9_900)]
    data = request("POST", "/weights", json.dumps({"words": words}).encode())
    before = seconds_used(server)
    assert talk(server, data).status == 200
    one = seconds_used(server) - before
    before = seconds_used(server)
    for _ in range(clients):
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(data)
            time.sleep(rng.choice([0, 0.05]))
    check_alive(server, f"{clients} abandoned requests")
    for _ in range(clients):  # and leave during the answer
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(request("POST", "/weights", json.dumps({"words": words[:500]}).encode()))
            connection.recv(1)
    assert server.log.read_text() == "", server.log.read_text()[-1000:]
    deadline = time.monotonic() + 60
    last, used = -1.0, seconds_used(server)
    while used > last + 0.02 and time.monotonic() < deadline:  # until it does nothing any more
        time.sleep(0.5)
        last, used = used, seconds_used(server)
    spent = used - before
    assert spent < clients * one / 2 + 2, f"{clients} abandoned requests took {spent:.1f} s, one whole {one:.2f} s"
    return Counter(
        {"abandoned": clients, "processor ms of all": round(1000 * spent), "of a whole one": round(1000 * one)}
    )


def stopped(server: Served) -> Counter[str]:
    """Stop the server during a request: it is answered, and the server ends without an error."""
    data = request("POST", "/weights", json.dumps({"words": ["unfriendliest"] * 2_000}).encode())
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        before = seconds_used(server)
        connection.sendall(data)
        while seconds_used(server) < before + 0.02:
            time.sleep(0.01)
        server.process.send_signal(signal.SIGTERM)
        found = reply(connection)
    assert found.status == 200, f"a request that ran when the server was stopped gives {found.status}"
    assert len(json.loads(found.body)["results"]) == 2_000
    server.process.wait(PATIENCE)
    return Counter({"stopped": 1})


# -- forbidden requests ------------------------------------------------------------------------------------------------


WRONG_HOSTS = ("evil.example", "localhost.evil.example", "pbos.example.evil", "127.0.0.1.evil.example", "", "[::")
UP = ["..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e", "....//", "..%5c..", "%00", "..%00", "//etc/passwd"]
UP += ["%2fetc%2fpasswd"]


def forbidden(server: Served) -> Counter[str]:
    """Ask for other hosts, without the token and for files: refused. The server has TOKEN and the name pbos.example."""
    paths = ["/model", "/segment?word=a", "/embed?word=a", "/explain?word=a", "/neighbors?word=a", "/nothing"]
    found = Counter[str]()

    def expect(status: int, data: bytes) -> None:
        given = talk(server, data).status
        assert given == status, f"status {given} instead of {status} for {data!r}"
        found[f"status {status}"] += 1

    for path in paths:
        right = f"Bearer {TOKEN}"
        for wrong in ("", "Bearer", "Bearer ", TOKEN, right[:-1], right + "x", right.lower(), "Basic " + TOKEN):
            expect(401, request("GET", path, Authorization=wrong))
        expect(404 if path == "/nothing" else 200, request("GET", path, Authorization=right))
        for host in WRONG_HOSTS:
            expect(421, request("GET", path, host=host, Authorization=right))
        for host in (
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1",
            f"[::1]:{server.port}",
            "pbos.example",
            "PBOS.example:1",
        ):
            expect(404 if path == "/nothing" else 200, request("GET", path, host=host, Authorization=right))
    for path in ("/", "/docs", "/static/page.js", "/health", "/health/live", "/health/ready", "/openapi.json"):
        expect(200, request("GET", path))
        expect(421, request("GET", path, host="evil.example"))
    for step in UP:
        for name in ("app.py", "run.py", "etc/passwd", ""):
            given = talk(server, request("GET", f"/static/{step}/{name}")).status
            assert given in (400, 404, 405), f"status {given} for /static/{step}/{name}"
            found["outside files"] += 1
    return found


# -- load --------------------------------------------------------------------------------------------------------------


class Load(NamedTuple):
    """What clients saw who asked without a pause."""

    rate: float
    median: float
    p99: float
    statuses: Counter[int]


def load(server: Served, data: bytes, connections: int, seconds: float) -> Load:
    """Ask the same on many connections for a while."""
    times: list[float] = []
    statuses: Counter[int] = Counter()

    async def client(until: float) -> None:
        while time.monotonic() < until:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 26)
            try:
                while time.monotonic() < until:
                    start = time.monotonic()
                    writer.write(data)
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = re.search(rb"content-length: (\d+)", head)
                    await reader.readexactly(int(length[1]) if length else 0)
                    times.append(time.monotonic() - start)
                    statuses[int(head.split()[1])] += 1
            except (ConnectionError, asyncio.IncompleteReadError):
                statuses[0] += 1
            finally:
                writer.close()

    async def clients() -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(client(until) for _ in range(connections)))

    asyncio.run(clients())
    times.sort()
    return Load(len(times) / seconds, times[len(times) // 2], times[int(len(times) * 0.99)], statuses)


def under_load(server: Served, seconds: float) -> Counts:
    """Ask on 1, 16 and 128 connections: nothing fails. Then ask for too much: only 429, and it recovers."""
    found: Counts = {}
    for connections in (1, 16, 128):
        given = load(server, request("GET", "/neighbors?word=unfriendliest"), connections, seconds)
        assert set(given.statuses) == {200}, f"{connections} connections: {given.statuses}"
        found[f"neighbors/s, {connections} connections"] = round(given.rate, 1)
        found[f"p99/median, {connections} connections"] = round(given.p99 / given.median, 1)
    much = request("POST", "/weights", json.dumps({"words": ["unfriendliest"] * 2000}).encode())
    given = load(server, much, 400, seconds)
    assert set(given.statuses) <= {200, 429}, f"overload: {given.statuses}"
    found |= {f"overload: status {status}": n for status, n in given.statuses.items()}
    check_alive(server, "overload")
    return found


def described(server: Served, examples: int, seed: int) -> Counter[str]:
    """Let schemathesis make requests from the OpenAPI description, if it is installed; it fails on any violation."""
    if importlib.util.find_spec("schemathesis") is None:
        return Counter({"schemathesis is not installed": 1})
    address = f"http://127.0.0.1:{server.port}/openapi.json"
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(f"[checks]\nnegative_data_rejection.expected-statuses = {[400, 405, 413, 422]}\n")
        config.flush()
        command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"]
        options = ["--config-file", config.name, "run", address, "-n", str(examples), "--seed", str(seed)]
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout[-20_000:]
    return Counter({"schemathesis cases": sum(map(int, re.findall(r"(\d+) generated", done.stdout)))})


def run(seconds: float, seed: int) -> Counts:
    """Make all attacks; the broken requests and the load take what time they are given."""
    found: Counter[str] = Counter()
    with served() as server:
        found += oversize(server, [3 << 20, 64 << 20])
        found += stuffed(server, 30)
        found += slow(server, 600)
        found += abandoned(server, 40, seed)
    with served("--allow-host", "pbos.example", token=TOKEN) as server:
        found += forbidden(server)
    with served() as server:
        found += described(server, max(5, int(seconds / 60)), seed)
        until = time.monotonic() + seconds / 2
        while time.monotonic() < until:
            found += garbage(server, 500, seed)
            seed += 1
        found += stopped(server)
    with served(files=1024, short=False) as server:
        return {**found, **under_load(server, max(2.0, seconds / 10))}
