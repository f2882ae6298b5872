"""Paths that are URLs, with a real object store: moto's server, which s3fs talks to as to any other."""

import email.utils
import functools
import gzip
import hashlib
import http.server
import json
import logging
import os
import re
import subprocess
import sys
import threading
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path

import boto3
import fsspec
import fsspec.implementations.http
import numpy as np
import pyarrow as pa
import pytest
import s3fs
from gensim.models import KeyedVectors
from moto.server import ThreadedMotoServer
from pyarrow import parquet

import pbos
from pbos import FormatError, InputError, ModelError
from pbos.corpus import embed_files as embedding
from pbos.corpus import sources
from pbos.files import paths as files
from pbos.files import remote
from pbos.files.atomic import write_whole
from pbos.files.paths import exists, names_in, open_bytes, user_cache
from pbos.jobs.pools import Threads
from pbos.tables import fetching

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(scope="module")
def server():
    """An object store, found in the way that all programs find one: by environment variables."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    address, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{address}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        s3fs.S3FileSystem.clear_instance_cache()
        yield server
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def store(server, tmp_path, monkeypatch):
    """The object store with an empty bucket, and an empty cache."""
    monkeypatch.setenv("PBOS_CACHE", str(tmp_path / "cache"))
    store = s3fs.S3FileSystem(use_listings_cache=False)
    if store.exists("bucket"):
        store.rm("bucket", recursive=True)
    store.mkdir("bucket")
    return store


@pytest.fixture
def copies(monkeypatch):
    """The names of the files that were copied from the store."""
    names = []
    with patched(monkeypatch, "_get_file", lambda path, *_: names.append(Path(path).name)):
        yield names


@contextmanager
def patched(monkeypatch, name, before):
    """Call a function with the arguments of a method of s3fs before that method."""
    method = getattr(s3fs.S3FileSystem, name)

    async def both(self, *arguments, **options):
        before(*arguments)
        return await method(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(s3fs.S3FileSystem, name, both)
        s3fs.S3FileSystem.clear_instance_cache()
        yield
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def model(small_vectors):
    return pbos.train((small_vectors.words[:500], small_vectors.vectors[:500]))


@pytest.fixture
def saved(store, model):
    model.save("s3://bucket/model")
    return "s3://bucket/model"


# The same as with local paths -----------------------------------------------------------------------------------------


def test_a_model_from_vectors_in_a_store_is_that_from_a_local_file(store, small_vectors, tmp_path):
    for folder in (str(tmp_path), "s3://bucket"):
        small_vectors.write(f"{folder}/vectors.vec")
        pbos.WordCounts(small_vectors.words, range(len(small_vectors), 0, -1)).write(f"{folder}/counts.tsv.gz")
        pbos.train(f"{folder}/vectors.vec", f"{folder}/counts.tsv.gz", limit=500).save(f"{folder}/model")
    for name in ("vectors.vec", "counts.tsv.gz", "model/model.safetensors", "model/config.json", "model/README.md"):
        assert store.cat_file(f"bucket/{name}") == (tmp_path / name).read_bytes(), name
    assert names_in("s3://bucket/model/") == names_in(tmp_path / "model")
    here, there = pbos.load(tmp_path / "model"), pbos.load("s3://bucket/model")
    words = ["unbelievable", *small_vectors.words[490:510]]
    assert np.array_equal(here.embed(words), there.embed(words))


@pytest.mark.parametrize("name", ["v.vec", "v.vec.gz", "v.bin", "v.glove", "v.npz", "v.kv", "v.safetensors", "v"])
def test_every_format_of_vectors(store, small_vectors, name):
    small_vectors.write(f"s3://bucket/{name}")
    for path in (f"s3://bucket/{name}", Path(f"s3://bucket/{name}")):
        read = pbos.WordVectors.read(path, progress=False)
        assert read.words == small_vectors.words
        assert np.array_equal(read.vectors, small_vectors.vectors)
    assert len(pbos.WordVectors.read(f"s3://bucket/{name}", limit=3)) == 3
    small_vectors.write(f"s3://bucket/{name}")  # replaces what is there


@pytest.mark.parametrize("name", ["vectors.kv", "vectors.kv.gz"])
def test_gensim_with_vectors_in_a_file_of_their_own(store, small_vectors, tmp_path, name):
    keyed = KeyedVectors(small_vectors.dims)
    keyed.add_vectors(small_vectors.words, small_vectors.vectors)
    keyed.save(str(tmp_path / name), sep_limit=0)
    files = list(tmp_path.glob("vectors*"))
    assert len(files) == 2
    for file in files:
        store.put_file(str(file), f"bucket/{file.name}")
    assert np.array_equal(pbos.WordVectors.read(f"s3://bucket/{name}").vectors, small_vectors.vectors)
    store.rm_file(f"bucket/{max(files, key=lambda file: len(file.name)).name}")
    with pytest.raises(FormatError, match=rf"{name}: its vectors are in s3://bucket/vectors.*, which is missing"):
        pbos.WordVectors.read(f"s3://bucket/{name}")


def test_counts_and_segmenters(store, small_counts):
    small_counts.write("s3://bucket/counts.tsv")
    assert list(pbos.WordCounts.of("s3://bucket/counts.tsv")) == list(small_counts)
    segmenter = pbos.Segmenter.from_counts("s3://bucket/counts.tsv")
    segmenter.save("s3://bucket/a/b/segmenter")
    assert pbos.Segmenter.load("s3://bucket/a/b/segmenter").segment("mana") == segmenter.segment("mana")


def test_other_stores(model, monkeypatch, tmp_path):
    monkeypatch.setenv("PBOS_CACHE", str(tmp_path / "cache"))
    model.save("memory://some/model")
    model.save("memory://some/model")
    assert np.array_equal(pbos.load("memory://some/model")["unbelievable"], model["unbelievable"])
    model.save((tmp_path / "a model").as_uri())
    assert (tmp_path / "a model" / "config.json").is_file()
    assert len(pbos.load((tmp_path / "a model").as_uri())) == len(model)


COMMANDS = """
convert FIXTURES/vectors @v.vec
train @v.vec -o @model --limit 300
info -m @model
segment -m @model mana
compress -m @model --dtype int8 -o @small
complete @v.vec @new.txt.gz -m @model -o @all.npz
embed -m @model -i @words.txt.gz --missing zeros -o @out.npy
embed -m @model -i @words.txt.gz --missing zeros -o @out.txt.gz
embed -m @model -i @words.parquet --missing null -o @out.parquet
embed -m @model -i @words.parquet --missing zeros
neighbors -m @model mana --among @new.txt.gz
learn @texts/*.txt.gz -o @learned --dims 4 --vectors @learned.vec --counts @learned.tsv
learn @texts/1.txt.gz @texts/2.txt.gz -o @learned2 --dims 4
learn @texts.parquet -o @learned3 --dims 4
count @texts/*.txt.gz -o @counts.tsv.gz
"""


def test_text_is_read_in_pieces(store, tmp_path, monkeypatch):
    """A plain file is not copied, and cut where it would be cut here."""
    monkeypatch.setattr(sources, "BLOCK", 1000)
    (tmp_path / "text.txt").write_text("".join(f"line {number}\n" for number in range(1000)))
    store.put(str(tmp_path / "text.txt"), "bucket/text.txt")
    here, there = (
        sources.source_of(path).shards(tmp_path / "unpacked", Threads(2))
        for path in (tmp_path / "text.txt", "s3://bucket/text.txt")
    )
    assert len(here) > 5
    assert [sources.text_of(shard) for shard in there] == [sources.text_of(shard) for shard in here]
    assert {piece.path for shard in there for piece in shard} == {"s3://bucket/text.txt"}
    counts = [pbos.count(path) for path in (tmp_path / "text.txt", "s3://bucket/text.txt")]
    assert dict(counts[0]) == dict(counts[1])


def test_commands_do_the_same_with_urls(store, run, tmp_path):
    (tmp_path / "texts").mkdir()
    texts = ["the cat sat on the mat", "a dog sat on a log"]
    for number, text in enumerate(texts, 1):
        (tmp_path / f"texts/{number}.txt.gz").write_bytes(gzip.compress(f"{text}\n".encode() * 50))
    parquet.write_table(pa.table({"text": texts * 50}), tmp_path / "texts.parquet")
    words = ["mana", "", "unbelievable", "x"]
    parquet.write_table(pa.table({"n": [1, 2, 3, 4], "word": words}), tmp_path / "words.parquet")
    (tmp_path / "words.txt.gz").write_bytes(gzip.compress("\n".join(words).encode()))
    (tmp_path / "new.txt.gz").write_bytes(gzip.compress(b"manamana\nunbelievable\n"))
    given = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")]
    store.put([str(tmp_path / name) for name in given], [f"bucket/{name}" for name in given])
    for command in COMMANDS.replace("FIXTURES", str(FIXTURES)).strip().splitlines():
        here, there = (run(*command.replace("@", prefix).split()) for prefix in ("", "s3://bucket/"))
        assert here[0] == 0, here
        assert (there[0], *(text.replace("s3://bucket/", "") for text in there[1:])) == here, command
    made = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file() and path.name != ".stdin"]
    made = sorted(name for name in made if not name.startswith("cache/"))
    assert [name.removeprefix("bucket/") for name in store.find("bucket")] == made
    assert len(made) > len(given) + 10
    for name in made:
        assert store.cat_file(f"bucket/{name}") == (tmp_path / name).read_bytes(), name


def test_a_command_in_a_process_of_its_own(saved, model):
    command = [sys.executable, "-c", "from pbos.cli import main; main()", "embed", "-m", saved, "mana"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert np.allclose(np.fromstring(done.stdout.partition(" ")[2], sep=" "), model["mana"], rtol=1e-5)


# The cache ------------------------------------------------------------------------------------------------------------


def test_a_model_is_copied_once_until_it_changes(saved, store, copies, model, small_vectors):
    first = pbos.load(saved)
    assert sorted(copies) == ["config.json", "model.safetensors"]
    pbos.load(f"{saved}/")
    pbos.load(Path(saved))
    assert len(copies) == 2
    other = pbos.train((small_vectors.words[:500], small_vectors.vectors[:500] * 2))
    other.save(saved)
    assert np.array_equal(pbos.load(saved)["mana"], other["mana"])
    assert len(copies) == 4
    assert np.array_equal(first["mana"], model["mana"])  # which is mapped


def test_many_processes_copy_once(saved, model, caplog):
    caplog.set_level(logging.INFO, "werkzeug")  # the log of the server
    code = "import sys; from pbos.files.model_folder import folder_of; sys.stdout.write(str(folder_of(sys.argv[1])))"
    started = [subprocess.Popen([sys.executable, "-c", code, saved], stdout=subprocess.PIPE) for _ in range(2)]
    (folder,) = {process.communicate()[0].decode() for process in started}
    assert np.array_equal(pbos.load(folder)["mana"], model["mana"])
    assert caplog.text.count("GET /bucket/model/model.safetensors") == 1
    assert list(Path(folder).parent.glob("[!.]*")) == [Path(folder)]


def test_what_a_killed_process_left_is_removed(saved, tmp_path):
    folder = remote.fetch(saved, "config.json")
    (folder.parent / ".rest.0123456789ab.tmp").mkdir()
    assert remote.fetch(saved, "config.json") == folder
    remote.fetch(saved, "config.json", "README.md")
    assert not (folder.parent / ".rest.0123456789ab.tmp").exists()


def test_a_model_that_changes_while_it_is_copied(saved, store, monkeypatch, tmp_path):
    def change(*_):
        boto3.client("s3").put_object(Bucket="bucket", Key="model/config.json", Body=b"{}")

    changed = r"changed while it was copied; try again: 's3://bucket/model'"
    with patched(monkeypatch, "_get_file", change), pytest.raises(OSError, match=changed):
        pbos.load(saved)
    assert list(tmp_path.glob("cache/remote/*/[!.]*")) == []


