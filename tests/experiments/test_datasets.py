"""The data sets of the experiments: finding, downloading and reading them."""

import gzip
import hashlib
import io
import threading
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from experiments import datasets
from pbos.errors import FormatError, InputError


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of downloads, and no data folder in the environment."""
    monkeypatch.delenv("PBOS_DATA", raising=False)
    monkeypatch.setenv("PBOS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "data"


# The list -------------------------------------------------------------------------------------------------------------

SIZES = {"WS353": 353, "RareWord": 2034, "Card-660": 660, "SimLex999": 999}
MULTILINGUAL_SIZES = {"WS353": 350, "WS353-rel": 252, "WS353-sim": 201, "SimLex999": 999}
TRAINING_WORDS = {"kk": 4949, "ta": 6329, "lv": 13083, "cs": 21450, "vi": 31799, "hu": 33016}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_the_english_sets(shared_data, name):
    assert len(datasets.pairs(name, shared_data)) == SIZES[name]


@pytest.mark.parametrize("language", ["en", "de", "it", "ru"])
def test_sizes_of_the_multilingual_sets(shared_data, language):
    sets = {kind: datasets.pairs(f"{kind}-{language}", shared_data) for kind in MULTILINGUAL_SIZES}
    assert {kind: len(pairs) for kind, pairs in sets.items()} == MULTILINGUAL_SIZES
    letters = {"ru": set("абвгдежзийклмнопрстуфхцчшщъыьэюя"), "de": set("äöüß"), "it": set("èàùò"), "en": set("a")}
    text = "".join(word.lower() for pairs in sets.values() for pair in pairs for word in pair[:2])
    assert letters[language] & set(text)
    assert not any(mark in text for mark in "\xa0\ufffdÃ\r\n\t")


@pytest.mark.parametrize("language", TRAINING_WORDS)
def test_sizes_of_treebanks(shared_data, language):
    sentences = datasets.sentences(language, "train", shared_data)
    assert sum(map(len, sentences)) == TRAINING_WORDS[language]
    assert all(word and tag.isupper() for sentence in sentences for word, tag in sentence)


def test_size_of_the_affix_set(shared_data):
    assert len(datasets.read_affixes(shared_data)) == 7449


def test_all_of_the_shared_data_is_found(shared_data):
    entries = list(datasets.registry())
    assert {entry.name for entry in entries if not datasets.local_files(entry, shared_data)} <= {"morphemes"}
    assert len({entry.name.lower() for entry in entries}) == len(entries)


def test_published_files_are_the_ones_we_know(shared_data):
    for entry in datasets.DATASETS.values():
        if entry.sha256:
            for path in datasets.local_files(entry, shared_data):
                assert hashlib.sha256(path.read_bytes()).hexdigest() == entry.sha256, entry.name


def test_a_downloadable_data_set_is_one_file():
    for entry in datasets.DATASETS.values():
        assert not entry.url or len(entry.paths) == 1


# Finding --------------------------------------------------------------------------------------------------------------


def put(folder, content=b"cat\tdog\t7\n"):
    file = folder / "similarity" / "wordsim353.tab"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return file


def test_search_order(tmp_path, cache, monkeypatch):
    named = put(tmp_path / "named")
    monkeypatch.setenv("PBOS_DATA", str(tmp_path / "named"))
    assert datasets.locate("ws353") == [named]
    given = put(tmp_path / "given")
    assert datasets.locate("WS353", tmp_path / "given") == [given]
    assert datasets.local_files(datasets.get("SimLex999"), tmp_path / "given") == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ud-en", "ud-en is missing; see https.*; put ud-pos/en.train.tsv.gz, .*en.test.tsv.gz into a folder and pass"),
        ("ws352", "unknown data set 'ws352'; did you mean WS353"),
        ("qqqqqqqq", "unknown data set 'qqqqqqqq'; docs/evaluation-data.md lists them"),
    ],
)
def test_missing_data_sets(cache, name, message):
    with pytest.raises(InputError, match=message):
        datasets.locate(name)


def test_a_missing_data_folder(tmp_path, cache, monkeypatch):
    with pytest.raises(InputError, match=r"the data folder .*nowhere does not exist$"):
        datasets.pairs("WS353", tmp_path / "nowhere")
    monkeypatch.setenv("PBOS_DATA", "nowhere")
    with pytest.raises(InputError, match=r"the data folder nowhere does not exist \(from the variable PBOS_DATA\)"):
        datasets.pairs("WS353")


def test_offline(cache, monkeypatch):
    def refuse(*args, **options):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(
        InputError, match=r"WS353 is missing: https.* cannot be downloaded \(no route\).*--data or PBOS"
    ):
        datasets.pairs("WS353")
    assert not list(cache.iterdir())


@pytest.fixture
def served(monkeypatch):
    """A local web server; returns its files by path, and its address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    files = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path in files else 404)
            self.end_headers()
            self.wfile.write(files.get(self.path, b""))

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield files, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


