"""The page by keyboard, in narrow windows, in light and dark mode, from right to left; the documentation of the API."""

import re
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from browser import ARABIC, LONG, drawing, everything, labels, served, settle, sync_api, word_box
from samples import topical_sentences

import pbos

pytest_plugins = ["page_fixtures"]


# -- everybody ---------------------------------------------------------------------------------------------------------


def test_by_keyboard_alone(visit, url, model):
    page = visit(url)
    drawing(page, "unfriendliest")

    def focused():
        code = "document.activeElement === document.body ? null : one.textContent || one.id"
        return page.evaluate(f"(one => {code})(document.activeElement)")

    assert focused() == "word"  # ready to type
    page.keyboard.press("Control+A")
    page.keyboard.type("higher")
    drawing(page, "higher")
    seen = []
    while focused():  # until focus leaves the page
        seen.append(focused())
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", f"the focus on {focused()} is invisible"
        page.keyboard.press("Tab")
    near = [word for word, _ in model.neighbors("higher")]
    weights = f"Show all {len(model.weights('higher'))}"
    wanted = ["word", "Copy link", "unfriendliest", *near, weights, "other", "list", "Add “higher”", "The map as text"]
    wanted += ["Download CSV", "king"]
    left = iter(seen)
    assert all(name in left for name in wanted), seen  # in page order
    for _ in seen:
        page.keyboard.press("Shift+Tab")
        if focused() == near[1]:
            break
    page.keyboard.press("Enter")
    drawing(page, near[1])
    page.keyboard.press("/")
    assert focused() == "word"
    page.keyboard.type("lower")  # replaces the old word
    drawing(page, "lower")


def test_controls_have_accessible_names(visit, url):
    page = visit(url)
    drawing(page, "unfriendliest")
    unnamed = page.eval_on_selector_all(
        "input, textarea, button, a, output",
        "all => all.filter(one => !(one.labels?.length || one.textContent.trim() || one.hidden)).map(one => one.id)",
    )
    assert unnamed == ["cosine"]  # its name is its content
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("heading", level=2).count() == 7
    assert page.locator("#summary").get_attribute("aria-live") == "polite"
    assert page.locator("#map svg").get_attribute("aria-label").startswith("Map of 19 words: king is nearest to ")
    assert page.locator("html").get_attribute("lang") == "en"


@pytest.mark.parametrize("width", [320, 390])
def test_a_narrow_window_does_not_scroll_sideways(visit, url, width):
    page = visit(url, viewport={"width": width, "height": 700}, has_touch=True, is_mobile=True)
    for word in ("unfriendliest", LONG, "x" * 200):
        word_box(page).fill(word)
        drawing(page, word)
        page.get_by_role("textbox", name="Another word").fill(word)
        sync_api.expect(page.locator("#in-second")).to_have_text(word)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        left, right = page.eval_on_selector(
            "#lattice svg", "e => [e.getBoundingClientRect().left, e.getBoundingClientRect().right]"
        )
        scrolled = page.locator("#lattice").get_attribute("tabindex") == "0"  # with the keyboard too
        assert scrolled or (left >= 0 and right <= width)
        assert scrolled == (len(word) > 20)


def luminance(color):
    """Relative luminance, as WCAG 2 defines it."""
    values = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(page, selector):
    ink, paper = page.eval_on_selector(
        selector,
        """one => {
          let box = one;
          while (getComputedStyle(box).backgroundColor === "rgba(0, 0, 0, 0)") box = box.parentElement;
          const ink = getComputedStyle(one);
          return [one instanceof SVGElement ? ink.fill : ink.color, getComputedStyle(box).backgroundColor];
        }""",
    )
    light, dark = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (light + 0.05) / (dark + 0.05), luminance(paper)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_mode_are_readable(visit, url, scheme):
    page = visit(url, color_scheme=scheme)
    drawing(page, "unfriendliest")
    page.locator("#map text").first.wait_for()
    for selector in ("#summary", "#summary b", ".note", ".hint", "#word", ".value", "#neighbors a", ".about", "#copy"):
        ratio, paper = contrast(page, selector)
        assert ratio >= 4.5, selector  # WCAG 2, level AA
        assert (paper > 0.5) == (scheme == "light")
    for selector in ("#lattice .letter", "#lattice .label.best", "#map text"):
        assert contrast(page, selector)[0] >= 4.5, selector


def check_accessibility(page, axe):
    """Fail if axe-core finds a violation of WCAG 2.2, levels A and AA, or of its best practices."""
    page.wait_for_function("document.getAnimations().length === 0")  # results that come late fade in
    page.evaluate(axe)
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    options = {"runOnly": {"type": "tag", "values": tags}, "resultTypes": ["violations", "incomplete"]}
    report = page.evaluate("options => axe.run(document, options)", options)
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in report["violations"]] == []
    assert len(report["passes"]) > 30
    unsure = {rule["id"] for rule in report["incomplete"]}
    assert unsure <= {"color-contrast"}  # of single letters and of letters over arcs; see the test of contrasts above


