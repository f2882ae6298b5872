"""The page, in a real browser, shows what the model's methods return."""

import csv
import re
import socket
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest
from browser import ARABIC, drawing, everything, labels, served, settle, sync_api, word_box

import pbos
from pbos.words.text import pack_strings

pytest_plugins = ["page_fixtures"]


# -- looking at a word -------------------------------------------------------------------------------------------------


def test_type_a_word_and_see_it_explained(visit, url, model):
    page = visit(url)
    word_box(page).fill("unkindliest")
    picture = drawing(page, "unkindliest")
    explanation = model.explain("unkindliest", 10)
    assert picture.get_attribute("aria-label") in explanation.svg()
    assert picture.locator("path").count() == explanation.svg().count("<path")
    assert picture.locator("path.best").count() == explanation.svg().count('<path class="best"')
    assert labels(page, "Segmentations") == ["/".join(one.pieces) for one in explanation.segmentations]
    assert labels(page, "Subword weights") == [subword for subword, _ in explanation.weights[:10]]
    assert labels(page, "Nearest words") == [word for word, _ in explanation.neighbors]
    values = page.get_by_role("region", name="Nearest words").locator(".value").all_inner_texts()
    assert values == [f"{cosine:.3f}" for _, cosine in explanation.neighbors]
    assert page.locator("#coverage").inner_text() == f"{explanation.coverage:.0%}"
    assert page.locator("#entropy").inner_text() == f"{explanation.entropy:.2f}"
    assert " / ".join(explanation.segmentations[0].pieces) in page.locator("#summary").inner_text()
    # The length of a bar is its share.
    widths = page.eval_on_selector_all("#segmentations .fill", "all => all.map(one => parseFloat(one.style.width))")
    assert widths == pytest.approx([100 * one.probability for one in explanation.segmentations], abs=1e-3)
    page.get_by_role("button", name=f"Show all {len(explanation.weights)}").click()
    assert labels(page, "Subword weights") == [subword for subword, _ in explanation.weights]


def test_the_confidence_of_a_model_that_has_one(visit, confident, small_vectors, tmp_path):
    confident.save(tmp_path / "model")
    with served("-m", tmp_path / "model", "--port", 0) as (_, url):
        for width in (320, 1200):
            page = visit(url, viewport={"width": width, "height": 700})
            for word in (small_vectors.words[1502], small_vectors.words[0]):
                word_box(page).fill(word)
                drawing(page, word)
                confidence = confident.confidence(word)
                assert page.locator("#confidence").inner_text() == f"{confidence:.2f}"
                bar, track = (page.locator(f"#trust {part}").bounding_box() for part in (".fill", ".track"))
                expected = max(confidence * track["width"], 2)  # so that it can be seen
                assert bar["width"] == pytest.approx(expected, abs=1)
            assert "expected cosine" in page.locator("#trust").get_attribute("title")
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture(scope="module")
def with_contexts(contextual, tmp_path_factory):
    """The address of a server whose model can use contexts."""
    folder = tmp_path_factory.mktemp("models") / "contextual"
    contextual.save(folder)
    with served("-m", folder, "--port", 0) as (_, url):
        yield url


