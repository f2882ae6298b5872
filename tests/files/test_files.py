import errno
import gzip
import io
import os
import shutil
import signal
import stat
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pbos
from pbos.errors import FormatError, InputError, MissingExtraError, warn
from pbos.files import atomic
from pbos.files import paths as files
from pbos.files.atomic import check_target, discard, lock, remove, staging_path, sweep, write_whole, write_whole_folder
from pbos.files.paths import absolute, is_remote, lines_between, names_in, read_lines, to_local_path
from pbos.jobs.workspace import workspace

root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give files away")
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
    assert to_local_path(path) == to_local_path(path.as_uri()) == to_local_path(Path(path.as_uri())) == path
    assert to_local_path(Path("/a b/c#d").as_uri()) == Path("/a b/c#d")
    assert read_lines(path.as_uri()) == [(1, "a")]
    assert not any(map(is_remote, ("C:/x", "c:\\x", "x", "a:b", "file:x", "/s3://x", path.as_uri())))
    assert all(map(is_remote, ("s3://b/x", Path("s3://b/x"), "simplecache::gs://b/x", "https://x", "HTTPS://x")))
    with pytest.raises(InputError, match="s3://bucket/x: this has to be a path on this machine, not a URL"):
        absolute(Path("s3://bucket/x"))


