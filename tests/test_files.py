import errno
import gzip
import io
import os
import signal
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos import atomic, files
from pbos.atomic import check_target, hidden, write_whole, write_whole_folder
from pbos.errors import FormatError, InputError, MissingExtraError
from pbos.files import absolute, is_remote, lines_between, local, names_in, read_lines

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes in folders, locks or SIGKILL")


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


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_names_that_are_none(path):
    with pytest.raises(InputError, match="is not the name of a file or folder"), write_whole(path):
        pass


# Writing --------------------------------------------------------------------------------------------------------------


@posix
def test_a_folder_that_may_not_be_written_is_found_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)  # root may write anywhere
    (tmp_path / "open").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "open" / "new")
    os.mkfifo(tmp_path / "pipe")
    for path in ("open/new", "link", "open", "pipe"):
        check_target(tmp_path / path)
    with pytest.raises(InputError, match=r"new\.vec cannot be written: no permission to write in"):
        check_target(tmp_path / "new.vec")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written: its folder does not exist"):
        check_target(tmp_path / "file" / "new.vec")
    with pytest.raises(InputError, match="cannot be written: no permission"):
        pbos.learn(["the cat sat"] * 9, counts=tmp_path / "counts.tsv", vectors=tmp_path / "open" / "v.vec")
    assert not list((tmp_path / "open").iterdir())


@posix
@pytest.mark.parametrize("name", ["pipe", "pipe.gz"])
def test_a_pipe_is_written_into(tmp_path, name):
    pipe, got = tmp_path / name, []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    with write_whole(pipe) as stream:
        stream.write(b"high\n" * 100_000)
    reader.join()
    assert (gzip.decompress(got[0]) if name == "pipe.gz" else got[0]) == b"high\n" * 100_000
    assert stat.S_ISFIFO(pipe.stat().st_mode) and names_in(tmp_path) == {name}


