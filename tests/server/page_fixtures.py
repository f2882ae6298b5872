"""Fixtures for tests of the page: a browser, a server, and what looks at both."""

import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from browser import PATIENCE, served, sync_api
from places import ROOT, skip_or_fail

import pbos


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium; without it these tests are skipped, but fail with PBOS_REQUIRE_DATA=1."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        skip_or_fail(
            "no Chromium; install it to run this test: apt-get install chromium fonts-noto-core fonts-noto-cjk"
        )
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def url():
    with served("--port", 0) as (_, url):
        yield url


@pytest.fixture(scope="module")
def model():
    return pbos.load()


@pytest.fixture
def visit(browser):
    """Open addresses in separate windows; fail if any window logs an error or contacts another server."""
    contexts, complaints, asked = [], [], []

    def visit(address, before=lambda page: None, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        before(page)
        page.goto(address)
        page.server = "{0.scheme}://{0.netloc}/".format(urlsplit(address))
        return page

    yield visit
    servers = {page.server for context in contexts for page in context.pages if hasattr(page, "server")}
    for context in contexts:
        context.close()
    assert asked and all(any(address.startswith(server) for server in servers) for address in asked), asked
    # The browser itself logs requests that failed; anything else is a bug of the page.
    assert [text for text in complaints if "Failed to load resource" not in text] == []


@pytest.fixture(scope="module")
def axe():
    """The source of axe-core, which checks pages for accessibility; .ci/run installs it."""
    places = [Path(os.environ.get("PBOS_AXE", "")), ROOT / ".axe" / "node_modules" / "axe-core" / "axe.min.js"]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        skip_or_fail("no axe-core; install it to run this test: npm install --no-save --prefix .axe axe-core")
    return found.read_text(encoding="utf-8")