def test_urls_need_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    monkeypatch.delitem(sys.modules, "pbos.files.remote", raising=False)
    monkeypatch.delattr("pbos.files.remote", raising=False)
    with pytest.raises(MissingExtraError, match=r'a path that is a URL needs .* pip install "pbos\[remote\]"'):
        pbos.load("s3://bucket/model")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_names_that_are_none(path):
    with pytest.raises(InputError, match="is not the name of a file or folder"), write_whole(path):
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
        with staging_path(target) as temporary:
            temporary.mkdir()
            (temporary / "half").write_bytes(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

    target = tmp_path / "file"
    for name in ("file", "file.gz"):
        killed(lambda name=name: die_while_writing(tmp_path / name))
    (tmp_path / ".file.0123456789ab.tmp").mkdir()  # killed before it was locked
    assert len(names_in(tmp_path)) == 3
    with staging_path(target) as temporary:  # of a process that lives
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
    assert str(raised.value).endswith(f"{tmp_path / 'file'}'")
    assert names_in(tmp_path) == set()


# Folders that others may write into -----------------------------------------------------------------------------------

REST = ".out.vec.0123456789ab.tmp"  # the name of what a killed process may have left of out.vec


@pytest.fixture
def precious(tmp_path):
    """A folder that pbos must not touch; it looks like one of its own, and a function that returns what is in it."""
    folder = tmp_path / "precious"

    def content():
        return {file.relative_to(folder): file.read_text() for file in folder.rglob("*") if file.is_file()}

    for name in (".lock", "thesis.txt", "more/data.txt"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(name)
    (tmp_path / "shared").mkdir()
    return folder, content


@posix
@pytest.mark.parametrize("kind", ["folder", "file", "dangling", "lock", "inner"])
def test_links_are_not_taken_for_what_killed_processes_leave(tmp_path, precious, kind):
    folder, content = precious
    rest, before = tmp_path / "shared" / REST, content()
    if kind in ("lock", "inner"):
        rest.mkdir()
        (rest / ".lock").symlink_to(folder / "thesis.txt") if kind == "lock" else (rest / ".lock").touch()
        (rest / "new").symlink_to(folder)
        (rest / "old").symlink_to(folder / "thesis.txt")
    else:
        rest.symlink_to({"folder": folder, "file": folder / "thesis.txt", "dangling": folder / "no"}[kind])
    with write_whole(tmp_path / "shared" / "out.vec") as stream:
        stream.write(b"new")
    sweep(tmp_path / "shared")
    assert content() == before
    assert (tmp_path / "shared" / "out.vec").read_bytes() == b"new"
    assert os.path.lexists(rest) == (kind != "inner")  # which is ours, so it is removed with its links


FILE_EVENTS = {"open", "os.rename", "os.rmdir", "os.remove", "os.scandir", "os.listdir", "os.mkdir", "fcntl.flock"}
at_event = []  # what to do before each operation on files, while it is not empty


def attack(event, arguments):
    if at_event and event in FILE_EVENTS:
        at_event[0]()


sys.addaudithook(attack)


def at_each_step(job, prepare, swap):
    """Run a job again and again; before its first operation on files, or its second and so on, call `swap`."""
    for step in range(1000):
        prepare()
        left = [step]

        def act(left=left):
            left[0] -= 1
            if left[0] == -1:
                action, at_event[:] = at_event[0], []  # swap makes such events itself
                swap()
                at_event.append(action)

        at_event.append(act)
        try:
            job()
        except (OSError, InputError):
            pass  # it may notice
        finally:
            at_event.clear()
        if left[0] >= 0:
            return step
    raise AssertionError("it does not end")


def write_file(shared):
    with write_whole(shared / "out.vec") as stream:
        stream.write(b"new")


def write_folder(shared):
    with write_whole_folder(shared / "out.vec") as fresh:
        (fresh / "file").touch()


def write_folder_again(shared):
    (shared / "out.vec").mkdir()
    (shared / "out.vec" / "file").touch()
    write_folder(shared)


def write_folder_without_exchange(shared):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic, "exchange", lambda first, second: False)
        write_folder_again(shared)


def remove_folder(shared):
    (shared / "job").mkdir()
    (shared / "job" / "file").touch()
    remove(shared / "job")


def work(shared):
    with workspace(shared / "job", dict) as here:
        here.forget(here.keep("array", here.empty("empty", (3,), "f4")))


@posix
@pytest.mark.parametrize("by", ["link", "folder"])
@pytest.mark.parametrize("what", [".*.tmp", "job", "out.vec"])
@pytest.mark.parametrize(
    "job", [write_file, write_folder, write_folder_again, write_folder_without_exchange, remove_folder, work]
)
def test_a_folder_swapped_for_another_at_each_step(tmp_path, precious, job, what, by):
    """Somebody else who may rename things there puts a link to your folder, or the folder itself, in their place."""
    folder, content = precious
    shared, stolen, before = tmp_path / "shared", tmp_path / "stolen", content()
    swaps = []

    def prepare():
        shutil.rmtree(shared)
        shutil.rmtree(stolen, ignore_errors=True)
        (shared / REST / "new").mkdir(parents=True)  # of a process that was killed
        (shared / REST / ".lock").touch()

    def swap():
        for found in shared.glob(what):
            stolen.mkdir()
            found.rename(stolen / "was")
            found.symlink_to(folder) if by == "link" else shutil.copytree(folder, found)
            swaps.append(found)
            break

    def checked():
        try:
            job(shared)
        finally:
            at_event.clear()
            copies = [found for found in tmp_path.rglob("thesis.txt") if not found.is_relative_to(folder)]
            assert content().items() >= before.items()
            if by == "folder" and swaps and what == ".*.tmp":
                assert any((copy.parent / "more" / "data.txt").exists() for copy in copies)
            swaps.clear()

    steps = at_each_step(checked, prepare, swap)
    assert steps > 10


@posix
@pytest.mark.parametrize("how", ["of another user", "looks so"])
def test_what_another_user_owns_is_left_alone(tmp_path, monkeypatch, how):
    rest = tmp_path / REST
    (rest / "new").mkdir(parents=True)
    (rest / ".lock").touch()
    if how == "of another user":
        if os.geteuid():
            pytest.skip("only root can give files away")
        os.chown(rest, 12345, -1)
    else:
        fstat = os.fstat

        def of_another(handle):
            found = fstat(handle)
            return os.stat_result([*found[:4], found.st_uid + stat.S_ISDIR(found.st_mode), *found[5:]])

        monkeypatch.setattr(os, "fstat", of_another)
    sweep(tmp_path)
    discard(rest)
    assert names_in(rest) == {".lock", "new"}
    with lock(rest) as handle, pytest.raises(InputError, match="belongs to another user; choose another folder, or"):
        atomic.check_owner(rest, handle)


@posix
def test_a_folder_of_parts_that_has_only_hidden_files_is_not_removed(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").write_text("mine")
    refused = pytest.raises(InputError, match="home has other content than the parts of a job")
    with refused, workspace(tmp_path / "home", dict):
        pass
    assert names_in(tmp_path / "home") == {".bashrc"}


@posix
def test_what_has_no_descriptors_of_folders_is_as_safe(tmp_path, precious, monkeypatch):
    """As Windows, where links that somebody has put there are not followed either."""
    folder, content = precious
    shared, before = tmp_path / "shared", content()
    monkeypatch.setattr(sys, "platform", "win32")
    (shared / REST).symlink_to(folder)
    for job in (write_file, remove_folder):
        job(shared)
    (shared / "out.vec").unlink()
    write_folder_again(shared)
    discard(shared / REST)
    assert content() == before
    assert names_in(shared) == {"out.vec", REST}


@posix
def test_the_lock_of_a_folder_is_no_link_and_no_program(tmp_path):
    with staging_path(tmp_path / "file") as temporary:
        assert stat.S_IMODE((temporary.parent / ".lock").stat().st_mode) & 0o111 == 0
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / ".lock").symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match="symbolic links") as raised, lock(tmp_path / "job"):
        pass
    assert raised.value.filename == str(tmp_path / "job" / ".lock")
    assert not (tmp_path / "made").exists()
    (tmp_path / "link").symlink_to(tmp_path / "job")
    with pytest.raises(NotADirectoryError), lock(tmp_path / "link"):
        pass


