"""The tables: rows, cache, report, and the paper's own formats."""

import json
import pickle
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import pbos
from pbos import InputError
from pbos.evaluation import reproduce
from pbos.evaluation.hashing import train_hashed
from pbos.evaluation.report import write_report
from pbos.evaluation.reproduce import LANGUAGES, Row, Workshop, read_rows


def small(**changes):
    """A row that is quick to compute."""
    settings = {"targets": "googlenews-en-8k", "counts": "unigram", "settings": {"epochs": 2}, "limit": 300, **changes}
    return Row("small", "similarity", "PBoS", "pbos", **settings)


def beyond(table, model, **changes):
    """A row of a table that the paper does not have."""
    label = {"default": "default", "bos": "BoS"}[model]
    settings = {"targets": "googlenews-en-8k", "limit": 600, **changes}
    return Row(f"{table}-{model}", table, label, model, **settings)


@pytest.fixture
def workshop(shared_data, tmp_path):
    return Workshop(shared_data, tmp_path / "cache")


def test_every_row_is_sound():
    rows = read_rows()
    assert {row.table for row in rows} == set(reproduce.TABLES)
    assert len(LANGUAGES) == len(set(LANGUAGES)) == 23
    for row in rows:
        assert row.name.startswith(row.table)
        if row.table == "tagging" and row.paper:
            assert set(row.paper) == set(LANGUAGES)
    with pytest.raises(InputError, match="unknown table 'nope'"):
        read_rows("nope")


def test_paper_figures_are_the_papers():
    """A few of them, typed again from the paper's tables."""
    paper = {row.name: row.paper for row in read_rows()}
    assert paper["similarity-minilm-en-pbos"] == {"WS353": 68, "RareWord": 49, "Card-660": 25}
    assert paper["similarity-selftrained-en-bos"] == {"WS353": 34, "RareWord": 34, "Card-660": 6}
    assert paper["multilingual-pbos"]["de WS353-sim"] == 38
    assert paper["multilingual-bos"]["it WS353-rel"] == -2
    assert (paper["tagging-kvq"]["vi"], paper["tagging-bos"]["vi"], paper["tagging-pbos"]["vi"]) == (
        0.663,
        0.712,
        0.832,
    )


def test_a_row_is_computed_once(workshop, monkeypatch):
    first = workshop.run(small())
    assert [result.dataset for result in first] == list(reproduce.SIMILARITY)
    model = next((workshop.cache / "models").iterdir())
    monkeypatch.setattr(Workshop, "similarity", lambda *arguments: pytest.fail("computed again"))
    assert workshop.run(small()) == first == workshop.kept(small())
    monkeypatch.undo()
    for file in (workshop.cache / "results").iterdir():
        file.unlink()
    before = model.stat().st_mtime_ns
    assert workshop.run(small()) == first  # from the model kept
    assert model.stat().st_mtime_ns == before


def test_other_settings_are_another_result(workshop):
    keys = {
        workshop.key(small(**changes), "")
        for changes in ({}, {"settings": {}}, {"limit": 9}, {"targets": "minilm-en"}, {"counts": "own"})
    }
    assert len(keys) == 5


def test_the_similarity_of_a_row_is_that_of_its_model(workshop, shared_data):
    (result, *_) = workshop.run(small(limit=2000))
    vectors = pbos.WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=2000)
    model = pbos.train(vectors, shared_data / "unigram_freq.csv", preset="pbos", epochs=2)
    import similarity

    assert result.main.value == pytest.approx(similarity.score(model, shared_data / "similarity" / "wordsim353.tab"))


def test_affix_and_table_1_are_exact(workshop):
    rows = {row.name: row for row in read_rows()}
    (result,) = workshop.run(rows["affix-pbos"])
    assert [round(score.value, 3) for score in result.scores.values()][:3] == [0.861, 0.874, 0.829]
    (result,) = workshop.run(rows["segmentation-pbos"])
    assert result.details["words"]["higher"]["segmentations"][0] == ["higher", pytest.approx(0.922, abs=5e-4)]


def test_the_report_shows_what_is_there_and_what_is_not(workshop, monkeypatch, tmp_path):
    rows = [small(paper={"WS353": 68}, paper_targets="Google News")]
    rows += [
        row for row in read_rows() if row.name in ("segmentation-pbos", "affix-pbos", "tagging-bos", "heldout-bos")
    ]
    rows += [beyond("unseen", "bos"), beyond("unseen", "default"), beyond("size", "default")]
    monkeypatch.setattr(reproduce, "SIZES", ("full", "200"))
    for row in rows[:2] + rows[-3:]:
        workshop.run(row)
    monkeypatch.setattr("pbos.evaluation.report.read_rows", lambda: rows)
    files = write_report(workshop, tmp_path / "results")
    text = (tmp_path / "results" / "README.md").read_text(encoding="utf-8")
    value = workshop.kept(rows[0])[0].main.value
    line = next(line for line in text.splitlines() if "`small`" in line)
    assert f"{value:.1f} [" in line and "68 / – / –" in line
    assert "Google News" in text
    first, second = ({result.dataset: result.main.value for result in workshop.kept(row)} for row in rows[-3:-1])
    line = next(line for line in text.splitlines() if line.startswith("| default – BoS"))
    assert f"| {second['RareWord'] - first['RareWord']:.1f} [" in line
    assert "- words of the benchmarks hidden: ahead of BoS in " in text
    for file in files:
        assert file.stat().st_size > 500
        if file.suffix == ".svg":
            ET.parse(file)
        if file.suffix == ".png":
            assert file.read_bytes().startswith(b"\x89PNG") and f"]({file.name})" in text


