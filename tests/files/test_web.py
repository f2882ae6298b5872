"""URLs of web servers: versions of files, and what may be secret in a URL."""

import email.utils
import functools
import hashlib
import http.server
import json
import re
import threading
import traceback
import warnings
from pathlib import Path

import fsspec
import fsspec.implementations.http
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import pbos
from pbos.files import cache
from pbos.files import paths as files
from pbos.tables import published


@pytest.fixture
def website(tmp_path, monkeypatch):
    """A web server that sends the files of tmp_path, each only as a whole."""
    monkeypatch.setenv("PBOS_CACHE", str(tmp_path / "cache"))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_reading_from_a_web_server(website, model, small_vectors, run, tmp_path):
    model.save(tmp_path / "model")
    small_vectors.write(tmp_path / "v.vec.gz")
    assert np.array_equal(pbos.load(f"{website}/model")["mana"], model["mana"])
    assert np.array_equal(pbos.WordVectors.read(f"{website}/v.vec.gz").vectors, small_vectors.vectors)
    code, _, err = run("convert", f"{website}/no.vec", "x.vec")
    assert (code, err) == (2, f"pbos: no such file or directory: {website}/no.vec\n")
    code, _, err = run("convert", tmp_path / "v.vec.gz", f"{website}/x.vec")
    assert (code, err.count("\n")) == (2, 1)
    assert re.search(r"Unsupported method.*http://127", err)
    (tmp_path / "text.txt").write_text("the cat sat on the mat")
    assert dict(pbos.count(f"{website}/text.txt")) == {"the": 2, "cat": 1, "sat": 1, "on": 1, "mat": 1}
    parquet.write_table(pa.table({"word": ["a"]}), tmp_path / "words.parquet")
    assert run("embed", "-i", f"{website}/words.parquet")[:2] == run("embed", "a")[:2]


class Web(http.server.BaseHTTPRequestHandler):
    """A web server of some files by path, which sends parts of files, and what it is told to as headers."""

    files, headers_of, before_part, asked = {}, {}, None, []

    def do_GET(self):
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if part and self.before_part:
            self.before_part()
        content = self.files.get(self.path)
        self.asked.append(self.command)
        if content is None:
            self.send_error(404)
            return
        start, end = (int(part[1]), int(part[2]) + 1) if part else (0, len(content))
        self.send_response(206 if part else 200)
        headers = {"Content-Length": len(content[start:end]), "Accept-Ranges": "bytes"}
        if part:
            headers["Content-Range"] = f"bytes {start}-{start + len(content[start:end]) - 1}/{len(content)}"
        for name, value in (headers | {name: make(content) for name, make in self.headers_of.items()}).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[start:end])

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def web(tmp_path, monkeypatch):
    """A web server, and its address."""
    monkeypatch.setenv("PBOS_CACHE", str(tmp_path / "cache"))
    web = type("OwnWeb", (Web,), {"files": {}, "headers_of": {}, "asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield web, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def tag_of(content):
    return f'"{hashlib.sha256(content).hexdigest()}"'


def time_of(content):
    return email.utils.formatdate(int(hashlib.sha256(content).hexdigest()[:6], 16), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "copied"),
    [
        ({}, 3),
        ({"ETag": tag_of}, 2),
        ({"ETag": lambda content: f"W/{tag_of(content)}"}, 2),
        ({"Last-Modified": time_of}, 2),
    ],
)
def test_a_model_on_the_web_that_is_replaced_by_one_of_the_same_size(web, model, tmp_path, headers, copied):
    """Where no header tells versions apart, it is copied each time."""
    web, address = web
    web.headers_of = headers
    models = [model, pbos.train((model.words, -model.embed(model.words, exact=True)), keep_targets=True)]
    for turn in (0, 1, 1):
        models[turn].save(tmp_path / "m")
        web.files.update({f"/m/{file.name}": file.read_bytes() for file in (tmp_path / "m").iterdir()})
        assert np.array_equal(pbos.load(f"{address}/m")["mana"], models[turn]["mana"])
    assert web.asked.count("GET") == 2 * copied


def test_a_file_on_the_web_that_changes_while_it_is_read(web, monkeypatch):
    """It comes in parts, and the second one is of another version."""
    web, address = web
    lines = [f"word{number:05} 1 2 3\n" for number in range(100_000)]
    old, new = "".join(lines).encode(), "".join(lines[::-1]).encode()
    monkeypatch.setattr(fsspec.implementations.http, "DEFAULT_BLOCK_SIZE", 1000)
    fsspec.implementations.http.HTTPFileSystem.clear_instance_cache()
    web.files["/v.vec"], web.headers_of = old, {"ETag": tag_of}
    parts = []

    def change():
        parts.append(1)
        if len(parts) == 2:
            web.files["/v.vec"] = new

    web.before_part = staticmethod(change)
    with pytest.raises(OSError, match=f"changed while it was read; try again: '{address}/v.vec'"):
        pbos.WordVectors.read(f"{address}/v.vec", progress=False)
    fsspec.implementations.http.HTTPFileSystem.clear_instance_cache()
    assert pbos.WordVectors.read(f"{address}/v.vec", progress=False).words[0] == "word99999"


# Secrets in URLs ------------------------------------------------------------------------------------------------------

SECRET = re.compile("PaSs|W0rd|SiGnAtUrE|T0kEn")
PLACES = [
    *(
        f"http://us:PaSsW0rd@HOST/{name}"
        for name in ("no.vec", "bad.vec", "bad.gz", "bad.parquet", "moved", "deny", "*.txt")
    ),
    *(
        "http://us:PaSsW0rd@127.0.0.1:1/x",
        "http://us:PaSs/W0rd@HOST/x",
        "http://us:PaSs?W0rd@HOST/x",
        "http://us:PaSsW0rd@[::",
    ),
    *(
        "ftp://us:PaSsW0rd@127.0.0.1:1/x",
        "nope://us:PaSsW0rd@h/x",
        "s3://us:PaSsW0rd@bucket/x",
        "HTTP://us:PaSsW0rd@127.0.0.1:1/x",
    ),
    *("simplecache::http://us:PaSsW0rd@127.0.0.1:1/x", "hf://us:PaSsW0rd@owner/name", "hf://owner/name"),
]
URLS = [f"{place}{query}" for place in PLACES for query in ("", "?X-Amz-Signature=SiGnAtUrE&a=b", "?T0kEn")]
URLS = [url for url in URLS if SECRET.search(url)]
USES = {
    "load": pbos.load,
    "segmenter": pbos.Segmenter.load,
    "vectors": pbos.WordVectors.read,
    "counts": pbos.WordCounts.of,
    "count": pbos.count,
    "lines": files.read_lines,
    "state": files.state_of,
    "on_disk": cache.on_disk,
    "local": files.absolute,
    "write": lambda url: pbos.WordVectors(["a"], [[1.0]]).write(url),
    "save": lambda url: pbos.Segmenter.from_counts({"a": 1}).save(url),
    "embed": lambda url: pbos.embed_files(None, url, "out"),
    "download": lambda url: published.download(url, Path()),
}


@pytest.fixture
def secretive(web, server, tmp_path, monkeypatch):
    """A web server with files that cannot be read, and one that is elsewhere; its host and port."""
    web, address = web
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "*")
    web.files.update({"/bad.vec": b"hello\n", "/bad.gz": b"\x1f\x8b\x08garbage", "/bad.parquet": b"PAR1"})
    answer = web.do_GET

    def do_GET(self):
        self.path = self.path.partition("?")[0]
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", f"{address.replace('//', '//us:PaSsW0rd@')}/gone?X-Amz-Signature=SiGnAtUrE")
            self.end_headers()
        elif self.path == "/deny":
            self.send_error(403)
        else:
            answer(self)

    web.do_GET = web.do_HEAD = do_GET
    yield address.removeprefix("http://")