def test_axe_finds_nothing(visit, url, axe):
    page = visit(f"{url}/?word=unfriendliest&other=unkind&subword=est%3E")
    drawing(page, "unfriendliest")
    everything(page)
    page.locator("#sharing a").first.wait_for()
    page.locator("#download:enabled").wait_for()
    page.get_by_text("The map as text").click()
    for width, scheme in ((1200, "light"), (1200, "dark"), (390, "light"), (320, "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        check_accessibility(page, axe)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_finds_nothing_where_things_go_wrong_and_in_the_documentation(visit, url, axe):
    page = visit(f"{url}/?word=東京&other=שלום&map=")
    page.get_by_text("The model knows no subword").wait_for()
    settle(page)
    check_accessibility(page, axe)
    word_box(page).fill("a" * 201)
    page.get_by_role("alert").wait_for()
    settle(page)
    check_accessibility(page, axe)
    docs = visit(f"{url}/docs")
    docs.get_by_role("heading", name="POST /embed").wait_for()
    check_accessibility(docs, axe)


# -- a right-to-left model ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arabic(shared_data, tmp_path_factory):
    """A model of Arabic words."""
    folder = shared_data / "vectors" / "selftrained-ar"
    words = (folder / "words.txt").read_text(encoding="utf-8").splitlines()[:6000]
    vectors = np.load(folder / "vectors.npy", mmap_mode="r")[:6000].astype(np.float32)
    place = tmp_path_factory.mktemp("models") / "arabic"
    text = place.with_suffix(".txt")
    text.write_text("\n".join(topical_sentences(pbos.WordVectors(words, vectors), 6000)), encoding="utf-8")
    pbos.train((words, vectors), text=text, lam=0.1).save(place)
    return place


def test_arabic_reads_from_right_to_left(visit, arabic, axe):
    model = pbos.load(arabic)
    assert ARABIC not in model and model.coverage(ARABIC) == 1
    with served("-m", arabic, "--port", 0) as (_, url):
        page = visit(f"{url}/?word={quote(ARABIC)}")
        picture = drawing(page, ARABIC)
        assert page.locator("#about").inner_text() == "arabic: 6,000 words, 64 dimensions"
        examples = page.locator("#examples a").all_inner_texts()
        assert len(examples) == 5 and not any(word in model for word in examples)
        letters = page.eval_on_selector_all(
            "#lattice .letter", "all => all.map(one => [one.textContent, one.getBoundingClientRect().x])"
        )
        assert [letter.strip("\u200d") for letter, _ in letters] == list(ARABIC)
        at = [x for _, x in letters]
        assert at == sorted(at, reverse=True)
        assert picture.locator("path:not(.best)").count() > 0  # a real lattice
        best = model.segment(ARABIC)[0]
        assert labels(page, "Segmentations")[0] == "/".join(best.pieces)
        # The first piece is at the right, and bars grow from there.
        pieces = page.eval_on_selector_all(
            "#segmentations li:first-child .pieces bdi", "all => all.map(one => one.getBoundingClientRect().x)"
        )
        assert pieces == sorted(pieces, reverse=True) and len(pieces) == len(best.pieces)
        bar, track = (page.locator(f"#weights li:nth-child(4) {part}").bounding_box() for part in (".fill", ".track"))
        assert bar["x"] + bar["width"] == pytest.approx(track["x"] + track["width"], abs=1)
        assert bar["x"] > track["x"] + 1
        assert labels(page, "Nearest words") == [word for word, _ in model.neighbors(ARABIC)]
        value, list_ = (page.locator(f"#neighbors {part}").first.bounding_box() for part in (".value", "li"))
        assert value["x"] == pytest.approx(list_["x"], abs=1)  # at the end of its line
        contexts = page.get_by_label("Sentences with the word")
        page.get_by_role("button", name="Copy link").focus()
        while page.evaluate("document.activeElement.tagName") != "TEXTAREA":  # the examples, then the sentences
            page.keyboard.press("Tab")
        page.keyboard.type(f"{model.words[700]} {ARABIC} {model.words[800]}")
        page.locator("#telling li").first.wait_for()
        assert contexts.evaluate("one => document.activeElement === one")
        bar, track = (page.locator(f"#telling li:last-child {part}").bounding_box() for part in (".fill", ".track"))
        assert bar["x"] + bar["width"] == pytest.approx(track["x"] + track["width"], abs=1)
        query = urlencode({"word": ARABIC, "contexts": contexts.input_value(), "other": "المسلمين"})
        narrow = visit(f"{url}/?{query}", viewport={"width": 360, "height": 700})
        drawing(narrow, ARABIC)
        everything(narrow)
        assert narrow.locator("#mixture").is_visible()
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 360
        for one, scheme in ((page, "light"), (narrow, "light"), (page, "dark")):
            one.locator("#download:enabled").wait_for()
            one.emulate_media(color_scheme=scheme)
            check_accessibility(one, axe)


# -- the documentation of the API --------------------------------------------------------------------------------------


def test_the_documentation_works_offline(visit, url, model):
    page = visit(f"{url}/docs")
    page.get_by_role("heading", name="POST /embed").wait_for()
    spec = page.request.get(f"{url}/openapi.json").json()
    headings = page.get_by_role("heading", level=3).all_inner_texts()
    assert sorted(headings) == sorted(f"{m.upper()} {path}" for path, methods in spec["paths"].items() for m in methods)
    page.get_by_role("button", name="Try it: GET /segment").click()
    best = model.segment("unfriendliest")[0]
    page.get_by_text(f'"pieces":{list(best.pieces)}'.replace("'", '"').replace(" ", "")).wait_for()
    page.get_by_role("button", name="Try it: POST /similarity").click()
    page.get_by_text(f'"cosine":{model.similarity(["king"], ["queen"]).tolist()[0]}').wait_for()
