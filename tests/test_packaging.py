"""The distributions: the same bytes wherever and whenever they are built."""

import os
import tarfile
from pathlib import Path

from places import ROOT


def built(root, folder):
    """Build an sdist and a wheel; return their names and bytes."""
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    builders = SdistBuilder(str(root)), WheelBuilder(str(root))
    made = [Path(path) for builder in builders for path in builder.build(directory=str(folder))]
    return {path.name: path.read_bytes() for path in made}


def test_an_unpacked_sdist_builds_the_same_sdist_and_wheel(tmp_path, monkeypatch):
    first = built(ROOT, tmp_path / "first")
    (sdist,) = (tmp_path / "first").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path)
    root = tmp_path / sdist.name.removesuffix(".tar.gz")
    for path in root.rglob("*"):  # another time, other permissions
        os.utime(path, (1.7e9, 1.7e9))
        path.chmod(path.stat().st_mode & 0o700)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second = built(root, tmp_path / "second")
    assert sorted(first) == sorted(second) and len(first) == 2
    for name, content in first.items():
        assert second[name] == content, name