def test_hidden_words_are_hidden_from_training(workshop, shared_data, monkeypatch):
    """By one call for each set of vectors, with the counts that lie beside it, or else the paper's list."""
    asked = []
    train = pbos.train

    def spy(vectors, counts, **options):
        asked.append((len(vectors), None if counts is None else len(counts)))
        return train(vectors, counts, **options)

    monkeypatch.setattr(pbos, "train", spy)
    monkeypatch.setattr(reproduce, "HELDOUT", ("googlenews-en-8k", "selftrained-kk"))
    found = workshop.run(beyond("heldout", "bos", targets="", counts="any", limit=200, settings={"epochs": 2}))
    assert [result.dataset for result in found] == ["googlenews-en-8k", "selftrained-kk"]
    own = len(pbos.WordCounts.read(shared_data / "vectors" / "selftrained-kk" / "counts.tsv.gz"))
    assert asked == [(160, 333_333), (160, own)]
    workshop.run(beyond("unseen", "default"))
    words = pbos.WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=600).words
    benchmarks = ["wordsim353.tab", "rareword.txt", "card660.tsv", "simlex999.txt"]
    text = "\n".join((shared_data / "similarity" / name).read_text("utf-8", "replace").lower() for name in benchmarks)
    known = set(text.replace("\t", "\n").splitlines())
    assert asked[-1] == (sum(word.lower() not in known for word in words), None)


def test_sizes_are_those_of_the_models(workshop, monkeypatch):
    monkeypatch.setattr(reproduce, "SIZES", ("full", "200", "100"))
    full, some, few = workshop.run(beyond("size", "default"))
    assert (some.scores["vectors"].value, few.scores["vectors"].value) == (200, 100)
    assert full.scores["vectors"].value > 200
    for result in (full, some, few):
        gap = result.scores["MB as float32"].value - result.scores["MB"].value
        assert gap == pytest.approx(result.scores["vectors"].value * (300 * 3 - 4) / 1e6)
    hashed = workshop.run(beyond("size", "bos", hashed=True, settings={"epochs": 2}))
    assert [result.scores["vectors"].value for result in hashed] == [200, 100]


def test_hashed_subwords_share_vectors_by_their_spelling(shared_data):
    vectors = pbos.WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=100)
    model = train_hashed(vectors, None, 50, preset="default")
    rows = {}
    for subword, row in zip(model.index.strings(), model.index.rows[1:].tolist(), strict=True):
        if row >= 0:
            value = 0xCBF29CE484222325
            for character in subword:
                value = (value ^ ord(character)) * 0x100000001B3 % 2**64
            assert rows.setdefault(value % 50, row) == row
    assert len(rows) == len(set(rows.values())) == len(model.vectors) == 50
    expected = sum(
        weight * model.vectors.to_float32()[model.index.rows[model.index.find(subword)]]
        for subword, weight in model.weights("unfriendly")
    )
    assert model["unfriendly"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", ["pickle", "binary", "text"])
def test_the_papers_own_vectors_can_be_used(workshop, kind, tmp_path, shared_data):
    """Small files in the formats of Polyglot, Google News and Wikipedia2Vec."""
    given = pbos.WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=400)
    file = tmp_path / {"pickle": "polyglot-en.pkl", "binary": "GoogleNews.bin", "text": "enwiki.txt"}[kind]
    if kind == "pickle":
        words = ("<UNK>", "<S>", "</S>", "<PAD>", *given.words)
        file.write_bytes(
            pickle.dumps((words, np.concatenate([np.zeros((4, 300), np.float32), given.vectors])), protocol=2)
        )
    else:
        given.write(file)
    workshop.originals = file
    used = workshop.vectors(small(limit=None), "googlenews-en-8k")
    assert used.words == [word for word in given.words if reproduce.is_english_word(word)]
    assert workshop.vectors(small(limit=None), "selftrained-en").words == given.words
    assert len(workshop.run(small(limit=100))) == 4


def test_words_for_another_machine(shared_data):
    needed = reproduce.needed_words(["minilm-en", "selftrained-kk", "selftrained-de"], shared_data)
    assert {"tiger", "pocket_monsters"} <= set(needed["minilm-en"])
    assert len(needed["selftrained-kk"]) == 2518
    assert "könig" in needed["selftrained-de"]


def test_rows_are_data(tmp_path):
    for file in reproduce.ROWS.glob("*.json"):
        assert len(file.read_text(encoding="utf-8").splitlines()) < 45
        assert set(json.loads(file.read_text(encoding="utf-8"))) <= {f for f in Row.__dataclass_fields__}