# Permissions ----------------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444, 0o755])
def test_a_file_keeps_its_permissions(tmp_path, mode):
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(mode)
    with write_whole(tmp_path / "file") as stream:
        (new,) = tmp_path.glob(".*.tmp/new")
        assert stat.S_IMODE(new.stat().st_mode) == mode
        stream.write(b"secret")
    assert (tmp_path / "file").read_bytes() == b"secret"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


@posix
def test_a_folder_keeps_its_permissions(tmp_path):
    target = tmp_path / "folder"
    for turn in range(2):
        with write_whole_folder(target) as folder:
            assert turn == 0 or stat.S_IMODE(folder.stat().st_mode) == 0o700
            (folder / "file").write_text(f"{turn}")
            (folder / "other").touch()
        if turn == 0:
            fresh = (target / "other").stat().st_mode
            target.chmod(0o700)
            (target / "file").chmod(0o600)
    assert (target / "file").read_text() == "1"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (target, target / "file", target / "other")]
    assert modes == [0o700, 0o600, stat.S_IMODE(fresh)]


@root
def test_a_file_keeps_its_group(tmp_path):
    (tmp_path / "file").touch(0o640)
    os.chown(tmp_path / "file", -1, 12345)
    with write_whole(tmp_path / "file"):
        pass
    assert (tmp_path / "file").stat().st_gid == 12345


@root
def test_another_group_gets_no_more_than_others(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "fchown", refuse)
    for before, after in ((0o640, 0o600), (0o664, 0o644), (0o666, 0o666)):
        (tmp_path / "file").touch()
        (tmp_path / "file").chmod(before)
        os.chown(tmp_path / "file", -1, 12345)
        with write_whole(tmp_path / "file"):
            pass
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == after


@root
def test_the_file_of_another_user_opens_nothing(tmp_path):
    """One that everybody may write would let them change what root has written."""
    for before, after in ((0o666, 0o644), (0o600, 0o600)):
        (tmp_path / "file").touch()
        (tmp_path / "file").chmod(before)
        os.chown(tmp_path / "file", 12345, 0)
        with write_whole(tmp_path / "file"):
            pass
        assert (tmp_path / "file").stat().st_uid == 0
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == after


@posix
def test_a_file_keeps_its_access_list(tmp_path):
    """Its mode says 0640 if one other user may read it; without the list, that would be everybody of the group."""
    entries = [(1, 6, 0xFFFFFFFF), (2, 4, 12345), (4, 0, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF)]
    access = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    (tmp_path / "file").touch()
    try:
        os.setxattr(tmp_path / "file", "system.posix_acl_access", access)
    except (AttributeError, OSError):
        pytest.skip("no access lists here")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    with write_whole(tmp_path / "file"):
        pass
    assert os.getxattr(tmp_path / "file", "system.posix_acl_access") == access


# Long names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n" * 250, "n" * 255, "東" * 85, "n" * 251 + ".vec"])
def test_long_names(tmp_path, name):
    try:
        (tmp_path / name).touch()
    except OSError:
        pytest.skip("this disk has no such names")
    (tmp_path / name).unlink()
    if sys.platform != "win32":
        killed(lambda: write_half(tmp_path / name))
        assert len(names_in(tmp_path)) == 1
    with write_whole(tmp_path / name) as stream:
        stream.write(b"content")
    assert (tmp_path / name).read_bytes() == b"content"
    remove(tmp_path / name)
    with write_whole_folder(tmp_path / name) as folder:
        (folder / "file").touch()
    assert names_in(tmp_path) == {name}


def write_half(target):
    with write_whole(target) as stream:
        stream.write(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


def test_too_long_a_name_is_found_before_the_work(tmp_path):
    for write in (write_whole, write_whole_folder):
        with pytest.raises(OSError, match=r"(?i)name too long|cannot find|incorrect"), write(tmp_path / ("n" * 256)):
            pytest.fail("it began")
    assert names_in(tmp_path) == set()
