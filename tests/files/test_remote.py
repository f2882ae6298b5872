"""Paths that are URLs, with a real object store: moto's server, which s3fs talks to as to any other."""

import gzip
import json
import logging
import os
import re
import subprocess
import sys
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
from pyarrow import parquet

import pbos
from pbos import FormatError, InputError, ModelError
from pbos.corpus import embed_files as embedding
from pbos.corpus import sources
from pbos.files import cache
from pbos.files.atomic import write_whole
from pbos.files.paths import exists, names_in, open_bytes, user_cache
from pbos.jobs.pools import Threads

FIXTURES = Path(__file__).parents[1] / "fixtures"


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
        found = [run(*command.replace("@", prefix).split()) for prefix in ("", "s3://bucket/")]
        assert found[0][0] == 0, found[0]
        size_and_time = re.compile(r"s3://bucket/|, [\d.]+ MB|in \d+ s")  # sizes of remote models are not shown
        here, there = ((code, *(size_and_time.sub("", text) for text in said)) for code, *said in found)
        assert there == here, command
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
    folder = cache.fetch(saved, "config.json")
    (folder.parent / ".rest.0123456789ab.tmp").mkdir()
    assert cache.fetch(saved, "config.json") == folder
    cache.fetch(saved, "config.json", "README.md")
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
    with pytest.raises(ModelError, match="s3://bucket/else is a folder with something other than a pbos model in it"):
        model.save("s3://bucket/else")
    with pytest.raises(InputError, match="s3://bucket/else: the folder contains files other than vectors"):
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
        ("learn s3://bucket/*.txt -o x", "s3://bucket/*.txt: no such file; pass files, or patterns"),
        ("train s3://bucket/model -o x", "s3://bucket/model is a pbos model, not word vectors"),
        ("embed -i s3://bucket/model", "is a directory: s3://bucket/model"),
        ("learn x.txt --cooccurrences s3://bucket/c -o x", "s3://bucket/c: must be a path on this machine"),
        ("learn x.txt --counts s3://no-bucket/c -o x", "the specified bucket does not exist: s3://no-bucket/c"),
        ("complete FIXTURES/vectors x -o s3://no-bucket/x.vec", "the specified bucket does not exist"),
        ("embed -m s3://bucket/cut x", "model.safetensors has a header of impossible length"),
        ("embed -i s3://bucket/cut.gz", "s3://bucket/cut.gz: the compressed data is damaged or cut short"),
        ("embed -i s3://bucket/cut.parquet", "s3://bucket/cut.parquet is damaged, or not the kind of table"),
        ("embed -m nowhere://x x", "nowhere://x/config.json: Protocol not known: nowhere"),
        ("embed -m nolib://x x", "nolib://x/config.json: Install nolib to access this"),
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


def test_names_in_a_store_that_would_lead_elsewhere(store, model, tmp_path):
    """They are names like others, whose copies are in the cache, and nothing is next to it."""
    (tmp_path / "here").mkdir()
    for folder in ("..", "../m", "a/../../m", "m/..", "m/.", "/etc", r"..\m", "long" * 100):
        model.save(f"s3://bucket/{folder}")
        assert len(pbos.load(f"s3://bucket/{folder}")) == len(model)
    for name in ("a/..", "../x.txt", "a/" + "n" * 300 + ".vec"):
        pbos.WordVectors(["a"], [[1.0]]).write(f"s3://bucket/{name}", format="word2vec")
        assert cache.on_disk(f"s3://bucket/{name}").read_bytes() == b"1 1\na 1\n"
    bucket = boto3.resource("s3").Bucket("bucket")
    assert len(list(bucket.objects.all())) > 25
    bucket.objects.all().delete()  # which s3fs cannot
    assert {entry.name for entry in tmp_path.iterdir()} == {"cache", "here"}
    assert all(re.fullmatch(r"[\w-]{,70}", entry.name) for entry in (tmp_path / "cache" / "remote").iterdir())


def test_a_cache_that_may_not_be_written(saved, monkeypatch):
    """That of another user: what is there is used, without a lock."""
    folder = cache.fetch(saved, "config.json")
    monkeypatch.setattr(cache, "lock", None)
    assert cache.fetch(saved, "config.json") == folder


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
    with pytest.raises(InputError, match=f"{url} has vectors from another job .with different model"):
        pbos.embed_files(None, "s3://bucket/*.*", url)
    with pytest.raises(InputError, match=f"a model in memory cannot be used for {url}; save it"):
        pbos.embed_files(model, "s3://bucket/*.*", url)
