import builtins
import csv
import gzip
import io
import re
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_files import COMPRESS

import pbos
from pbos.errors import FormatError, InputError, MissingExtraError, PbosWarning
from pbos.tables.counts import WordCounts

# The class


def test_words_and_counts_in_order():
    counts = WordCounts(["the", "of"], [3, 2])
    assert len(counts) == 2
    assert list(counts) == [("the", 3), ("of", 2)]
    assert counts.counts.dtype == np.float64
    assert repr(counts) == "WordCounts(2 words)"


def test_equal_words_add_up_at_the_first_position():
    assert list(WordCounts(["b", "a", "b", "c", "a"], [1, 2, 3, 4, 5])) == [("b", 4), ("a", 7), ("c", 4)]


def test_the_empty_word_is_dropped():
    with pytest.warns(PbosWarning, match="dropped the empty word and its count of 4") as caught:
        counts = WordCounts(["a", "", "b", ""], [5, 1, 2, 3])
    assert list(counts) == [("a", 5), ("b", 2)]
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_masked_counts_are_not_taken_for_numbers():
    masked = np.ma.array([3, 2], mask=[0, 1])
    for make in (
        lambda: WordCounts(["a", "b"], masked),
        lambda: WordCounts(["a", "b"], masked.astype(float)),
        lambda: WordCounts(["a", "b"], [3, np.ma.masked]),
        lambda: WordCounts.of({"a": 3, "b": masked[1]}),
        lambda: pbos.Segmenter.from_counts({"a": 3, "b": np.ma.masked}),
    ):
        with pytest.raises(InputError, match="some counts are masked; fill them in, or leave out these words"):
            make()
    assert list(WordCounts(["a", "b"], np.ma.array([3, 2]))) == [("a", 3), ("b", 2)]
    with pytest.raises(InputError, match="word 1 is missing"):
        WordCounts(np.ma.array(["a", "b"], mask=[0, 1]), [3, 2])


@pytest.mark.parametrize(
    ("words", "counts", "message"),
    [
        (["a"], [1, 2], "1 words but 2 counts"),
        (["a", "b"], [1, -2], r"the count of 'b' is -2.0; expected a finite number, zero or more"),
        (["a"], [float("nan")], "the count of 'a' is nan"),
        (["a"], [float("inf")], "the count of 'a' is inf"),
        (["a"], ["1"], "counts must be a list of numbers, got shape .* dtype <U1"),
        (["a"], [[1]], "counts must be a list of numbers"),
        (["a", "b"], [0, 0], "no word has a count above zero"),
        ([], [], "no word has a count above zero"),
        ("ab", [1, 2], "expected a list of words"),
    ],
)
def test_bad_counts_are_an_error(words, counts, message):
    with pytest.raises(InputError, match=message):
        WordCounts(words, counts)


def test_from_mapping():
    assert list(WordCounts.from_mapping(Counter("abracadabra"))) == [("a", 5), ("b", 2), ("r", 2), ("c", 1), ("d", 1)]
    with pytest.raises(InputError, match="no word has a count above zero"):
        WordCounts.from_mapping({})
    with pytest.raises(InputError, match="not a str but int"):
        WordCounts.from_mapping({1: 2})


def test_the_counts_of_words():
    counts = WordCounts.from_mapping({"high": 3, "low": 0.5, "slow": 0})
    assert counts.of_words(["low", "lower", "high", "slow", "low"]).tolist() == [0.5, 0, 3, 0, 0.5]
    assert counts.of_words([]).shape == (0,)


def test_from_ranks():
    assert list(WordCounts.from_ranks(["the", "of", "and", "to"])) == [
        ("the", 1),
        ("of", 1 / 2),
        ("and", 1 / 3),
        ("to", 1 / 4),
    ]


def test_from_language():
    pytest.importorskip("wordfreq")
    counts = WordCounts.from_language("en")
    assert counts.words[0] == "the"
    assert len(counts) > 100_000
    assert list(WordCounts.from_language("en-gb")) == list(counts)
    with pytest.raises(InputError, match=r"no counts for the language 'xx'; choose one of: ar, bg, .*, zh"):
        WordCounts.from_language("xx")


def test_from_language_without_the_library(monkeypatch):
    real = builtins.__import__

    def no_wordfreq(name, *rest):
        if name == "wordfreq":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_wordfreq)
    with pytest.raises(MissingExtraError, match=r'pip install "pbos\[wordfreq\]"'):
        WordCounts.from_language("en")


