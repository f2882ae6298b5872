"""Commands that use a text beside a table: train --text, complete --text."""

import numpy as np
import pytest

import pbos


@pytest.fixture
def files(tmp_path, small_vectors, sentences, contextual):
    """A table in v.npz, a text in text.txt, words in words.txt, and a model in m, in the folder of commands."""
    pbos.WordVectors(small_vectors.words[:1500], small_vectors.vectors[:1500]).write(tmp_path / "v.npz")
    (tmp_path / "text.txt").write_text("\n".join(sentences), encoding="utf-8")
    (tmp_path / "words.txt").write_text("\n".join(small_vectors.words[1500:1600]), encoding="utf-8")
    contextual.save(tmp_path / "m")
    return tmp_path


def expected(contextual, small_vectors, words, **options):
    table = pbos.WordVectors(small_vectors.words[:1500], small_vectors.vectors[:1500])
    return pbos.complete(table, words, model=contextual, **options)


def same(path, table):
    read = pbos.WordVectors.read(path)
    return read.words == table.words and read.vectors.tobytes() == table.vectors.tobytes()


def test_complete_a_list_with_a_text(run, files, contextual, small_vectors, sentences):
    table = expected(contextual, small_vectors, small_vectors.words[1500:1600], text=sentences)
    code, out, err = run("complete", "v.npz", "words.txt", "--text", "text.txt", "-m", "m", "-o", "new.npz")
    assert (code, out) == (0, "")
    assert err == "pbos: wrote new.npz: 1,500 given words and 100 new ones x 32\n"
    assert same("new.npz", table)
    assert run("complete", "v.npz", "words.txt", "--text", "text.txt", "-o", "own.npz")[0] == 0  # with its own model
    assert same("own.npz", table)


def test_complete_with_the_words_of_a_text(run, files, contextual, small_vectors, sentences):
    code, _, err = run("complete", "v.npz", "--text", "text.txt", "--min-count", 30, "-m", "m", "-o", "new.npz")
    table = expected(contextual, small_vectors, None, text=sentences, min_count=30)
    assert (code, err) == (0, f"pbos: wrote new.npz: 1,500 given words and {len(table) - 1500:,} new ones x 32\n")
    assert 1600 < len(table) < 2000
    assert same("new.npz", table)
    code, _, err = run("complete", "v.npz", "--text", "text.txt", "--min-count", 10**6, "-m", "m", "-o", "x.npz")
    assert (code, err) == (0, "pbos: wrote x.npz: 1,500 given words and 0 new ones x 32\n")


def test_texts_in_parts_from_stdin_and_counted(run, files, contextual, small_vectors, sentences):
    table = expected(contextual, small_vectors, small_vectors.words[1500:1600], text=sentences)
    (files / "one.txt").write_text("\n".join(sentences[:7000]) + "\n", encoding="utf-8")
    (files / "two.txt").write_text("\n".join(sentences[7000:]), encoding="utf-8")
    assert run("count", "text.txt", "--cooccurrences", "text.counting", "-o", "counts.tsv")[0] == 0
    arguments = ["complete", "v.npz", "words.txt", "-m", "m", "-o", "new.npz"]
    for options, stdin in (
        (["--text", "one.txt", "--text", "two.txt"], None),
        (["--text", "-"], "\n".join(sentences)),
        (["--text", "text.counting"], None),
    ):
        assert run(*arguments, *options, stdin=stdin)[0] == 0
        found = pbos.WordVectors.read("new.npz")
        assert found.words == table.words
        np.testing.assert_allclose(found.vectors, table.vectors, rtol=1e-4, atol=1e-5)


def test_complete_says_what_it_left_out(run, files, contextual, small_vectors, sentences):
    (files / "few.txt").write_text("Ж\nksenoz\n", encoding="utf-8")
    code, _, err = run("complete", "v.npz", "few.txt", "--text", "text.txt", "-m", "m", "-o", "new.npz")
    assert code == 0
    assert err.splitlines()[-1] == "pbos: left out 1 of 2 words (no known subword and no context): Ж"
    options = ["--min-confidence", 0.9, "-m", "m", "-o", "new.npz"]
    code, _, err = run("complete", "v.npz", "words.txt", "--text", "text.txt", *options)
    words = small_vectors.words[1500:1600]
    table = expected(contextual, small_vectors, words, text=sentences, min_confidence=0.9)
    n_lost = 1600 - len(table)
    assert 0 < n_lost < 100
    assert f"left out {n_lost} of 100 words (no known subword and no context, or confidence below 0.9): " in err
    assert same("new.npz", table)


def test_train_with_a_text(run, files, contextual):
    assert run("train", "v.npz", "--text", "text.txt", "-o", "trained")[0] == 0
    for name in ("model.safetensors", "README.md"):
        assert (files / "trained" / name).read_bytes() == (files / "m" / name).read_bytes()
    assert pbos.load("trained").config()["contexts"] is True
    assert "contexts" in run("info", "-m", "trained")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("complete v.npz -o x.npz", "there are no words to add; give a file of words, --text, or both"),
        ("complete v.npz - --text - -o x.npz", "words and --text cannot both be read from stdin"),
        ("complete v.npz words.txt --text no.txt -o x.npz", "no.txt: no such file"),
        ("complete v.npz words.txt --text empty.txt -o x.npz", "there are no words in the text"),
        ("complete v.npz words.txt --text alone.txt -m m -o x.npz", "the text has no contexts: every word is alone"),
        ("complete v.npz words.txt --text other.txt -o x.npz", "only 0 words of the table occur 5 times in the text"),
        ("complete v.npz words.txt --text text.txt -m plain -o x.npz", "this model cannot use contexts"),
        (
            "complete v.npz words.txt --text text.txt --limit 900 -o x.npz",
            "a text needs a table of at least 1,000 words",
        ),
        ("complete v.npz words.txt --text text.txt --limit 1100 -m m -o x.npz", "limit is for training"),
        ("complete v.npz words.txt --text . -m m -o x.npz", "is not a folder of co-occurrences"),
        ("complete v.npz empty.txt --text text.txt -m m -o x.npz", "empty.txt: no words found"),
        ("complete v.npz words.txt --text text.txt -m m -o x.what", "x.what: unknown suffix .what"),
        ("complete v.npz words.txt --text text.txt --column a -m m -o x.npz", "column"),
        ("train v.npz --text no.txt -o x", "no.txt: no such file"),
        ("train v.npz --text text.txt --preset bos -o x", "text needs a model that has a confidence"),
        ("train v.npz --text text.txt --limit 900 -o x", "a text needs a table of at least 1,000 words, got 900"),
        ("train v.npz --text other.txt -o x", "only 0 words of the table occur 5 times in the text"),
    ],
)
def test_what_a_text_cannot_be(run, files, confident, arguments, message):
    for name, text in {"empty.txt": " \n\n", "alone.txt": "low\nhigh\n", "other.txt": "the cat sat\n" * 50}.items():
        (files / name).write_text(text)
    confident.save(files / "plain")
    before = {path.name for path in files.iterdir()}
    code, out, err = run(*arguments.split(), stdin="")
    assert (code, out) == (2, "")
    assert message in err.splitlines()[-1]
    assert err.startswith("pbos: ")
    assert {path.name for path in files.iterdir()} - {".stdin"} == before


def test_the_text_option_takes_a_file(run, files):
    """It was a switch before."""
    code, _, err = run("complete", "v.npz", "text.txt", "--text", "-o", "new.npz")
    assert code == 2
    assert "new.npz" in err or "--output" in err
