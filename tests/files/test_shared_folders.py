"""Folders that others may write into: no link is followed, and nothing of others is removed."""

import os
import shutil
import stat
import sys

import pytest

from pbos.errors import InputError
from pbos.files import atomic
from pbos.files.atomic import discard, lock, remove, staging_path, sweep, write_whole, write_whole_folder
from pbos.files.paths import names_in
from pbos.jobs.workspace import workspace

root = pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give files away")
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes in folders, locks or SIGKILL")


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
    refused = pytest.raises(InputError, match="home contains files other than the parts of a job")
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