@pytest.mark.parametrize("use", USES)
def test_no_error_shows_what_is_secret_in_a_url(secretive, use, capfd):
    """Nor do its causes, which a traceback shows, nor warnings and progress."""
    for url in URLS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                USES[use](url.replace("HOST", secretive))
            except Exception as error:
                about = [str(error), repr(error), *traceback.format_exception(error), getattr(error, "filename", None)]
            else:
                about = []  # a directory of the server, which is text
        said = "\n".join(map(str, [*about, *(warning.message for warning in caught), *capfd.readouterr()]))
        assert not SECRET.search(said), url


@pytest.mark.parametrize(
    "command",
    [
        *(
            "embed -m URL a",
            "embed -i URL",
            "embed -i bad.txt -o URL",
            "convert URL x.vec",
            "train URL -o m",
            "count URL -o c.tsv",
        ),
        *(
            "learn URL -o m",
            "info -m URL",
            "info -m URL --json",
            "complete URL bad.txt -o x.vec",
            "neighbors a --among URL",
        ),
        *(
            "eval similarity URL",
            "count bad.txt --scheduler URL -o c.tsv",
            "serve -m URL",
            "embed a URL --nothing",
            "get URL",
        ),
    ],
)
def test_no_command_shows_what_is_secret_in_a_url(secretive, run, tmp_path, command):
    (tmp_path / "bad.txt").write_text("a\n")
    for url in URLS[::4]:
        _, out, err = run(*command.replace("URL", url.replace("HOST", secretive)).split())
        assert not SECRET.search(out + err), url


def test_nothing_that_is_written_has_what_is_secret_in_a_url(secretive, web, run, small_vectors, tmp_path):
    web, address = web
    small_vectors.write(tmp_path / "v.vec")
    web.files.update({"/v.vec": (tmp_path / "v.vec").read_bytes(), "/t.txt": b"the cat sat on the mat\n" * 50})
    here = address.replace("//", "//us:PaSsW0rd@")
    (tmp_path / "v.vec").unlink()
    for command in (
        f"train {here}/v.vec?SiGnAtUrE --limit 300 -o model",
        f"train {here}/v.vec?SiGnAtUrE --limit 300 --memory 1G -o model2",
        f"learn {here}/t.txt?SiGnAtUrE --dims 3 --cooccurrences kept --counts c.tsv --vectors l.vec -o learned",
        f"embed -i {here}/t.txt?SiGnAtUrE -o vectors/",
        f"embed -i {here}/t.txt?SiGnAtUrE -o out.parquet",
        f"convert {here}/v.vec?SiGnAtUrE out.safetensors",
    ):
        code, out, err = run(*command.split())
        assert (code, SECRET.search(out + err)) == (0, None), err
    cache.fetch(here, "t.txt?SiGnAtUrE")
    cache.on_disk(f"{here}/t.txt?SiGnAtUrE")
    written = list(tmp_path.rglob("*"))
    assert len(written) > 20
    for file in written:
        assert not SECRET.search(str(file.relative_to(tmp_path)).replace("t.txt?SiGnAtUrE", "")), file
        assert not file.is_file() or not SECRET.search(file.read_bytes().decode("latin1")), file
    jobs = [json.loads((tmp_path / "vectors" / "_job.json").read_bytes())["inputs"]]
    assert [name for name, *_ in jobs[0]] == [
        f"{address.replace('//', '//***@')}/t.txt?*** {files.digest_of('SiGnAtUrE')}"
    ]