def test_of_converts_what_people_have(tmp_path, monkeypatch):
    counts = WordCounts(["the", "of"], [3, 2])
    (tmp_path / "counts.tsv").write_text("the\t3\nof\t2\n")
    assert WordCounts.of(counts) is counts
    assert list(WordCounts.of({"the": 3, "of": 2})) == list(counts)
    assert list(WordCounts.of(tmp_path / "counts.tsv")) == list(counts)
    assert list(WordCounts.of(str(tmp_path / "counts.tsv"))) == list(counts)
    monkeypatch.setattr(WordCounts, "from_language", lambda code: code)
    monkeypatch.chdir(tmp_path)
    assert WordCounts.of("en") == "en"
    assert WordCounts.of("zh-hant") == "zh-hant"
    Path("de").mkdir()
    assert WordCounts.of("de") == "de"  # a folder is not a file of counts
    Path("fr").write_text("le 5\n")
    assert list(WordCounts.of("fr")) == [("le", 5)]  # but a file is


def test_of_anything_else_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"'counts.tsv' is neither a file of counts nor a language code"):
        WordCounts.of("counts.tsv")
    with pytest.raises(FileNotFoundError):
        WordCounts.of(tmp_path / "counts.tsv")
    with pytest.raises(InputError, match="word counts cannot be made from int"):
        WordCounts.of(3)


def test_normalized():
    counts = WordCounts(["Straße", "STRASSE", "e\u0301", "é"], [1, 2, 3, 4])
    assert list(counts.normalized("casefold")) == [("strasse", 3), ("é", 7)]
    assert list(counts.normalized("NFC")) == [("Straße", 1), ("STRASSE", 2), ("é", 7)]
    assert list(counts.normalized("none")) == list(counts)
    with pytest.raises(InputError, match="unknown normalization"):
        counts.normalized("upper")


# Files that are read

THE_OF = [("the", 3), ("of", 2)]


@pytest.mark.parametrize(
    "content",
    [
        "the,3\nof,2\n",
        "the\t3\nof\t2\n",
        "the 3\nof 2\n",
        "the  3 \n of \t 2",
        "   3 the\n   2 of\n",  # uniq -c
        "3\tthe\n2\tof\n",
        "3,the\n2,of\n",
        "the, 3\nof, 2\n",
        '"the","3"\n"of",2\n',
        "word,count\nthe,3\nof,2\n",
        "Word\tFreq\nthe\t3\nof\t2\n",
        "word count\nthe 3\nof 2\n",
        "count\tword\n3\tthe\n2\tof\n",
        "rank,token,count,share\n1,the,3,0.6\n2,of,2,0.4\n",
        ",word,count\n0,the,3\n1,of,2\n",  # a data frame with its index
        "mot\tnombre\nthe\t3\nof\t2\n",  # a header in another language: the first two columns
        "nombre\tmot\n3\tthe\n2\tof\n",
        "the\t3\tDET\nof\t2\tADP\n",
        "the,3\r\nof,2\r\n",
        "the,3\rof,2\r",
        "\n\nthe,3\n  \n\nof,2\n\n",
        "\ufeffthe,3\nof,2\n",
        "\ufeffword,count\r\nthe,3.0\r\nof,2e0\r\n",
        "the 3\nof 1\nof 1\n",
    ],
)
@pytest.mark.parametrize("compress", COMPRESS.values(), ids=COMPRESS)
def test_every_dialect(write, content, compress):
    assert list(WordCounts.read(write(compress(content.encode())))) == THE_OF


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        ("nan,5\ninf,4\nnull,3\ntrue,2\n1984,1\n", [("nan", 5), ("inf", 4), ("null", 3), ("true", 2), ("1984", 1)]),
        ("1e5 7\nthe 3\n", [("1e5", 7), ("the", 3)]),
        ("1984 7\n", [("1984", 7)]),
        ("1 of\n2 the\n3 a\n", [("of", 1), ("the", 2), ("a", 3)]),  # uniq -c | sort -n: not the numbers of lines
        ("9 1984\n8 the\n7 of\n", [("1984", 9), ("the", 8), ("of", 7)]),  # uniq -c, and a number is the first word
        ('",",5\n"""",4\na b,3\n', [(",", 5), ('"', 4), ("a b", 3)]),
        ('"\t5\n,\t4\nnew york\t3\n', [('"', 5), (",", 4), ("new york", 3)]),
        (", 5\n. 4\nthe 3\n", [(",", 5), (".", 4), ("the", 3)]),
        (", 5\n", [(",", 5)]),
        ("5 ,\n4 .\n", [(",", 5), (".", 4)]),
        ("{ 5\n[ 4\n", [("{", 5), ("[", 4)]),
        ("[\t5\n{\t4\n", [("[", 5), ("{", 4)]),
        ("a\u2028b\t5\n\x0c\t4\n\u3000\t3\n", [("a\u2028b", 5), ("\x0c", 4), ("\u3000", 3)]),
        ("\u00a0 5\nthe 4\n", [("\u00a0", 5), ("the", 4)]),
        ("the 0.054\nof 1.5e-3\nand .5\nto 0\n", [("the", 0.054), ("of", 0.0015), ("and", 0.5), ("to", 0)]),
        ("the 23135851162\n", [("the", 23135851162)]),
        ("rank\tword\tcount\n1\ta\t9\n2\tb\t8\n3\tc\t7\n", [("a", 9), ("b", 8), ("c", 7)]),
        ("count\tword\n1\ta\n2\tb\n3\tc\n", [("a", 1), ("b", 2), ("c", 3)]),  # its name says so
        ("1 a\n1 b\n2 c\n", [("a", 1), ("b", 1), ("c", 2)]),
    ],
)
def test_words_that_look_like_something_else(write, content, pairs):
    assert list(WordCounts.read(write(content))) == pairs


