"""Files and folders are written completely or not at all, and keep their permissions."""

import errno
import gzip
import os
import signal
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import pbos
from pbos.errors import InputError
from pbos.files import atomic
from pbos.files.atomic import check_target, remove, staging_path, write_whole, write_whole_folder
from pbos.files.paths import names_in

root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give files away")
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes in folders, locks or SIGKILL")


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
            assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
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
def test_another_group_gets_no_more_than_others(tmp_path):
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


# Long names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["n" * 237, "東" * 79, "n" * 233 + ".vec"])
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
        with pytest.raises(OSError, match=r"(?i)name too long|cannot find|incorrect"), write(tmp_path / ("n" * 238)):
            pytest.fail("it began")
    assert names_in(tmp_path) == set()