@posix
def test_a_device_is_written_into(tmp_path):
    try:
        for name, minor in (("null", 3), ("full", 7)):
            os.mknod(tmp_path / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            (tmp_path / name).open("wb").close()
    except OSError:
        pytest.skip("only root can make devices, and not everywhere")
    with write_whole(tmp_path / "null") as stream:
        stream.write(b"lost")
    with pytest.raises(OSError, match="No space left on device") as raised, write_whole(tmp_path / "full") as stream:
        stream.write(b"too much")
    assert raised.value.filename == str(tmp_path / "full")
    assert all(stat.S_ISCHR(path.stat().st_mode) for path in tmp_path.iterdir())


@posix
def test_an_open_descriptor_is_written_into(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        log.write(b"first\n")
        log.flush()
        with write_whole(f"/dev/fd/{log.fileno()}") as stream:
            stream.write(b"second\n")
    assert (tmp_path / "log").read_bytes() == b"first\nsecond\n"


@posix
def test_links_are_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"before")
    for link, target in {"one": "elsewhere/file", "two": "one", "new": "elsewhere/other", "loop": "loop"}.items():
        (tmp_path / link).symlink_to(target)
    for link, name in {"one": "file", "two": "file", "new": "other"}.items():
        with write_whole(tmp_path / link) as stream:
            stream.write(link.encode())
        assert (tmp_path / link).is_symlink()
        assert (tmp_path / "elsewhere" / name).read_bytes() == link.encode()
    with pytest.raises(OSError, match="symbolic links") as raised, write_whole(tmp_path / "loop"):
        pass
    assert raised.value.errno == errno.ELOOP
    assert names_in(tmp_path / "elsewhere") == {"file", "other"}


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    with pytest.raises(IsADirectoryError), write_whole(tmp_path):
        pass


@pytest.mark.parametrize("can_exchange", [True, False])
def test_folders_written_at_once(tmp_path, monkeypatch, can_exchange):
    """All succeed, one wins, and it is whole."""
    if not can_exchange:
        monkeypatch.setattr(atomic, "exchange", lambda first, second: False)

    def write(number):
        barrier.wait()
        with write_whole_folder(target) as folder:
            for name in "abc":
                (folder / name).write_text(str(number))

    barrier = threading.Barrier(6)
    with ThreadPoolExecutor(6) as threads:
        for attempt in range(20):
            target = tmp_path / f"target{attempt}"
            list(threads.map(write, range(6)))
            assert len({path.read_text() for path in target.iterdir()}) == 1
            assert names_in(target) == {"a", "b", "c"}
    assert len(names_in(tmp_path)) == 20


def killed(action):
    """Run something in another process, which kills itself at the end."""
    if not (child := os.fork()):
        try:
            action()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@posix
def test_what_killed_processes_leave_is_removed(tmp_path):
    def die_while_writing(target):
        with hidden(target) as temporary:
            temporary.mkdir()
            (temporary / "half").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

    target = tmp_path / "file"
    for name in ("file", "file.gz"):
        killed(lambda name=name: die_while_writing(tmp_path / name))
    (tmp_path / ".file.0123456789ab.tmp").mkdir()  # killed before it was locked
    assert len(names_in(tmp_path)) == 3
    with hidden(target) as temporary:  # of a process that lives
        temporary.write_bytes(b"still there")
        with write_whole(target) as stream:
            stream.write(b"new")
        assert temporary.read_bytes() == b"still there"
        assert len(names_in(tmp_path)) == 3
    assert target.read_bytes() == b"new"
    with write_whole(tmp_path / "file.gz"):
        pass
    assert names_in(tmp_path) == {"file", "file.gz"}


@posix
def test_a_folder_that_was_moved_away_comes_back(tmp_path, monkeypatch):
    """Where folders cannot be exchanged, a process may be killed when the old one is gone and the new one not there."""
    target = tmp_path / "folder"

    def write(content):
        with write_whole_folder(target) as folder:
            (folder / "file").write_text(content)

    def die_in_between():
        monkeypatch.setattr(atomic, "exchange", lambda first, second: False)
        monkeypatch.setattr(atomic.shutil, "rmtree", lambda *_, **__: None)
        moves = iter([None, None, lambda: os.kill(os.getpid(), signal.SIGKILL)])
        rename = Path.rename
        monkeypatch.setattr(Path, "rename", lambda self, other: (next(moves) or (lambda: rename(self, other)))())
        write("new")

    write("old")
    killed(die_in_between)
    assert not target.exists()
    atomic.sweep(tmp_path)
    assert (target / "file").read_text() == "old" and names_in(tmp_path) == {"folder"}


@posix
def test_a_folder_that_was_made_again_is_not_swept(tmp_path, monkeypatch):
    """Two processes sweep what a third has just made: it makes it anew while the second one waits for the lock."""
    folder = tmp_path / ".file.0123456789ab.tmp"
    folder.mkdir()
    (folder / atomic.LOCK).touch()
    flock = atomic.fcntl.flock

    def late(handle, how):
        (folder / atomic.LOCK).rename(tmp_path / "swept")
        (folder / atomic.LOCK).touch()
        flock(handle, how)

    monkeypatch.setattr(atomic.fcntl, "flock", late)
    atomic.sweep(tmp_path)
    assert (folder / atomic.LOCK).exists()


@posix
def test_a_new_name_is_synced_too(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (fsync(handle), synced.append(os.fstat(handle).st_ino)))
    with write_whole(tmp_path / "file") as stream:
        stream.write(b"content")
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]
    synced.clear()
    with write_whole_folder(tmp_path / "folder") as folder:
        (folder / "file").write_bytes(b"content")
    places = (tmp_path / "folder" / "file", tmp_path / "folder", tmp_path)
    assert synced == [place.stat().st_ino for place in places]


@pytest.mark.parametrize("place", ["open", "write"])
def test_a_full_disk_names_the_file(tmp_path, monkeypatch, place):
    def fail(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left") as raised, write_whole(tmp_path / "file") as stream:
        fail() if place == "write" else monkeypatch.setattr(os, "fsync", fail)
        stream.write(b"content")
    assert raised.value.filename == str(tmp_path / "file")
    assert names_in(tmp_path) == set()