def test_where_the_cache_is(monkeypatch):
    monkeypatch.delenv("PBOS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert user_cache("remote") == Path("/somewhere/pbos/remote")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache("remote") == Path("~/.cache/pbos/remote").expanduser()


# Whole or not at all --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("README.md", "s3://bucket/model"),
        ("model.safetensors", "s3://bucket/model"),
        ("config.json", "s3://bucket/model"),
        ("config.json", "s3://bucket/new"),
    ],
)
def test_an_upload_that_fails_leaves_no_model_that_loads(saved, model, monkeypatch, name, folder):
    def fail(source, target):
        if target.endswith(name):
            raise PermissionError("Access Denied")

    with patched(monkeypatch, "_put_file", fail), pytest.raises(PermissionError, match=f"Access Denied: '{folder}'"):
        model.save(folder)
    with pytest.raises(ModelError, match=r"config.json is not valid JSON|no model at"):
        pbos.load(folder)
    model.save(folder)
    assert len(pbos.load(folder)) == len(model)


def test_a_file_appears_when_it_is_complete(store):
    with pytest.raises(ZeroDivisionError), write_whole("s3://bucket/file.txt") as stream:
        stream.write(b"half")
        _ = 1 / 0
    assert store.find("bucket") == []
    with write_whole("s3://bucket/file.txt") as stream:
        stream.write(b"whole")
        assert not exists("s3://bucket/file.txt")
    assert store.cat_file("bucket/file.txt") == b"whole"
    assert names_in("s3://bucket") == {"file.txt"}