def test_sentences_in_which_a_word_occurs(visit, with_contexts, contextual, sentences, small_vectors):
    word, known = small_vectors.words[1503], small_vectors.words[0]
    some = [line for line in sentences if word in line.split()][:3]
    page = visit(f"{with_contexts}/?word={quote(word)}")
    drawing(page, word)
    box, note = page.get_by_label("Sentences with the word"), page.locator("#contexts-note")
    card = "Spelling and contexts"
    assert page.get_by_role("region", name=card).count() == 0
    without = page.locator("#confidence").inner_text()
    assert without == f"{contextual.confidence(word):.2f}"
    box.fill("\n".join([*some, "", "nothing of it"]))
    page.get_by_role("region", name=card).wait_for()
    settle(page)
    sync_api.expect(note).to_have_text("Used: 3 of 4. The others do not contain the word.")
    explained = contextual.explain(word, contexts=some)
    assert page.locator("#confidence").inner_text() == f"{explained.confidence:.2f}" != without
    assert labels(page, "Nearest words") == [near for near, _ in explained.neighbors]
    share = explained.context_share
    shown = page.locator("#sources .text").all_inner_texts()
    expected = [f"Spelling{100 * (1 - share):.1f}%", f"Contexts{100 * share:.1f}%"]
    assert ["".join(one.split()) for one in shown] == expected
    bar, track = (page.locator(f"#sources li:nth-child(2) {part}").bounding_box() for part in (".fill", ".track"))
    assert bar["width"] == pytest.approx(share * track["width"], abs=1)
    telling = [one for one in explained.context_words if one[1] > 0][:10]
    shown = [line.split() for line in page.locator("#telling .text").all_inner_texts()]
    assert shown == [[other, f"{100 * part:.1f}%"] for other, part in telling]
    assert f"and of its contexts ({100 * share:.1f}%)" in page.locator("#summary").inner_text()
    # A link shows the same; a word that is part of another does not occur, and then the spelling explains it alone.
    elsewhere = visit(page.url)
    elsewhere.get_by_role("region", name=card).wait_for()
    assert elsewhere.locator("#telling").inner_text() == page.locator("#telling").inner_text()
    box.fill(f"the x{word}x")
    sync_api.expect(note).to_contain_text("does not occur in its context")
    page.locator("#mixture").wait_for(state="hidden")
    settle(page)
    assert page.locator("#confidence").inner_text() == without and page.locator("#message").is_hidden()
    box.fill(f"the {known} is known")
    sync_api.expect(note).to_have_text("Used: 0 of 1. The others do not contain the word.")
    word_box(page).fill(known)
    page.get_by_text("It is a training word, so contexts change nothing.").wait_for()
    assert page.locator("#telling").is_hidden()


def test_more_sentences_than_the_server_takes(visit, with_contexts, small_vectors):
    word = small_vectors.words[1503]
    page = visit(f"{with_contexts}/?word={quote(word)}")
    drawing(page, word)
    page.get_by_label("Sentences with the word").fill(f"{word * 10} {word}\n" * 300)
    page.get_by_text("There are no words around it").or_(page.locator("#sources")).first.wait_for()
    line = 11 * len(word) + 1
    note = f"Used: {20_000 // line} of 300. The others do not contain the word, or exceed the limit."
    too_long = " They are too long to fit in the link."
    sync_api.expect(page.locator("#contexts-note")).to_have_text(note + too_long)
    assert "contexts=" not in page.url


def test_a_model_without_confidence_and_words(visit, tmp_path):
    trained = pbos.train({"high": [1.0, 0.0], "higher": [0.0, 1.0]}, lam=0.1)
    empty = pbos.Model(trained.index, trained.spelling, trained.subword_vectors, pack_strings([]))
    empty.save(tmp_path / "model")
    with served("-m", tmp_path / "model", "--port", 0) as (_, url):
        page = visit(f"{url}/?word=highest&other=high")
        drawing(page, "highest")
        page.locator("#cosine").filter(has_text=re.compile(r"\d")).wait_for()
        assert page.locator("#coverage").is_visible() and page.locator("#trust").is_hidden()
        assert page.locator("#contexts").is_hidden()
        page.locator("#subword").get_by_text("This model has no list of words").wait_for()
        assert "none" in page.locator("#neighbors").inner_text().lower()


def test_the_page_updates_with_every_key(visit, url, model):
    page = visit(url)
    drawing(page, "unfriendliest")
    word_box(page).fill("")
    page.get_by_text("Type a word to see").wait_for()
    for word in ("high", "higher", "highers"):
        word_box(page).press_sequentially(word[len(word_box(page).input_value()) :])
        drawing(page, word)
        page.wait_for_url(f"**/?word={word}")
    assert page.title() == "highers – pbos"
    assert labels(page, "Nearest words") == [word for word, _ in model.neighbors("highers")]


def test_text_typed_before_the_server_responds_is_kept(visit, url):
    held = []
    page = visit(f"{url}/?other=queen", before=lambda page: page.route("**/model", lambda route: held.append(route)))
    word_box(page).fill("kingly")
    page.wait_for_timeout(300)  # longer than the page waits for the next key
    while not held:  # until the page has asked
        page.wait_for_timeout(10)
    held[0].continue_()
    drawing(page, "kingly")
    page.wait_for_url("**/?word=kingly&other=queen")


