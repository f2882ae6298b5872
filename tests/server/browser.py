"""Helpers for tests of the page in a real browser: headless Chromium over a real `pbos serve`."""

import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
PATIENCE = 60_000  # milliseconds, for busy machines
sync_api.expect.set_options(timeout=PATIENCE)
ARABIC = "والمسلمون"
LONG = "pneumonoultramicroscopicsilicovolcanoconiosis"


@contextmanager
def served(*arguments):
    """Run `pbos serve`; yield the process and its address."""
    command = [sys.executable, "-c", "from pbos.cli import main; main()", "serve", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().split()[0]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()


def word_box(page):
    return page.get_by_role("textbox", name="Type any word")


def settle(page):
    """Wait until the server has answered all that the page has asked."""
    page.locator("main[aria-busy=false]").wait_for()


def drawing(page, word):
    """Wait for the drawing of a word, and for all that is shown with it; return the drawing."""
    picture = page.get_by_role("img", name=f"Segmentations of {word}:")
    picture.wait_for()
    settle(page)
    return picture


def labels(page, title):
    return page.get_by_role("region", name=title).locator("li .text > :first-child").all_inner_texts()


def everything(page):
    page.locator("#cosine").filter(has_text=re.compile(r"\d")).wait_for()
    page.locator("#map svg").wait_for()
    settle(page)
    shown = page.locator("#summary, #results, #cosine, #map, #list").all_inner_texts()
    return shown, [page.locator(f"#{box}").input_value() for box in ("word", "other", "list")]