def test_other_content_is_never_replaced(saved, store, model, small_vectors):
    store.pipe_file("bucket/model/other.txt", b"x")
    with pytest.raises(ModelError, match=r"contains other.txt, which is not part of a pbos model"):
        model.save(saved)
    store.pipe_file("bucket/else/config.json", json.dumps({"model_type": "bert"}).encode())
    with pytest.raises(ModelError, match="s3://bucket/else is a folder with other content, not a pbos model"):
        model.save("s3://bucket/else")
    with pytest.raises(InputError, match="s3://bucket/else: the folder contains other files than vectors"):
        small_vectors.write("s3://bucket/else")


# One clear sentence ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("train s3://bucket/no.vec -o model", "no such file or directory: s3://bucket/no.vec"),
        ("train s3://no-bucket/no.vec -o model", "the specified bucket does not exist: s3://no-bucket/no.vec"),
        ("train FIXTURES/vectors -o s3://no-bucket/x", "the specified bucket does not exist: s3://no-bucket/x"),
        ("train FIXTURES/vectors -c s3://bucket/no.tsv -o x", "no such file or directory: s3://bucket/no.tsv"),
        ("embed -m s3://bucket/no x", "no model at s3://bucket/no: there is no s3://bucket/no/config.json"),
        ("segment -m s3://bucket/no x", "no model at s3://bucket/no: there is no s3://bucket/no/config.json"),
        ("embed -i s3://bucket/no.txt", "no such file or directory: s3://bucket/no.txt"),
        ("embed -i s3://bucket/no.parquet", "no such file or directory: s3://bucket/no.parquet"),
        ("embed x -o s3://no-bucket/x.npy", "the specified bucket does not exist: s3://no-bucket/x.npy"),
        ("learn s3://bucket/*.txt -o x", "s3://bucket/*.txt: there is no such file; pass files, or patterns"),
        ("train s3://bucket/model -o x", "s3://bucket/model is a pbos model, not word vectors"),
        ("embed -i s3://bucket/model", "is a directory: s3://bucket/model"),
        ("learn x.txt --cooccurrences s3://bucket/c -o x", "s3://bucket/c: this has to be a path on this machine"),
        ("learn x.txt --counts s3://no-bucket/c -o x", "the specified bucket does not exist: s3://no-bucket/c"),
        ("complete FIXTURES/vectors x -o s3://no-bucket/x.vec", "the specified bucket does not exist"),
        ("embed -m s3://bucket/cut x", "model.safetensors has a header of impossible length"),
        ("embed -i s3://bucket/cut.gz", "s3://bucket/cut.gz: the compressed data is damaged or cut short"),
        ("embed -i s3://bucket/cut.parquet", "s3://bucket/cut.parquet is damaged, or not the kind of table"),
        ("embed -m nowhere://x x", "nowhere://x: Protocol not known: nowhere"),
        ("embed -m nolib://x x", "nolib://x: Install nolib to access this"),
        ("embed -m http://127.0.0.1:1/x x", "connect call failed"),
    ],
)
def test_errors_of_commands(saved, store, run, tmp_path, command, sentence):
    fsspec.register_implementation(
        "nolib", "no_such_module.FileSystem", errtxt="Install nolib to access this", clobber=True
    )
    (tmp_path / "x.txt").write_text("a b c\n" * 10)
    store.pipe_file("bucket/cut.gz", gzip.compress(b"a\nb\n")[:-6])
    store.pipe_file("bucket/cut.parquet", b"PAR1")
    store.copy("bucket/model/config.json", "bucket/cut/config.json")
    store.pipe_file("bucket/cut/model.safetensors", b"x" * 100)
    before = store.find("bucket"), sorted(tmp_path.iterdir())
    code, _, err = run(*command.replace("FIXTURES", str(FIXTURES)).split())
    assert (code, err.count("\n")) == (2, 1), err
    assert err.startswith("pbos: ")
    assert sentence in err
    (tmp_path / "cache").mkdir(exist_ok=True)
    assert (store.find("bucket"), sorted(tmp_path.iterdir())) == (before[0], sorted({*before[1], tmp_path / "cache"}))