PAIRS = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(
            lambda word: word == word.strip(" \t\ufeff")
        ),
        st.integers(1, 10**15) | st.floats(1e-9, 1e9),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda pair: pair[0],
)


@settings(max_examples=200)
@given(PAIRS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_tab_and_comma_are_read_back(tmp_path_factory, pairs, end):
    path = tmp_path_factory.getbasetemp() / "counts"
    quoted = io.StringIO()
    csv.writer(quoted, quoting=csv.QUOTE_NONNUMERIC, lineterminator=end).writerows(pairs)
    tabbed = "".join(f"{word}\t{count!r}{end}" for word, count in pairs)
    for content in (quoted.getvalue(), tabbed):
        path.write_bytes(f"word\tcount{end}{content}".encode() if content is tabbed else content.encode())
        assert list(WordCounts.read(path)) == pairs


# Files with errors


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\ta\t9\n2\tb\t8\n", "line 1: the count of '1' is 'a'; .*add a header line: word,count"),  # ranks?
        ("101,a,9\n102,b,8\n", "line 1: the count of '101' is 'a'"),
        ("nr\tmot\tnombre\n1\ta\t9\n", "line 2: the count of '1' is 'a'"),
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        ("word,count\n", "line 1: expected a word and its count"),
        ("the 0\nof 0\n", "no word has a count above zero"),
        ("the\nof\n", "line 1: expected a word and its count, got: 'the'; separate them with a tab or a comma"),
        ("the\nof 5\nto 4\n", "line 1: expected a word and its count, got: 'the'"),
        ("the 5\nof -1\n", "line 2: the count of 'of' is '-1'; expected a finite number, zero or more"),
        ("the 5\n\nof nan\n", "line 3: the count of 'of' is 'nan'"),
        ("the nan\nof 5\n", "line 1: the count of 'the' is 'nan'"),
        ("the 5\nof Infinity\n", "line 2: the count of 'of' is 'Infinity'"),
        ("the 5\nof 1e999\n", "line 2: the count of 'of' is '1e999'"),
        ("the,5\nof,many\n", "line 2: the count of 'of' is 'many'"),
        ("the,5\nof,\n", "line 2: the count of 'of' is ''"),
        ("the,5\rof,x\r", "line 2: the count of 'of' is 'x'"),
        ("word,count\nthe,5\nof\n", "line 3: expected a word and its count, got: 'of'; separate them"),
        ("the\t5\na b\t4\nof 3\n", "line 3: expected a word and its count, got: 'of 3'"),
        ("the 5\nnew york 3\n", "line 2: expected a word and its count, got: 'new york 3'"),
        ('the,5\nof,4\n",3\n', """line 3: expected a word and its count, got: '",3'; .*close quotes"""),
        ("3 the\nx of\n", "line 2: the count of 'of' is 'x'"),
        (b"the 5\nof\xff 4\n", "line 2: the byte 0xff is not UTF-8; convert the file to UTF-8"),
        (b"the 5\r\nof 5\r\xff 4\n", "line 3: the byte 0xff"),
        ("the 5\n".encode("utf-16"), "is not UTF-8 text, but UTF-16 or binary; convert it to UTF-8"),
        ('{"word": "the", "count": 5}\n', "line 1: "),  # JSON
        ('["the", 5]\n["of", 4]\n', "line 1: "),
        (gzip.compress(b"the 5\n" * 99, mtime=0)[:-1], "the compressed data is damaged or cut short"),
    ],
)
def test_errors_name_the_line(write, content, message):
    path = write(content)
    with pytest.raises(FormatError, match=message) as error:
        WordCounts.read(path)
    assert str(error.value).startswith(str(path))


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        WordCounts.read(tmp_path / "none.csv")


