"""Paths and URLs: what they mean, how files are read, and what messages show of them."""

import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos.errors import FormatError, InputError, MissingExtraError, warn
from pbos.files import paths as files
from pbos.files.atomic import write_whole
from pbos.files.paths import absolute, is_remote, lines_between, read_lines, to_local_path


@pytest.fixture
def write(tmp_path):
    def write_bytes(content):
        (tmp_path / "file").write_bytes(content)
        return tmp_path / "file"

    return write_bytes


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_lines_have_numbers_and_blank_ones_are_skipped(write, end, compress):
    path = write(compress(b"\xef\xbb\xbf" + end.join([b"a b", b"", b" \t", "ä\u2028ö\x0c".encode(), b""])))
    assert read_lines(path) == [(1, "a b"), (4, "ä\u2028ö\x0c")]
    assert read_lines(path, keep_blank=True) == [(1, "a b"), (2, ""), (3, " \t"), (4, "ä\u2028ö\x0c"), (5, "")]


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"bc"]), max_size=12).map(b"".join), st.integers(0, 15))
@pytest.mark.parametrize("block", [1, 2, 100])
def test_lines_end_in_lf_crlf_or_cr_wherever_a_file_is_cut(block, data, cut):
    expected = [line.encode() for line in io.TextIOWrapper(io.BytesIO(data), newline="")]  # Python's own reader
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "BLOCK", block)
        assert list(lines_between(io.BytesIO(data))) == expected
        parts = (lines_between(io.BytesIO(data), *ends) for ends in ((0, cut), (cut, None)))
        assert [line for part in parts for line in part] == expected


@pytest.mark.parametrize("data", [b"a" * 99, b"one\n" + b"a" * 99, b"one\rtwo\r" + b"a" * 99 + b"\n"])
def test_a_line_without_an_end_is_an_error(monkeypatch, data):
    monkeypatch.setattr(files, "BLOCK", 10)
    monkeypatch.setattr(files, "MAX_LINE", 50)
    with pytest.raises(InputError, match=f"the line at byte {data.index(b'a')} has over"):
        list(lines_between(io.BytesIO(data)))


def test_encodings_are_tried_in_order(write):
    encodings = ("UTF-8", "cp1252")
    assert read_lines(write("Käse".encode()), encodings=encodings) == [(1, "Käse")]
    assert read_lines(write("Käse".encode("cp1252")), encodings=encodings) == [(1, "Käse")]
    with pytest.raises(FormatError, match=r"file, line 2: the byte 0x81 is not UTF-8 or cp1252; convert the file to"):
        read_lines(write(b"a\n\x81"), encodings=encodings)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_parts_one_after_the_other(write, compress):
    """As tools write them that work in parallel, and with zeros between them, as tapes have them."""
    parts = compress(b"one\ntwo"), bytes(4000), compress(b"\nthree\n" + b"x" * 5_000_000), bytes(4)
    assert read_lines(write(b"".join(parts))) == [(1, "one"), (2, "two"), (3, "three"), (4, "x" * 5_000_000)]
    for cut in (parts[0][:-1], parts[0] + parts[2][:-9]):
        with pytest.raises(FormatError, match=r"file: the compressed data is damaged or cut short \(its end"):
            read_lines(write(cut))


@pytest.mark.parametrize("content", [b"", b"\n \t\r\n", gzip.compress(b"", mtime=0)])
def test_a_file_without_lines(write, content):
    with pytest.raises(FormatError, match="file: the file is empty"):
        read_lines(write(content))


def test_urls_of_local_files_are_paths(write):
    path = write(b"a\n")
    assert to_local_path(path) == to_local_path(path.as_uri()) == to_local_path(Path(path.as_uri())) == path
    assert to_local_path(Path("/a b/c#d").as_uri()) == Path("/a b/c#d")
    assert read_lines(path.as_uri()) == [(1, "a")]
    assert not any(map(is_remote, ("C:/x", "c:\\x", "x", "a:b", "file:x", "/s3://x", path.as_uri())))
    assert all(map(is_remote, ("s3://b/x", Path("s3://b/x"), "simplecache::gs://b/x", "https://x", "HTTPS://x")))
    with pytest.raises(InputError, match="s3://bucket/x: must be a path on this machine, not a URL"):
        absolute(Path("s3://bucket/x"))


def test_urls_need_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r'reading from or writing to a URL .*pip install "pbos\[remote\]"'):
        pbos.load("s3://bucket/model")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_names_that_are_none(path):
    with pytest.raises(InputError, match="is not a valid name for a file or folder"), write_whole(path):
        pass


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:secret@host:8000/x", "https://***@host:8000/x"),
        ("https:/me:secret@host/x", "https:/***@host/x"),  # a Path
        ("HTTPS://me@host", "HTTPS://***@host"),
        ("https://me:secr@et@host/x", "https://***@host/x"),
        ("https://me:secr/et@host/x", "https://***@host/x"),
        ("https://me:secr#et@host/x", "https://***@host/x"),
        ("https://me:secr?et@host/x", "https://***?***"),
        ("https://host/x?X-Amz-Signature=secret&a=b", "https://host/x?***"),
        ("https://host?sig=secret%3D", "https://host?***"),
        ("'https://host/x?secret': no such file", "'https://host/x?***': no such file"),
        ("a (https://host/x?a=secret), b", "a (https://host/x?***), b"),
        ('["https://me:secret@a","https://me:secret@b/c?secret"]', '["https://***@a","https://***@b/c?***"]'),
        ("zip://a.csv::https://me:secret@host/x?secret", "zip://a.csv::https://***@host/x?***"),
        ("https://host/x?to=https://me:secret@other&sig=secret", "https://host/x?***"),
        *(
            [same, same]
            for same in (
                *("hf://owner/name@v1: no", "s3://bucket/me@home/x", "s3://bucket/*.txt", "tcp://10.0.0.1:8786"),
                *(
                    "http://[::1]:80/me@home",
                    "http://host:80/me@home",
                    "C:/me@home?",
                    "file:///home/what?",
                    "what? me@home",
                ),
            )
        ),
    ],
)
def test_no_message_shows_what_may_be_secret_in_a_url(text, shown):
    assert str(InputError(text)) == shown
    with pytest.warns(pbos.PbosWarning) as caught:
        warn(text)
    assert str(caught[0].message) == shown