def test_no_credentials(store, run, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        code, _, err = run("train", "s3://bucket/v.vec", "-o", "model")
        assert (code, err) == (2, "pbos: unable to locate credentials: s3://bucket/v.vec\n")
    finally:
        s3fs.S3FileSystem.clear_instance_cache()


def test_errors_while_reading_name_the_url(store, small_vectors, monkeypatch):
    small_vectors.write("s3://bucket/v.vec.gz")
    with open_bytes("s3://bucket/v.vec.gz") as stream:
        stream.read(10)
    monkeypatch.setattr(s3fs.core.S3File, "_fetch_range", lambda *_: (_ for _ in ()).throw(RuntimeError("line cut")))
    with pytest.raises(OSError, match=r"line cut: 's3://bucket/v.vec.gz'"):
        pbos.WordVectors.read("s3://bucket/v.vec.gz")


# Web servers ----------------------------------------------------------------------------------------------------------


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


def test_names_in_a_store_that_would_lead_elsewhere(store, model, tmp_path):
    """They are names like others, whose copies are in the cache, and nothing is next to it."""
    (tmp_path / "here").mkdir()
    for folder in ("..", "../m", "a/../../m", "m/..", "m/.", "/etc", r"..\m", "long" * 100):
        model.save(f"s3://bucket/{folder}")
        assert len(pbos.load(f"s3://bucket/{folder}")) == len(model)
    for name in ("a/..", "../x.txt", "a/" + "n" * 300 + ".vec"):
        pbos.WordVectors(["a"], [[1.0]]).write(f"s3://bucket/{name}", format="word2vec")
        assert files.on_disk(f"s3://bucket/{name}").read_bytes() == b"1 1\na 1\n"
    bucket = boto3.resource("s3").Bucket("bucket")
    assert len(list(bucket.objects.all())) > 25
    bucket.objects.all().delete()  # which s3fs cannot
    assert {entry.name for entry in tmp_path.iterdir()} == {"cache", "here"}
    assert all(re.fullmatch(r"[\w-]{,70}", entry.name) for entry in (tmp_path / "cache" / "remote").iterdir())


def test_a_cache_that_may_not_be_written(saved, monkeypatch):
    """That of another user: what is there is used, without a lock."""
    folder = remote.fetch(saved, "config.json")
    monkeypatch.setattr(remote, "lock", None)
    assert remote.fetch(saved, "config.json") == folder


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
    "on_disk": files.on_disk,
    "local": files.absolute,
    "write": lambda url: pbos.WordVectors(["a"], [[1.0]]).write(url),
    "save": lambda url: pbos.Segmenter.from_counts({"a": 1}).save(url),
    "embed": lambda url: pbos.embed_files(None, url, "out"),
    "download": lambda url: fetching.download(url, Path()),
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
    remote.fetch(here, "t.txt?SiGnAtUrE")
    files.on_disk(f"{here}/t.txt?SiGnAtUrE")
    written = list(tmp_path.rglob("*"))
    assert len(written) > 20
    for file in written:
        assert not SECRET.search(str(file.relative_to(tmp_path)).replace("t.txt?SiGnAtUrE", "")), file
        assert not file.is_file() or not SECRET.search(file.read_bytes().decode("latin1")), file
    jobs = [json.loads((tmp_path / "vectors" / "_job.json").read_bytes())["inputs"]]
    assert [name for name, *_ in jobs[0]] == [
        f"{address.replace('//', '//***@')}/t.txt?*** {files.digest_of('SiGnAtUrE')}"
    ]


# -- many files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", [None, "local"])
def test_many_files_are_embedded_from_store_to_store(store, model, tmp_path, monkeypatch, scheduler):
    """The same bytes as from disk to disk; in processes too, each of which fetches the model."""
    monkeypatch.setattr(embedding, "BYTES", 20)
    words = ["higher", "lower", "x-ray", "naïveté", "covfefe", "ЖЖ"]
    for folder in (tmp_path, "s3://bucket"):
        model.save(f"{folder}/model")
        for name in ("a.txt", "b.txt.gz"):
            with write_whole(f"{folder}/{name}") as stream:
                stream.write("".join(f"{word}\n" for word in words).encode())
        with write_whole(f"{folder}/c.parquet") as stream:
            parquet.write_table(pa.table({"word": words}), stream)
    here = pbos.embed_files(tmp_path / "model", [tmp_path / "*.*"], tmp_path / "out")
    url = "s3://bucket/out"
    assert pbos.embed_files("s3://bucket/model", "s3://bucket/*.*", url, scheduler=scheduler) == here
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names_in(url) == names >= {"part-00004.parquet", "_job.json", "_SUCCESS"}
    assert {name: store.cat(f"bucket/out/{name}") for name in names if "_job" not in name} == {
        name: (tmp_path / "out" / name).read_bytes() for name in names if "_job" not in name
    }
    store.rm("bucket/out/part-00001.parquet")
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(embedding, "embed_part", lambda *_: 1 / 0)
        pbos.embed_files("s3://bucket/model", "s3://bucket/*.*", url)
    assert names_in(url) == names - {"part-00001.parquet", "_SUCCESS"}  # not complete
    again = pbos.embed_files("s3://bucket/model", "s3://bucket/*.*", url)
    assert (again.parts, again.kept) == (1, here.parts - 1)
    with pytest.raises(InputError, match=f"{url} has vectors of another job .not the same model"):
        pbos.embed_files(None, "s3://bucket/*.*", url)
    with pytest.raises(InputError, match=f"a model in memory cannot be used for {url}; save it"):
        pbos.embed_files(model, "s3://bucket/*.*", url)