def test_nearest_words_are_links(visit, url, model):
    page = visit(f"{url}/?word=unfriendliest")
    drawing(page, "unfriendliest")
    near = model.neighbors("unfriendliest")[0][0]
    page.get_by_role("region", name="Nearest words").get_by_role("link", name=near, exact=True).click()
    drawing(page, near)
    assert word_box(page).input_value() == near
    page.go_back()
    drawing(page, "unfriendliest")
    assert word_box(page).input_value() == "unfriendliest"


def test_two_words(visit, url, model):
    page = visit(f"{url}/?word=king")
    drawing(page, "king")
    page.get_by_role("textbox", name="Another word").fill("queen")
    cosine = page.locator("#cosine")
    sync_api.expect(cosine).to_have_text(f"{model.similarity('king', 'queen'):.3f}")
    word_box(page).fill("kingship")
    sync_api.expect(cosine).to_have_text(f"{model.similarity('kingship', 'queen'):.3f}")
    # Why are they near each other? The subwords of both, their weights, and what they add to the cosine.
    page.get_by_role("button", name="Why is kings near kingship?").click()
    sync_api.expect(cosine).to_have_text(f"{model.similarity('kingship', 'kings'):.3f}")
    page.wait_for_url("**/?word=kingship&other=kings")
    assert page.evaluate("document.activeElement.id") == "compare-title"
    page.get_by_role("button", name=re.compile(r"Show all \d+")).last.scroll_into_view_if_needed()
    page.locator("#more-shares").click()
    weights = [dict(model.weights(word)) for word in ("kingship", "kings")]
    table = [row.locator("th, td").all_inner_texts() for row in page.locator("#shares tbody tr").all()]
    assert {row[0] for row in table} == {*weights[0], *weights[1]}
    for subword, *shown, _ in table:
        assert [cell == "–" for cell in shown] == [subword not in some for some in weights]
    assert sum(float(row[3].replace("−", "-")) for row in table) == pytest.approx(
        model.similarity("kingship", "kings"), abs=0.03
    )
    shared = page.locator("#shares .shared").all_inner_texts()
    assert set(shared) == weights[0].keys() & weights[1].keys()


def test_a_subword_shows_where_it_comes_from(visit, url, model):
    page = visit(f"{url}/?word=unkindliest")
    drawing(page, "unkindliest")
    panel = page.get_by_role("region", name="Subword <")
    largest = model.weights("unkindliest")[0][0]
    sync_api.expect(page.locator("#subword-name")).to_have_text(largest)
    button = page.get_by_role("button", name="est>", exact=True)
    button.click()
    sync_api.expect(page.locator("#subword-name")).to_have_text("est>")
    assert button.get_attribute("aria-pressed") == "true"
    ending = [word for word in model.words if re.search(r"est(\W|_|$)", word)]
    assert f"In {len(ending):,} of {len(model.words):,} training words" in page.locator("#subword").inner_text()
    assert page.locator("#sharing a").all_inner_texts() == ending[:12]
    assert page.locator("#subword-near li").count() == 5
    page.wait_for_url("**/?word=unkindliest&subword=est%3E")
    other = visit(page.url)
    sync_api.expect(other.locator("#subword-name")).to_have_text("est>")
    page.go_back()
    sync_api.expect(page.locator("#subword-name")).to_have_text(largest)
    panel.get_by_role("link").first.click()  # the first word that shares it
    drawing(page, page.locator("#word").input_value())
    assert largest.strip("<>") in page.locator("#word").input_value()


