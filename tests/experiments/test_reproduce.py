"""The experiments: rows, cache, report, command line, and the paper's own formats."""

import pytest

import pbos
from experiments import datasets, reproduce, tasks
from experiments.__main__ import main
from experiments.hashing import train_hashed
from experiments.pages import write_report
from experiments.reproduce import LANGUAGES, Runner
from experiments.rows import TABLES, Row, read_rows
from pbos import InputError


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
def runner(shared_data, tmp_path):
    return Runner(shared_data, tmp_path / "cache")


def test_every_row_is_sound():
    rows = read_rows()
    assert {row.table for row in rows} == set(TABLES)
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
    assert paper["multilingual-pbos"]["WS353-sim-de"] == 38
    assert paper["multilingual-bos"]["WS353-rel-it"] == -2
    assert (paper["tagging-kvq"]["vi"], paper["tagging-bos"]["vi"], paper["tagging-pbos"]["vi"]) == (
        0.663,
        0.712,
        0.832,
    )


def test_a_row_is_computed_once(runner, monkeypatch):
    first = runner.run(small())
    assert [result.dataset for result in first] == list(reproduce.SIMILARITY)
    model = next((runner.cache / "models").iterdir())
    monkeypatch.setattr(Runner, "similarity", lambda *arguments: pytest.fail("computed again"))
    assert runner.run(small()) == first == runner.cached(small())
    monkeypatch.undo()
    for file in (runner.cache / "results").iterdir():
        file.unlink()
    before = model.stat().st_mtime_ns
    assert runner.run(small()) == first  # from the model kept
    assert model.stat().st_mtime_ns == before


def test_other_settings_are_another_result(runner):
    keys = {
        runner.key(small(**changes), "")
        for changes in ({}, {"settings": {}}, {"limit": 9}, {"targets": "minilm-en"}, {"counts": "own"})
    }
    assert len(keys) == 5


def test_the_similarity_of_a_row_is_that_of_its_model(runner, shared_data):
    (result, *_) = runner.run(small(limit=2000))
    vectors = pbos.WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=2000)
    model = pbos.train(vectors, shared_data / "unigram_freq.csv", preset="pbos", epochs=2)
    import similarity

    assert result.main.value == pytest.approx(similarity.score(model, shared_data / "similarity" / "wordsim353.tab"))


def test_affix_and_table_1(runner):
    """Affix prediction gives the paper's figures to three decimals; Table 1 is within 0.0065 of the paper's."""
    rows = {row.name: row for row in read_rows()}
    (result,) = runner.run(rows["affix-pbos"])
    assert [round(score.value, 3) for score in result.scores.values()] == [0.861, 0.874, 0.829]
    (result,) = runner.run(rows["segmentation-pbos"])
    assert result.main.value < 0.0065
    assert result.details["words"]["higher"]["segmentations"][0] == ["higher", pytest.approx(0.924, abs=0.0065)]


def test_random_affixes_give_the_papers_figures(shared_data):
    found = tasks.affix_random(datasets.read_affixes(shared_data), repeats=100)
    for kind, paper in (("precision", 0.493), ("recall", 0.465), ("f1", 0.425)):
        score = found.scores[kind]
        assert score.value == pytest.approx(paper, abs=0.005)
        assert score.low < score.value < score.high


def test_the_report_shows_what_is_there_and_what_is_not(runner, monkeypatch, tmp_path):
    rows = [small(paper={"WS353": 68}, paper_targets="Google News")]
    rows += [
        row for row in read_rows() if row.name in ("segmentation-pbos", "affix-pbos", "tagging-bos", "heldout-bos")
    ]
    rows += [beyond("unseen", "bos"), beyond("unseen", "default"), beyond("size", "default")]
    monkeypatch.setattr(reproduce, "SIZES", ("full", "200"))
    for row in rows[:2] + rows[-3:]:
        runner.run(row)
    monkeypatch.setattr("experiments.pages.read_rows", lambda: rows)
    files = write_report(runner, tmp_path / "results")
    text = "".join(file.read_text(encoding="utf-8") for file in files if file.suffix == ".md")
    value = runner.cached(rows[0])[0].main.value
    line = next(line for line in text.splitlines() if "`small`" in line)
    assert f"{value:.1f} [" in line and "68 / – / –" in line
    assert "Google News" in text
    first, second = ({result.dataset: result.main.value for result in runner.cached(row)} for row in rows[-3:-1])
    line = next(line for line in text.splitlines() if line.startswith("| default – BoS"))
    assert f"| {second['RareWord'] - first['RareWord']:.1f} [" in line
    assert "- The default preset is ahead of BoS in " in text
    for file in files:
        assert file.stat().st_size > 500
        if file.suffix == ".png":
            assert file.read_bytes().startswith(b"\x89PNG") and f"]({file.name})" in text


