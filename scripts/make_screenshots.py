"""Take the screenshots of the server's page for docs/pictures: `python scripts/make_screenshots.py [DATA]`.

Needs Chromium, and the folder of evaluation data to train the model of the Arabic screenshot.
"""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

import pbos

TARGET = Path(__file__).parents[1] / "docs" / "pictures"
COLORS = 128  # enough for the page, and keeps the files small
WIDE, NARROW = 1100, 390  # pixels


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Run `pbos serve` and yield its address."""
    command = [sys.executable, "-c", "from pbos.cli import main; main()", "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def take(browser: Any, url: str, name: str, state: dict[str, str], width: int, scheme: str = "light") -> None:
    """Save a screenshot from the top of the page to the end of a card."""
    context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{url}/?{urlencode(state)}")
    page.locator("#lattice path").first.wait_for()
    page.locator("#map circle").first.wait_for()
    page.evaluate("document.activeElement.blur()")
    last = page.locator(".columns" if width == WIDE else ".columns .card").first.bounding_box()
    clip = {"x": 0, "y": 0, "width": width, "height": last["y"] + last["height"] + 16}
    image = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip))).convert("RGB")
    image.quantize(COLORS, dither=Image.Dither.NONE).save(TARGET / f"page-{name}.png", optimize=True)
    context.close()


def arabic_model(data: Path, target: Path) -> None:
    """Train a model on 6,000 Arabic words and save it."""
    folder = data / "vectors" / "selftrained-ar"
    words = (folder / "words.txt").read_text(encoding="utf-8").splitlines()[:6_000]
    vectors = np.load(folder / "vectors.npy")[:6_000].astype(np.float32)
    pbos.train((words, vectors)).save(target)


def main() -> None:
    """Take all screenshots."""
    data = Path(sys.argv[1] if len(sys.argv) > 1 else TARGET.parents[2] / "shared" / "data")
    TARGET.mkdir(exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served() as url:
            take(browser, url, "light", {"word": "unfriendliest", "other": "unkind"}, WIDE)
            take(browser, url, "dark", {"word": "penpineapplepie"}, WIDE, "dark")
            take(browser, url, "narrow", {"word": "unfriendliest"}, NARROW)
        model = Path(folder) / "Arabic"
        arabic_model(data, model)
        with served("-m", str(model)) as url:
            take(browser, url, "arabic", {"word": "والمسلمون"}, WIDE)
        browser.close()


if __name__ == "__main__":
    main()