def test_a_list_gets_a_table_to_download(visit, url, model, tmp_path):
    words = ["unkindliest", "king", "東京", "naïvety", *model.words[500:620]]
    page = visit(f"{url}/?word=king")
    drawing(page, "king")
    page.get_by_role("textbox", name="Words, one per line").fill("\n".join(words) + "\n" + "x" * 201)
    sync_api.expect(page.locator("#rows-note")).to_have_text(f"{len(words)} words; left out (too long or too many): 1")
    first = page.locator("#rows tbody tr").first.locator("th, td").all_inner_texts()
    near = [other for other, _ in model.neighbors("unkindliest", 5)]
    cut = "/".join(model.segment("unkindliest")[0].pieces)
    assert first == ["unkindliest", f"{model.confidence('unkindliest'):.2f}", "100%", cut, ", ".join(near)]
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    download.value.save_as(tmp_path / "words.csv")
    lines = (tmp_path / "words.csv").read_text(encoding="utf-8-sig").splitlines()
    table = list(csv.DictReader(lines))
    assert [row["word"] for row in table] == words
    for row in table[:6]:
        word = row["word"]
        assert row["read_as"] == model.read_as(word)
        assert row["training_word"] == ("yes" if word in model else "no")
        assert float(row["confidence"]) == pytest.approx(model.confidence(word), abs=1e-5)
        assert float(row["coverage"]) == model.coverage(word)
        found = [(row[f"neighbor_{at}"], row[f"cosine_{at}"]) for at in range(1, 6) if row[f"neighbor_{at}"]]
        assert [other for other, _ in found] == [other for other, _ in model.neighbors(word, 5)]
    page.get_by_role("button", name=f"Show all {len(words)}").click()
    assert page.locator("#rows tbody tr").count() == len(words)