@pytest.mark.parametrize("content", ["the\t5\n\t3\n", 'the,5\n"",1\nof,2\n,2\n'])
def test_empty_words_give_one_warning(write, content):
    with pytest.warns(PbosWarning) as caught:
        counts = WordCounts.read(write(content))
    assert "" not in counts.words
    assert [str(warning.message) for warning in caught] == ["word counts: dropped the empty word and its count of 3"]
    assert caught[0].filename == __file__


@settings(max_examples=300)
@given(st.binary(max_size=60) | st.text('a1.-, "\t\r\n[{é', max_size=60).map(str.encode))
def test_any_bytes_give_counts_or_a_clear_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PbosWarning)
        try:
            counts = WordCounts.read(path)
        except MissingExtraError:  # of zst, if it is not installed
            pass
        except FormatError as error:
            assert str(error).startswith(str(path))
            assert "\n" not in str(error)
        else:
            assert counts.counts.sum() > 0


# Real data


def test_the_unigram_list(shared_data):
    counts = WordCounts.read(shared_data / "unigram_freq.csv")
    assert len(counts) == 333_333
    assert next(iter(counts)) == ("the", 23135851162)
    assert {"null", "nan", "true"} <= set(counts.words)


@pytest.mark.parametrize("language", ["en", "ar", "vi", "zh"])
def test_counts_of_other_scripts(shared_data, language):
    path = shared_data / "vectors" / f"selftrained-{language}" / "counts.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        pairs = [line.rstrip("\n").split("\t") for line in lines]
    assert list(WordCounts.read(path)) == [(word, float(count)) for word, count in pairs]


@pytest.mark.parametrize(("name", "delimiter"), [("c.csv", ","), ("c.tsv", "\t")])
def test_the_suffix_chooses_the_separator(tmp_path, name, delimiter):
    counts = {"the": 5.0, "a,b": 4.0, 'say "so"': 3.0}
    WordCounts.of(counts).write(tmp_path / name)
    with (tmp_path / name).open(encoding="utf-8", newline="") as lines:
        quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
        header, *rows = csv.reader(lines, delimiter=delimiter, quoting=quoting)
    assert header == ["word", "count"]
    assert {word: float(count) for word, count in rows} == counts
    assert dict(WordCounts.read(tmp_path / name)) == counts


@pytest.mark.parametrize("word", ["a\tb", "a\nb", "a\r"])
def test_counts_of_words_that_would_break_the_file(tmp_path, word):
    with pytest.raises(InputError, match=re.escape(f"the word {word!r} cannot be written to a file of counts")):
        WordCounts.of({"the": 5, word: 3}).write(tmp_path / "counts.tsv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["c.parquet", "c.json", "c.xyz.gz", "c.TXT.md"])
def test_counts_are_not_written_under_the_name_of_another_format(tmp_path, name):
    """This is found before anything is counted."""
    text = (pytest.fail("the text was read") for _ in range(1))
    with pytest.raises(InputError, match=r"counts cannot be written as \.\w+; name the file .tsv or .csv"):
        pbos.count(text, tmp_path / name)
    with pytest.raises(InputError, match=r"counts cannot be written as \.\w+; name the file .tsv or .csv"):
        pbos.learn(text, counts=tmp_path / name)
    with pytest.raises(InputError, match="counts cannot be written as"):
        WordCounts.of({"the": 5}).write(tmp_path / name)
    assert not list(tmp_path.iterdir())
