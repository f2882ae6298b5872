import gzip
import sys
from pathlib import Path

import pytest

import pbos
from pbos.errors import FormatError, InputError, MissingExtraError
from pbos.files import absolute, is_remote, local, read_lines


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


def test_encodings_are_tried_in_order(write):
    encodings = ("UTF-8", "cp1252")
    assert read_lines(write("Käse".encode()), encodings=encodings) == [(1, "Käse")]
    assert read_lines(write("Käse".encode("cp1252")), encodings=encodings) == [(1, "Käse")]
    with pytest.raises(FormatError, match=r"file, line 2: the byte 0x81 is not UTF-8 or cp1252; convert the file to"):
        read_lines(write(b"a\n\x81"), encodings=encodings)


@pytest.mark.parametrize("content", [b"", b"\n \t\r\n", gzip.compress(b"", mtime=0)])
def test_a_file_without_lines(write, content):
    with pytest.raises(FormatError, match="file: the file is empty"):
        read_lines(write(content))


def test_urls_of_local_files_are_paths(write):
    path = write(b"a\n")
    assert local(path) == local(path.as_uri()) == local(Path(path.as_uri())) == path
    assert local(Path("/a b/c#d").as_uri()) == Path("/a b/c#d")
    assert read_lines(path.as_uri()) == [(1, "a")]
    assert not any(map(is_remote, ("C:/x", "c:\\x", "x", "a:b", "file:x", "/s3://x", path.as_uri())))
    assert all(map(is_remote, ("s3://b/x", Path("s3://b/x"), "simplecache::gs://b/x", "https://x")))
    with pytest.raises(InputError, match="s3://bucket/x: this has to be a path on this machine, not a URL"):
        absolute(Path("s3://bucket/x"))


def test_urls_need_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    monkeypatch.delitem(sys.modules, "pbos.remote", raising=False)
    monkeypatch.delattr(pbos, "remote", raising=False)
    with pytest.raises(MissingExtraError, match=r'a path that is a URL needs .* pip install "pbos\[remote\]"'):
        pbos.load("s3://bucket/model")
