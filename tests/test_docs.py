"""What the documents say is so."""

import doctest
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import pbos

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))


@pytest.mark.parametrize("page", ["README.md", "docs/how-it-works.md"])
def test_python_sessions_give_what_they_show(page):
    results = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 0
    assert results.failed == 0


def test_readme_commands_print_what_it_shows(tmp_path):
    """Every `$ pbos ...` in README is followed by its output."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    sessions = [part.split("\n", 1) for block in blocks for part in block.split("$ ")[1:]]
    assert sessions
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for command, expected in sessions:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == expected.strip(), command


def test_cli_page_names_every_command_and_option():
    import make_cli_docs

    def names(text):
        sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
        return {section.split("\n")[0]: set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", section)) for section in sections}

    assert names((ROOT / "docs" / "cli.md").read_text(encoding="utf-8")) == names(make_cli_docs.content())


def test_public_names():
    assert pbos.__all__ == sorted(pbos.__all__)
    assert set(dir(pbos)) == {*pbos.__all__, "__version__"}
    for name in pbos.__all__:
        assert getattr(pbos, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        pbos.nonsense  # noqa: B018


def test_links_lead_somewhere():
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
        ROOT / "benchmarks" / "README.md",
    ]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("https://") or (page.parent / link).exists(), f"{page.name}: {link}"


def test_changelog_starts_with_unreleased():
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1].startswith("Unreleased")


def test_the_wheel_holds_the_model_and_the_types(tmp_path):
    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"pbos/py.typed", "pbos/data/english/model.safetensors", "pbos/data/english/config.json"} <= names
    assert not [name for name in names if "__pycache__" in name or name.startswith(("tests", "benchmarks"))]
