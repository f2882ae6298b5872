"""`pbos serve` as a process, what its options refuse, and the documentation of the API."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from pbos.server import Limits, make_app
from pbos.server.run import listen


@pytest.fixture(scope="module")
def client():
    with TestClient(make_app()) as client:
        yield client


# -- documentation -----------------------------------------------------------------------------------------------------


def test_openapi_describes_every_path(client):
    spec = client.get("/openapi.json").json()
    needed = {"/embed", "/segment", "/weights", "/neighbors", "/similarity", "/explain", "/map", "/model", "/health"}
    assert {*needed, "/confidence", "/table", "/subword", "/compare"} <= set(spec["paths"])
    for methods in spec["paths"].values():
        for operation in methods.values():
            assert operation["description"] and operation["tags"]
            if operation["tags"] != ["server"]:  # these take no input
                refusal = operation["responses"]["422"]["content"]["application/json"]["schema"]
                assert refusal["$ref"].endswith("/Error")
    words = spec["components"]["schemas"]["Words"]["properties"]["words"]
    assert (words["maxItems"], words["items"]["maxLength"]) == (Limits().words, Limits().word_length)
    formats = spec["paths"]["/embed"]["post"]["responses"]["200"]["content"]
    assert {"application/json", "application/octet-stream", "application/x-npy"} <= set(formats)


def test_responses_match_openapi(client):
    """A response has exactly the fields of its schema."""
    spec = client.get("/openapi.json").json()
    for path, query in [
        ("/embed", "?word=a"),
        ("/segment", "?word=a"),
        ("/weights", "?word=a"),
        ("/neighbors", "?word=a"),
        ("/similarity", "?first=a&second=b"),
        ("/explain", "?word=a"),
        ("/subword", "?subword=a"),
        ("/compare", "?first=a&second=b"),
        ("/model", ""),
    ]:
        reference = spec["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        schema = spec["components"]["schemas"][reference.rsplit("/", 1)[1]]
        answer = client.get(path + query).json()
        assert set(answer) == set(schema["properties"])
        for name, field in schema["properties"].items():  # and so do the objects in its lists
            inner = field.get("items", {}).get("$ref", "").rsplit("/", 1)[-1]
            if inner and answer[name]:
                assert set(answer[name][0]) == set(spec["components"]["schemas"][inner]["properties"])


# -- pbos serve --------------------------------------------------------------------------------------------------------


def serve(*arguments, **options):
    command = [sys.executable, "-c", "from pbos.cli import main; main()", "serve", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_serve_prints_its_address_and_stops_cleanly():
    import httpx

    process = serve("--port", 0)
    line = process.stdout.readline()
    url = re.match(r"http://127\.0\.0\.1:\d+", line).group()
    assert httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok"
    assert "<title>pbos</title>" in httpx.get(url, timeout=60).text
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert err == "pbos: stopped\n"


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_a_server_in_the_background_ignores_ctrl_c():
    """A shell ignores it for a job that a script starts with &; `kill` stops the server."""
    import httpx

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = serve("--port", 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        url = process.stdout.readline().split()[0]
        assert httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok"
        process.send_signal(signal.SIGINT)
        for _ in range(5):  # a server looks ten times a second whether it should stop
            time.sleep(0.1)
            assert httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok"
    finally:
        process.send_signal(signal.SIGTERM)
        ended = *process.communicate(timeout=60), process.returncode
    assert ended == ("", "", -signal.SIGTERM)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_commands_in_the_documentation(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "page.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    sessions = [part.split("\n", 1) for block in blocks for part in block.split("$ ")[1:]]
    assert len(sessions) > 8
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    number = re.compile(r"-?\d+\.\d+")
    process = serve("--port", 0)
    try:
        host = process.stdout.readline().split()[0].removeprefix("http://")
        for command, expected in sessions:
            command = command.replace("127.0.0.1:8000", host)
            done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            assert number.sub("#", done.stdout.strip()) == number.sub("#", expected.strip()), command
            shown, given = (list(map(float, number.findall(text))) for text in (expected, done.stdout))
            assert given == pytest.approx(shown, abs=1e-4)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_answers_are_sent_at_once():
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_one_sentence(run):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        expected = f"pbos: port {port} is in use on 127.0.0.1; choose another with --port\n"
        assert run("serve", "--port", port) == (2, "", expected)


def test_a_token_that_is_set_but_empty_lets_nobody_in(run, monkeypatch):
    monkeypatch.setattr("pbos.server.run.run", lambda app, listener: None)
    monkeypatch.setenv("PBOS_TOKEN", "")  # as after PBOS_TOKEN=$(a command that fails)
    code, out, err = run("serve", "--port", 0)
    assert (code, out, err.count("\n")) == (2, "", 1) and "the token must be" in err
    monkeypatch.setenv("PBOS_TOKEN", "sesame")
    assert run("serve", "--port", 0)[0] == 0
    monkeypatch.delenv("PBOS_TOKEN")
    assert run("serve", "--port", 0)[0] == 0


def test_a_host_that_is_not_local_is_one_sentence(run):
    code, out, err = run("serve", "--host", "192.0.2.1", "--port", 0)  # reserved for documentation
    assert (code, out) == (2, "")
    assert err == "pbos: 192.0.2.1 is not an address of this machine; choose another with --host\n"


@pytest.mark.parametrize("name", ["http://words.example.org", "words.example.org:80", "words.example.org/pbos"])
def test_a_host_to_allow_is_a_name(run, monkeypatch, name):
    monkeypatch.setattr("pbos.server.run.run", lambda app, listener: None)
    code, out, err = run("serve", "--allow-host", name, "--port", 0)
    assert (code, out, err.count("\n")) == (2, "", 1) and f"--allow-host {name}: give only the name" in err


def test_a_request_with_two_ends_is_refused(client):
    headers = {"Transfer-Encoding": "chunked", "Content-Length": "4"}
    answer = client.post("/embed", content=b"{}", headers=headers)
    assert answer.status_code == 400 and "both Content-Length and Transfer-Encoding" in answer.json()["error"]


def test_an_empty_host_does_not_let_in_other_machines(run, monkeypatch):
    monkeypatch.setattr("pbos.server.run.run", lambda app, listener: None)
    code, out, err = run("serve", "--host", "", "--port", 0)
    assert (code, out, err.count("\n")) == (2, "", 1) and "--host is empty" in err


def test_a_model_that_does_not_exist_is_one_sentence(run):
    code, out, err = run("serve", "-m", "nowhere", "--port", 0)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and "nowhere" in err


def test_help_has_examples(run):
    code, out, _ = run("serve", "--help")
    assert code == 0 and "Examples:" in out


def test_the_wheel_contains_the_page(tmp_path):
    from hatchling.builders.wheel import WheelBuilder

    root = Path(__file__).parents[2]
    (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    static = root / "src" / "pbos" / "server" / "static"
    assert {f"pbos/server/static/{file.name}" for file in static.iterdir()} <= set(zipfile.ZipFile(wheel).namelist())


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_a_missing_extra_is_named(missing):
    code = (
        f"import sys; sys.modules['{missing}'] = None; sys.argv = ['pbos', 'serve']\nimport pbos.cli; pbos.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and 'pip install "pbos[serve]"' in done.stderr
