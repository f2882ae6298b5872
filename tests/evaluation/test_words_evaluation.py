"""Data sets and the tasks on single words, compared with SciPy, brute force and published figures."""

import gzip
import hashlib
import io
import json
import threading
import urllib.error
import urllib.request
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from scipy.stats import spearmanr

import pbos
from pbos.errors import FormatError, InputError
from pbos.evaluation import datasets, words
from pbos.evaluation.datasets import AffixRow
from pbos.settings import Spelling
from pbos.tables.word_vectors import WordVectors
from pbos.words.subwords import Segmentation


class Table:
    """An embedder with vectors for some words and zeros for all others."""

    def __init__(self, vectors):
        self.vectors = {word: np.array(vector, np.float32) for word, vector in vectors.items()}
        self.dims = len(next(iter(self.vectors.values())))

    def embed(self, words):
        return np.stack([self.vectors.get(word, np.zeros(self.dims, np.float32)) for word in words])


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
    found = datasets.available(shared_data)
    assert {entry.name for entry, path in found if path is None} <= {"morphemes"}
    assert len({entry.name.lower() for entry, _ in found}) == len(found)


def test_published_files_are_the_ones_we_know(shared_data):
    for entry, path in datasets.available(shared_data):
        if entry.sha256 and path is not None:
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
    local = {entry.name: path for entry, path in datasets.available(tmp_path / "given")}
    assert (local["WS353"], local["SimLex999"]) == (given, None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ud-en", "ud-en is missing; see https.*; put ud-pos/en.train.tsv.gz, .*en.test.tsv.gz into a folder and pass"),
        ("ws352", "unknown data set 'ws352'; did you mean WS353"),
        ("qqqqqqqq", "unknown data set 'qqqqqqqq'; `pbos eval data` lists them"),
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
    assert dict((entry.name, path) for entry, path in datasets.available())["SimLex999"].parent == cache / "SimLex999"


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


# Readers --------------------------------------------------------------------------------------------------------------

PAIRS = [("cat", "Dog", 7.5), ("new york", "city", 8.0), ("naïve", "käse", 0.25)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("header", ["", "word 1,word 2,score"])
@pytest.mark.parametrize("separator", ["\t", ","])
def test_your_own_pairs(tmp_path, end, header, separator):
    lines = [header.replace(",", separator)] * bool(header) + [separator.join(map(str, pair)) for pair in PAIRS]
    (tmp_path / "pairs").write_bytes(end.join(lines).encode())
    assert datasets.read_pairs(tmp_path / "pairs") == PAIRS


def test_pairs_separated_by_spaces(tmp_path):
    (tmp_path / "pairs").write_text("cat  dog \t 7.5\n\nnew_york city 8\n")
    assert datasets.read_pairs(tmp_path / "pairs") == [("cat", "dog", 7.5), ("new_york", "city", 8.0)]


def test_pairs_with_quotes_bom_and_compression(tmp_path):
    data = b'\xef\xbb\xbfcat,"dog, the",7.5\nfire,ice,1\n'
    (tmp_path / "pairs").write_bytes(gzip.compress(data))
    assert datasets.read_pairs(tmp_path / "pairs") == [("cat", "dog, the", 7.5), ("fire", "ice", 1.0)]


def test_further_columns(tmp_path):
    """As in the published SimLex-999 (a tag before the score) and RareWord (the judges after it)."""
    (tmp_path / "pairs").write_text("word1\tword2\tPOS\tSimLex999\tconc\nold\tnew\tA\t1.58\t2\nbe\tgo\tV\t2\t3\n")
    assert datasets.read_pairs(tmp_path / "pairs") == [("old", "new", 1.58), ("be", "go", 2.0)]
    (tmp_path / "pairs").write_text("squish\tsquirt\t5.88\t7\t4\t\nfit\tfat\t1\t1\t1\t\n")
    assert datasets.read_pairs(tmp_path / "pairs") == [("squish", "squirt", 5.88), ("fit", "fat", 1.0)]


@pytest.mark.parametrize(
    ("word", "encoding", "language"), [("käse", "cp1252", "de"), ("perché", "cp1252", "it"), ("кошка", "cp1251", "ru")]
)
@pytest.mark.parametrize("utf8", [True, False])
def test_encodings(tmp_path, word, encoding, language, utf8):
    (tmp_path / "pairs").write_bytes(f"{word}\tx\t1\ny\tz\t2\n".encode("utf-8" if utf8 else encoding))
    found = datasets.read_pairs(tmp_path / "pairs", encoding=datasets.get(f"WS353-{language}").encoding)
    assert found[0] == (word, "x", 1.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cat\tdog\t7\ncat\tdog\n", "pairs, line 2: expected two words and a score, got: 'cat | dog'"),
        (b"cat\tdog\t7\r\rcat\t\t3\r", "line 3: expected two words and a score"),
        (b"cat\tdog\t7\ncat\tfish\tmuch\n", "line 2: .*much"),
        (b"cat\tdog\tnan\ncat\tfish\t2\n", "line 1: .*nan"),
        (b"cat dog\n", "line 1: expected two words and a score"),
        (b"cat\tdog\t7\nk\xe4se\tdog\t7\n", "line 2: the byte 0xe4 is not UTF-8; convert the file to UTF-8"),
        (b"\n\n", "the file is empty"),
    ],
)
def test_bad_pairs(tmp_path, content, message):
    (tmp_path / "pairs").write_bytes(content)
    with pytest.raises(FormatError, match=message.replace("|", r"\|")):
        datasets.read_pairs(tmp_path / "pairs")


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


# Similarity -----------------------------------------------------------------------------------------------------------


def test_targets_have_vectors_for_their_own_words_only():
    targets = words.Targets(WordVectors(["high", "low"], np.eye(2)))
    assert targets.embed(["low", "High", "low"]).tolist() == [[0, 1], [0, 0], [0, 1]]
    assert targets.embed([]).shape == (0, targets.dims)


def test_similarity_is_scipys_on_real_pairs(shared_data):
    model, pairs = pbos.load(), datasets.pairs("RareWord", shared_data)
    found = words.similarity(model, pairs, "RareWord", repeats=100)
    first, second, human = zip(*pairs, strict=True)
    cosines = model.similarity([word.lower() for word in first], [word.lower() for word in second])
    assert found.main.value == pytest.approx(100 * spearmanr(cosines, human).statistic, abs=1e-9)
    assert found.main.low < found.main.value < found.main.high
    assert found.details["pairs"] == 2034
    assert json.loads(json.dumps(found.to_dict()))["dataset"] == "RareWord"


def test_difference_is_that_of_resampled_spearmans():
    random = np.random.default_rng(1)
    tables = [Table({f"w{at}": random.normal(size=2) for at in range(60)}) for _ in range(2)]
    pairs = [(f"w{at}", f"w{at + 1}", float(random.integers(5))) for at in range(59)]
    first, second = (words.similarity(table, pairs, keep_cosines=True, repeats=20) for table in tables)
    found = words.difference(first, second, repeats=200, seed=3)
    assert found.value == pytest.approx(first.main.value - second.main.value)
    cosines = [pbos.cosines(*words.embed_pairs(table, pairs)) for table in tables]
    human = np.array([score for _, _, score in pairs])
    draws = np.random.default_rng(3)
    gaps = []
    for _ in range(200):
        drawn = draws.integers(0, 59, 59)
        one, other = (spearmanr(near[drawn], human[drawn]).statistic for near in cosines)
        gaps.append(100 * (one - other))
    assert [found.low, found.high] == pytest.approx(np.percentile(gaps, [2.5, 97.5]).tolist())
    assert words.difference(first, first) == words.Score(0.0, 0.0, 0.0)


def test_interval_is_that_of_resampled_spearman():
    random = np.random.default_rng(1)
    table = Table({f"w{at}": random.normal(size=2) for at in range(60)})
    pairs = [(f"w{at}", f"w{at + 1}", float(random.integers(5))) for at in range(59)]
    found = words.similarity(table, pairs, repeats=200, seed=3)
    left, right = words.embed_pairs(table, pairs)
    near = pbos.cosines(left, right)
    human = np.array([score for _, _, score in pairs])
    draws = np.random.default_rng(3)
    rhos = []
    for _ in range(200):
        drawn = draws.integers(0, 59, 59)
        rhos.append(100 * spearmanr(near[drawn], human[drawn]).statistic)
    assert [found.main.low, found.main.high] == pytest.approx(np.percentile(rhos, [2.5, 97.5]).tolist())


def test_missing_pairs_score_zero_or_are_dropped():
    """Near zero counts as missing; capitals do not; the underscore stays."""
    table = Table({"a": [1, 0], "b": [1, 1], "c": [-1, 0], "new_york": [1, 0.1], "tiny": [1e-7, 0]})
    pairs = [("A", "b", 5), ("a", "New_York", 9), ("a", "c", 1), ("a", "tiny", 7), ("nothing", "b", 8)]
    found = words.similarity(table, pairs)
    near = [0.70710678, 0.99503719, -1, 0, 0]
    human = [5, 9, 1, 7, 8]
    assert found.main.value == pytest.approx(100 * spearmanr(near, human).statistic)
    assert found.scores["spearman, pairs with both vectors"].value == pytest.approx(100)
    assert found.details["missing_pairs"] == 2
    assert found.main.low is None  # too few pairs for an interval


def test_without_any_vector_the_correlation_is_zero():
    found = words.similarity(Table({"a": [1, 0]}), [("x", "y", 1), ("y", "z", 2), ("z", "x", 3)])
    assert [score.value for score in found.scores.values()] == [0, 0]
    with pytest.raises(InputError, match="mine: similarity needs at least two pairs, got 1"):
        words.similarity(Table({"a": [1, 0]}), [("x", "y", 1)], "mine")


# Affixes --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def segmenter(shared_data):
    return pbos.Segmenter.from_counts(shared_data / "unigram_freq.csv")


def test_affix_figures_of_the_paper(segmenter, shared_data):
    found = words.affix(segmenter, datasets.read_affixes(shared_data), repeats=100)
    assert [round(found.scores[kind].value, 3) for kind in ("precision", "recall", "f1")] == [0.861, 0.874, 0.829]
    assert found.main.low < 0.861 < found.main.high
    assert (found.details["words"], found.details["affixes"]) == (3546, 17)


def test_affix_on_a_small_set():
    rows = [AffixRow("-er", "bake", "baker"), AffixRow("re-", "bake", "rebaker"), AffixRow("-y", "cat", "caty")]
    segmenter = pbos.Segmenter.from_counts({"re": 10, "baker": 1, "rebake": 5})
    found = words.affix(segmenter, rows)
    assert found.details["words"] == 1  # "baker" contains one affix only, -y is dropped
    assert [score.value for score in found.scores.values()] == [1, 1, 1]
    with pytest.raises(InputError, match="no word contains two of the affixes"):
        words.affix(segmenter, rows[:1])


def test_morphemes_by_hand():
    class Cutting:
        def segment(self, many):
            cuts = {"unkind": "un kind", "kindly": "k indly", "kind": "kind", "reads": "reads"}
            return [[Segmentation(tuple(cuts[word].split()), 1.0)] for word in many]

    gold = {"unkind": [["u", "nkind"], ["un", "kind"]], "kindly": [["kind", "ly"]], "kind": [["kind"]]}
    found = words.morphemes(Cutting(), gold | {"reads": [["read", "s"]]}, repeats=10)
    precision, recall = (1 + 0 + 1 + 1) / 4, (1 + 0 + 1 + 0) / 4
    expected = {"f1": 2 * precision * recall / (precision + recall), "precision": precision, "recall": recall}
    assert {name: score.value for name, score in found.scores.items()} == pytest.approx(expected)
    with pytest.raises(InputError, match="there are no words to segment"):
        words.morphemes(Cutting(), {})


def test_morpheme_files(tmp_path):
    path = tmp_path / "goldstd_combined.segmentation.eng"
    lines = "abusing\tab:ab_p us:use_V ing:+PCP1, abus:abuse_V ing:+PCP1", "sheep\tsheep:sheep_N ~:+PL"
    path.write_text("\n".join(lines), "utf-8")
    expected = {"abusing": [["ab", "us", "ing"], ["abus", "ing"]], "sheep": [["sheep"]]}
    assert datasets.read_morphemes(tmp_path) == expected
    path.write_text("abuse\tabus:abuse_V\n", "utf-8")
    with pytest.raises(FormatError, match="line 1: expected a word and morphemes that spell it"):
        datasets.read_morphemes(tmp_path)


def test_with_boundaries_an_affix_is_looked_for_at_its_end_of_the_word():
    class Weighing:
        def __init__(self, boundaries):
            self.spelling = Spelling(boundaries=boundaries)

        def weights(self, word):
            return [("er", 0.4), ("<er", 0.3), ("<re", 0.15), ("re", 0.1), ("er>", 0.05)]

    questions, affixes = words.affix_questions([AffixRow("-er", "ererer", "rererer"), AffixRow("re-", "er", "rerer")])
    assert affixes == ["-er", "re-"]
    assert [affixes[words.guess(Weighing(True), question, affixes)] for question in questions] == ["re-", "re-"]
    assert [affixes[words.guess(Weighing(False), question, affixes)] for question in questions] == ["-er", "-er"]


# Held-out words -------------------------------------------------------------------------------------------------------


def brute_force_rank(query, targets, row):
    near = [float(np.dot(query, t) / (np.linalg.norm(query) * np.linalg.norm(t))) for t in targets.astype(np.float64)]
    return 1 + sum(value > near[row] for value in near)


def test_true_ranks_are_brute_force(monkeypatch):
    random = np.random.default_rng(0)
    targets = random.normal(size=(50, 4)).astype(np.float32)
    rows = np.arange(0, 50, 3)
    queries = (targets[rows] + random.normal(size=(len(rows), 4))).astype(np.float32)
    expected = [brute_force_rank(query, targets, row) for query, row in zip(queries, rows, strict=True)]
    assert words.true_ranks(queries, targets, rows).tolist() == expected
    monkeypatch.setattr(words, "BLOCK_BYTES", 1)  # a query at a time
    assert words.true_ranks(queries, targets, rows).tolist() == expected


def test_a_zero_query_is_ranked_in_the_middle():
    targets = np.eye(5, dtype=np.float32)
    assert words.true_ranks(np.zeros((1, 5), np.float32), targets, np.array([0])).tolist() == [3.0]


def test_heldout_with_a_perfect_and_an_empty_model():
    random = np.random.default_rng(0)
    vectors = WordVectors([f"w{at}" for at in range(100)], random.normal(size=(100, 8)))
    seen = []

    def perfect(left):
        seen.append(set(left.words))
        return Table(dict(zip(vectors.words, vectors.vectors, strict=True)))

    found = words.heldout(perfect, vectors, 0.3, seed=5, dataset="mine", repeats=50)
    assert len(seen[0]) == 70
    assert list(found.scores)[:4] == ["cosine", "MRR", "hits@1", "hits@10"]
    assert [score.value for score in found.scores.values()] == pytest.approx([1] * 8)
    assert (found.details["hidden"], found.details["tail"], found.details["missing"]) == (30, 15, 0)

    found = words.heldout(lambda left: Table({"other": np.ones(8)}), vectors, 40, seed=5)
    assert found.scores["cosine"].value == found.scores["hits@10"].value == 0
    assert found.details["missing"] == 40


def test_heldout_of_a_trained_model(shared_data):
    vectors = WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=1500)
    models = []

    def train(left):
        models.append((set(left.words), pbos.train(left, preset="pbos", epochs=5, progress=False)))
        return models[-1][1]

    found = words.heldout(train, vectors, 150, repeats=50)
    seen, model = models[0]
    true = {word: vector for word, vector in zip(vectors.words, vectors.vectors, strict=True) if word not in seen}
    near = [np.dot(model[word], v) / np.linalg.norm(model[word]) / np.linalg.norm(v) for word, v in true.items()]
    assert len(true) == 150
    assert found.main.value == pytest.approx(np.mean(near), abs=1e-5)
    assert found.main.value == pytest.approx(0.351, abs=0.02)
    assert found == words.heldout(train, vectors, 150, repeats=50)


@pytest.mark.parametrize("hidden", [0, 4, 5, -1, 0.0, 1.0, 0.01])
def test_holding_out_too_few_or_too_many(hidden):
    vectors = WordVectors(["a", "b", "c", "d"], np.eye(4))
    with pytest.raises(InputError, match="hold out"):
        words.heldout(lambda left: Table({"a": [1]}), vectors, hidden)