def test_on_a_phone_the_nearest_words_come_first(visit, url):
    page = visit(f"{url}/?word=unkindliest", viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    drawing(page, "unkindliest")
    shown = "#results > section:not([hidden])"
    tops = page.eval_on_selector_all(shown, "all => all.map(one => one.getBoundingClientRect().top)")
    assert tops == sorted(tops) and len(set(tops)) == 5
    assert page.locator(f"{shown} h2").first.inner_text() == "Nearest words"
    assert page.get_by_role("region", name="Nearest words").bounding_box()["y"] < 844  # without scrolling


def test_map_of_typed_words(visit, url):
    page = visit(f"{url}/?word=doggo")
    drawing(page, "doggo")
    words = ["dog", "puppy", "doggo", "red", "greenish", "東京"]
    page.get_by_role("textbox", name="Words, one per line").fill("dog, puppy doggo\nred\ngreenish,東京")
    page.get_by_text("Without a known subword: 東京").wait_for()
    shown = page.locator("#map title").all_text_contents()
    assert sorted(shown) == sorted(words[:5])
    assert page.locator("#map .current title").text_content() == "doggo"
    answer = page.request.post(f"{url}/map", data={"words": words}).json()
    places = {point["word"]: (point["x"], point["y"]) for point in answer["points"]}
    drawn = {
        group.locator("title").text_content(): [float(group.locator("circle").get_attribute(c)) for c in ("cx", "cy")]
        for group in page.locator("#map g").all()
    }
    distances, lengths = [], []
    for one in words[:5]:
        for other in words[:5]:
            distances.append(np.hypot(*np.subtract(drawn[one], drawn[other])))
            lengths.append(np.hypot(*np.subtract(places[one], places[other])))
    scale = max(distances) / max(lengths)
    np.testing.assert_allclose(distances, np.multiply(lengths, scale), atol=0.01)  # one scale for both directions
    page.get_by_text("The map as text").click()
    assert page.locator("#map-list li").count() == 5
    add = page.get_by_role("button", name="Add “")
    assert not add.is_visible()  # the word is on the map
    word_box(page).fill("kitten")
    drawing(page, "kitten")
    add.click()
    page.locator("#map .current").get_by_text("kitten").first.wait_for(state="attached")
    assert page.get_by_role("textbox", name="Words, one per line").input_value().endswith("東京\nkitten")
    assert not add.is_visible()


# -- sharing -----------------------------------------------------------------------------------------------------------


LATE_SUBWORD = """const get = fetch; window.fetch = async (path, ...rest) => {
  if (path.startsWith("subword")) await new Promise((done) => setTimeout(done, 500));
  return get(path, ...rest);
};"""


def test_a_link_shows_the_same_elsewhere(visit, url):
    page = visit(url, permissions=["clipboard-read", "clipboard-write"])
    drawing(page, "unfriendliest")
    word_box(page).fill("naïve & <b>")
    page.get_by_role("textbox", name="Another word").fill("100% + naïveté")
    page.get_by_role("textbox", name="Words, one per line").fill("red\ngreen\n緑")
    drawing(page, "naïve & <b>")
    page.get_by_text("Without a known subword: 緑").wait_for()
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Link copied").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == page.url
    assert parse_qs(urlsplit(link).query) == {
        "word": ["naïve & <b>"],
        "other": ["100% + naïveté"],
        "map": ["red,green,緑"],
    }
    other = visit(link, before=lambda page: page.add_init_script(LATE_SUBWORD))
    drawing(other, "naïve & <b>")
    other.get_by_text("Without a known subword: 緑").wait_for()
    assert everything(other) == everything(page)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_word_that_is_too_long(visit, url):
    page = visit(url)
    word_box(page).fill("a" * 201)
    page.get_by_role("alert").get_by_text("Word in the query: string should have at most 200 characters").wait_for()
    assert not page.locator("#results").is_visible()
    word_box(page).fill("higher")
    drawing(page, "higher")
    assert not page.get_by_role("alert").is_visible()


def test_a_server_that_stops_and_comes_back(visit):
    with socket.socket() as kept:  # it does not listen, but keeps the port free for the second server
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        with served("--port", port) as (_, url):
            page = visit(url)
            drawing(page, "unfriendliest")
        word_box(page).fill("higher")
        page.get_by_role("alert").get_by_text("The server does not respond. Is pbos serve still running?").wait_for()
        with served("--port", port):
            drawing(page, "higher")  # without any input
            page.get_by_role("alert").wait_for(state="hidden")


def test_a_server_with_a_token(visit):
    with served("--port", 0, "--token", "open+sesame") as (_, url):
        page = visit(f"{url}/?word=higher#token=open%2Bsesame")
        sync_api.expect(page.locator("#coverage")).to_have_text("100%")
        assert "token" not in page.url  # so that copied links do not contain it
        page.goto(f"{url}/docs")
        page.get_by_role("button", name="Try it: GET /model").click()
        sync_api.expect(page.get_by_text("200 application/json")).to_be_visible()


def test_a_token_that_cannot_be_sent_is_ignored(visit, url):
    page = visit(f"{url}/?word=higher#token=東京")
    drawing(page, "higher")
    assert not page.get_by_role("alert").is_visible()


def test_words_in_scripts_the_model_does_not_know(visit, url):
    page = visit(url)
    for word in (ARABIC, "東京タワー", "שלום"):
        word_box(page).fill(word)
        drawing(page, word)
        assert f"The model knows no subword of {word}" in page.locator("#summary").inner_text()
        assert page.locator("#coverage").inner_text() == "0%"
        assert "None: no subword" in page.get_by_role("region", name="Subword weights").inner_text()
        assert not page.get_by_role("alert").is_visible()


def test_a_word_is_never_markup(visit, url):
    word = "<img src=x onerror=alert(1)><script>alert(1)</script>&amp;"
    page = visit(f"{url}/?word={quote(word)}&other={quote(word)}&map={quote(word.replace(' ', ''))}")
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    drawing(page, word)
    everything(page)
    assert page.locator("main img, main script").count() == 0
    assert word in page.locator("#first").inner_text()


HOSTILE = [
    """<script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>"'><img src=x onerror=alert(1)>" """
    """onmouseover="alert(1)" autofocus onfocus='alert(1)'""",
    '</title></textarea></style></svg></script>]]><iframe srcdoc="<script>parent.alert(1)</script>">',
    "<svg><a href='javascript:alert(1)'><foreignObject><img src=x onerror=alert(1)><base href=//evil.example>"
    "<object data=javascript:alert(1)>",
    "javascript:alert(1)//`${alert(1)}`{{constructor.constructor('alert(1)')()}}&lt;script&gt;alert(1)&lt;/script&gt;",
    "\u2028<body onload=alert(1)>\u202e<details open ontoggle=alert(1)>&#60;img src=x onerror=alert(1)&#62;\ufeff.",
]
FOREIGN = """() => [...document.querySelectorAll("*")].filter((one) =>
  one.matches("main script, main img, iframe, object, base, foreignObject, details:not(#map-text)")
  || [...one.attributes].some(({ name, value }) => /^on/i.test(name)
    || (["href", "src", "data"].includes(name) && new URL(value, location.href).origin !== location.origin))
).map((one) => one.outerHTML)"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The address of a model whose name, training words and subwords are attacks."""
    place = tmp_path_factory.mktemp("models") / "<img src=x onerror=alert(1)>"
    words = [word + end for word in HOSTILE for end in ("", "s", "er")]
    vectors = np.random.default_rng(0).standard_normal((len(words), 6)).astype(np.float32)
    pbos.train((words, vectors), lam=0.1, max_len=9, info={"note": HOSTILE[0]}).save(place)
    with served("-m", place, "--port", 0) as (_, url):
        yield url


def test_no_word_runs_in_the_page_even_without_its_policy(visit, hostile):
    page, ran = visit(hostile, bypass_csp=True), []
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    for word in HOSTILE:
        attack = quote(word)
        page.goto(f"{hostile}/?word={attack}&other={attack}s&subword={attack}&map={attack}&{attack}#{attack}")
        page.locator("#cosine").filter(has_text=re.compile(r"\d")).wait_for()
        settle(page)
        assert word.strip() in page.locator("#first").text_content()
        assert page.evaluate(FOREIGN) == []
    page.get_by_role("textbox", name="Words, one per line").fill("\n".join(HOSTILE))
    page.locator("#download:enabled").wait_for()
    page.get_by_text("The map as text").click()
    page.locator("#weights button").first.click()
    page.locator("#neighbors a").first.click()
    everything(page)
    assert page.evaluate(FOREIGN) == []
    page.goto(f"{hostile}/docs#{quote(HOSTILE[0])}")
    form = page.locator("form").filter(has=page.get_by_role("button", name="Try it: GET /explain"))
    form.get_by_role("textbox").first.fill(HOSTILE[0])
    form.get_by_role("button").click()
    page.get_by_text("200 application/json").wait_for()
    assert page.evaluate(FOREIGN) == []
    assert page.goto(f"{hostile}/{quote(HOSTILE[0])}").headers["content-type"] == "application/json"
    assert ran == []


def test_a_word_does_not_turn_what_follows(visit, url):
    """A mark such as U+202E reverses the text after it, unless the word is a text of its own."""
    page = visit(f"{url}/?word=ab\u202ecd&other=ab\u202ecd&map=ab\u202ecd,dog,東\u202e京")
    everything(page)
    page.locator("#download:enabled").wait_for()
    turned = """() => {
      const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), found = [];
      while (texts.nextNode()) {
        const { data, parentElement } = texts.currentNode;
        if (data.includes("\u202e") && !parentElement.closest("bdi, svg, textarea")) found.push(data);
      }
      return found;
    }"""
    assert page.evaluate(turned) == []


def test_cells_of_the_csv_are_never_formulas(visit, tmp_path):
    """As OWASP advises: text that a spreadsheet would take for a formula starts with a quote mark."""
    training = ["=1+1", "\t=1", "\r=1", "+1", 'a,"b"', "plain"]
    vectors = np.float32([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, 1]])
    pbos.train((training, vectors), lam=0.1).save(tmp_path / "model")
    words = ['=HYPERLINK("//evil.example")', "+1", "-2", "@SUM(1)", "＝1", "'=1", "plain"]
    with served("-m", tmp_path / "model", "--port", 0) as (_, url):
        page = visit(f"{url}/?map={quote(','.join(words))}")
        sync_api.expect(page.locator("#rows-note")).to_have_text("7 words")  # all rows are there
        page.locator("#download:enabled").wait_for()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download CSV").click()
        download.value.save_as(tmp_path / "words.csv")
    with (tmp_path / "words.csv").open(encoding="utf-8-sig", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["word"] for row in table] == [*(f"'{word}" for word in words[:5]), *words[5:]]
    texts = {text for row in table for name, text in row.items() if "co" not in name}
    assert texts >= {"'=1+1", "'\t=1", "'\r=1", "'+1", 'a,"b"'}  # neighbors
    assert not any(text.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝")) for text in texts)
    assert min(float(row[f"cosine_{at}"]) for row in table for at in range(1, 6) if row[f"cosine_{at}"]) < 0


def test_odd_words_are_drawn(visit, url):
    page = visit(url)
    for word in ("e\u0301\u0323", "हिन्दी", "👩\u200d💻", "a\u202eb", "x\x00y"):
        page.goto(f"{url}/?word={quote(word)}")
        page.locator("#lattice svg path").first.wait_for()
        assert not page.get_by_role("alert").is_visible()