def test_held_out_words_are_not_trained_on(runner, shared_data, monkeypatch):
    """One call of train for each set of vectors, with the counts beside it, or else the paper's list."""
    asked = []
    train = pbos.train

    def spy(vectors, counts, **options):
        asked.append((len(vectors), None if counts is None else len(counts)))
        return train(vectors, counts, **options)

    monkeypatch.setattr(pbos, "train", spy)
    monkeypatch.setattr(reproduce, "HELDOUT", ("googlenews-en-8k", "selftrained-kk"))
    found = runner.run(beyond("heldout", "bos", targets="", counts="any", limit=200, settings={"epochs": 2}))
    assert [result.dataset for result in found] == ["googlenews-en-8k", "selftrained-kk"]
    own = len(pbos.WordCounts.read(shared_data / "vectors" / "selftrained-kk" / "counts.tsv.gz"))
    assert asked == [(160, 333_333), (160, own)]
    runner.run(beyond("unseen", "default"))
    words = pbos.WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=600).words
    benchmarks = ["wordsim353.tab", "rareword.txt", "card660.tsv", "simlex999.txt"]
    text = "\n".join((shared_data / "similarity" / name).read_text("utf-8", "replace").lower() for name in benchmarks)
    known = set(text.replace("\t", "\n").splitlines())
    assert asked[-1] == (sum(word.lower() not in known for word in words), None)


def test_sizes_are_those_of_the_models(runner, monkeypatch):
    monkeypatch.setattr(reproduce, "SIZES", ("full", "200", "100"))
    full, some, few = runner.run(beyond("size", "default"))
    assert (some.scores["vectors"].value, few.scores["vectors"].value) == (200, 100)
    assert full.scores["vectors"].value > 200
    for result in (full, some, few):
        gap = result.scores["MB as float32"].value - result.scores["MB"].value
        assert gap == pytest.approx(result.scores["vectors"].value * (300 * 3 - 4) / 1e6)
    hashed = runner.run(beyond("size", "bos", hashed=True, settings={"epochs": 2}))
    assert [result.scores["vectors"].value for result in hashed] == [200, 100]


def test_hashed_subwords_share_vectors_by_their_spelling(small_vectors):
    vectors = pbos.WordVectors(small_vectors.words[:100], small_vectors.vectors[:100])
    model = train_hashed(vectors, None, 50, preset="default")
    rows, row_of = {}, dict(zip(model.index.strings(), model.index.rows[1:].tolist(), strict=True))
    for subword, row in row_of.items():
        if row >= 0:
            value = 0xCBF29CE484222325
            for character in subword:
                value = (value ^ ord(character)) * 0x100000001B3 % 2**64
            assert rows.setdefault(value % 50, row) == row
    assert len(rows) == len(set(rows.values())) == len(model.subword_vectors) == 50
    expected = sum(
        weight * model.subword_vectors.to_float32()[row_of[subword]] for subword, weight in model.weights("unfriendly")
    )
    assert model["unfriendly"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", ["folder", "binary", "text"])
def test_the_papers_own_vectors_can_be_used(runner, kind, tmp_path, shared_data):
    """Small files in the formats of Polyglot, Google News and Wikipedia2Vec."""
    given = pbos.WordVectors.read(shared_data / "vectors" / "googlenews-en-8k", limit=400)
    file = tmp_path / {"folder": "polyglot-en", "binary": "GoogleNews.bin", "text": "enwiki.txt"}[kind]
    given.write(file, format="folder" if kind == "folder" else None)
    runner.originals = file
    used = runner.vectors(small(limit=None), "googlenews-en-8k")
    assert used.words == [word for word in given.words if reproduce.is_english_word(word)]
    assert runner.vectors(small(limit=None), "selftrained-en").words == given.words
    assert len(runner.run(small(limit=100))) == 4


def test_every_model_can_be_made(runner):
    """Of those that the tables name and that are trained here, on a few words."""
    vectors = runner.vectors(small(limit=50), "googlenews-en-8k")
    models = {row.model for row in read_rows()} - {"segmenter", "random", "fasttext", "kvq", *reproduce.NEURAL}
    for model in models:
        row = Row("any", "similarity", model, model, "googlenews-en-8k", limit=50)
        assert runner.make(row, vectors, row.targets).embed(["house", "houses"]).shape == (2, 300)


def test_command_line(shared_data, tmp_path, monkeypatch, capsys):
    """Other vectors instead of the targets, as the documentation shows it."""
    monkeypatch.chdir(tmp_path)
    given = pbos.WordVectors.read(shared_data / "vectors" / "selftrained-en", limit=500)
    given.write(tmp_path / "polyglot-en", format="folder")
    arguments = "reproduce --row similarity-selftrained-en-pbos --vectors polyglot-en -o originals --cache c"
    main([*arguments.split(), "--data", str(shared_data)])
    assert "wrote originals/paper.md" in capsys.readouterr().err
    assert "`similarity-selftrained-en-pbos`" in (tmp_path / "originals" / "paper.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("reproduce nope", "unknown table 'nope'"),
        ("reproduce --row nope", "unknown row 'nope'"),
        ("reproduce --data nowhere", "the data folder nowhere does not exist"),
    ],
)
def test_bad_arguments(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments.split())
    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err