CONTENT = b"word1\tword2\tPOS\tscore\ncat\tdog\tN\t7.5\n"


@pytest.mark.parametrize(
    ("published", "member"),
    [
        (CONTENT, ""),
        (gzip.compress(CONTENT, mtime=0), ""),
        (zipped({"__MACOSX/._it.txt": b"", "in/it.txt": CONTENT}), "it.txt"),
    ],
    ids=["plain", "gz", "zip"],
)
def test_download(cache, served, monkeypatch, published, member):
    files, address = served
    files["/it"] = published
    digest = hashlib.sha256(CONTENT).hexdigest()
    entry = replace(datasets.get("SimLex999"), url=address + "/it", member=member, sha256=digest)
    monkeypatch.setitem(datasets.DATASETS, "SimLex999", entry)
    assert datasets.pairs("SimLex999") == [("cat", "dog", 7.5)]
    files.clear()
    assert datasets.pairs("SimLex999") == [("cat", "dog", 7.5)]  # from the cache
    assert datasets.locate("SimLex999")[0].parent == cache / "SimLex999"


@pytest.mark.parametrize(
    ("published", "member", "error", "message"),
    [
        (None, "", InputError, "cannot be downloaded .HTTP 404"),
        (b"something else", "", FormatError, "its content has changed"),
        (zipped({"other.txt": CONTENT}), "it.txt", FormatError, "does not contain it.txt"),
        (b"not a zip", "it.txt", FormatError, "cannot be used: it: the archive is damaged "),
        (gzip.compress(CONTENT, mtime=0)[:-9], "", FormatError, "cannot be used: .*damaged|cut short"),
    ],
)
def test_bad_download(cache, served, published, member, error, message):
    """The bad file does not stay in the cache."""
    files, address = served
    if published is not None:
        files["/it"] = published
    entry = replace(datasets.get("WS353"), url=address + "/it", member=member, sha256="0" * 64)
    with pytest.raises(error, match=message):
        datasets.fetch(entry)
    assert not list(cache.iterdir())


# Readers -------------------------------------------------------------------------------------------------------------


def test_sentences(tmp_path):
    (tmp_path / "plain").write_text("The\tDET\n#\tSYM\n\n\nGo\tVERB\n", encoding="utf-8")
    assert datasets.read_sentences(tmp_path / "plain") == [[("The", "DET"), ("#", "SYM")], [("Go", "VERB")]]
    rest = "\t_" * 6
    conllu = (
        f"# text = zum Haus\n1-2\tzum\t_\t_{rest}\n1\tzu\tzu\tADP{rest}\n2\tdem\tder\tDET{rest}\n2.1\tx\tx\tX{rest}\n"
    )
    (tmp_path / "conllu").write_text(conllu, encoding="utf-8")
    assert datasets.read_sentences(tmp_path / "conllu") == [[("zu", "ADP"), ("dem", "DET")]]
    (tmp_path / "bad").write_text("The\tDET\nGo\n", encoding="utf-8")
    with pytest.raises(FormatError, match="bad, line 2: expected a word, a tab and its tag, got: 'Go'"):
        datasets.read_sentences(tmp_path / "bad")


def test_bad_affix_file(tmp_path):
    (tmp_path / "affix_complete_set.txt").write_bytes(
        b"affix\tstem\tstemPOS\tderived\r\n-er\tbake\tv\tbaker\r\n-er\tbake\r\n"
    )
    with pytest.raises(FormatError, match="line 3: expected affix, stem, tag and derived word"):
        datasets.read_affixes(tmp_path)


def test_unknown_part_of_a_treebank(cache):
    with pytest.raises(InputError, match="choose one of: train, dev, test"):
        datasets.sentences("en", "validation")


def test_morpheme_files(tmp_path):
    path = tmp_path / "goldstd_combined.segmentation.eng"
    lines = "abusing\tab:ab_p us:use_V ing:+PCP1, abus:abuse_V ing:+PCP1", "sheep\tsheep:sheep_N ~:+PL"
    path.write_text("\n".join(lines), "utf-8")
    expected = {"abusing": [["ab", "us", "ing"], ["abus", "ing"]], "sheep": [["sheep"]]}
    assert datasets.read_morphemes(tmp_path) == expected
    path.write_text("abuse\tabus:abuse_V\n", "utf-8")
    with pytest.raises(FormatError, match="line 1: expected a word and morphemes that spell it"):
        datasets.read_morphemes(tmp_path)
