"""Models on the Hugging Face Hub: the real client, and a server that speaks the Hub's paths."""

import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import hub_server
import huggingface_hub
import numpy as np
import pytest
import yaml

import pbos
from pbos import InputError, MissingExtraError, ModelError
from pbos.files.hub import hub_place

WORDS = ["unbelievable", "higher", "covfefe"]


@pytest.fixture(scope="module")
def model(small_vectors):
    return pbos.train((small_vectors.words[:300], small_vectors.vectors[:300]))


def test_pushed_then_loaded_also_offline_by_another_process(hub, model, tmp_path, capfd):
    model.push_to_hub("owner/name", language="en", license="mit")
    model.save(tmp_path / "local")
    files = hub.files("owner/name", "main")
    assert set(files) == {".gitattributes", "README.md", "config.json", "model.safetensors"}
    assert len(hub.commits["owner/name"]) == 2  # the one that made the repository, and one for all files
    for name in ("model.safetensors", "config.json"):
        assert files[name] == (tmp_path / "local" / name).read_bytes()

    capfd.readouterr()
    assert np.array_equal(pbos.load("hf://owner/name").embed(WORDS), model.embed(WORDS))
    assert capfd.readouterr() == ("", "")
    asked = len(hub.requests)
    code = f"import pbos, sys; sys.stdout.write(pbos.load('hf://owner/name').embed({WORDS}).tobytes().hex())"
    settings = {**os.environ, "HF_HUB_OFFLINE": "1"}
    offline = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True)
    assert (offline.stdout, offline.stderr) == (model.embed(WORDS).tobytes().hex(), "")
    assert len(hub.requests) == asked


def test_a_model_is_downloaded_once_and_again_when_it_has_changed(hub, model):
    model.push_to_hub("owner/name")
    pbos.load("hf://owner/name")
    hub.requests.clear()
    kept = pbos.load("hf://owner/name")
    assert not any("resolve" in request for request in hub.requests)
    model.compress(dims=3).push_to_hub("owner/name")
    assert pbos.load("hf://owner/name").dims == 3
    assert np.array_equal(kept.embed(WORDS), model.embed(WORDS))  # what is in use stays as it is


def test_revisions(hub, model):
    model.push_to_hub("owner/name")
    first = hub.branches["owner/name"]["main"]
    model.compress(dims=3).push_to_hub("owner/name")
    model.compress(dims=2).push_to_hub("owner/name@small")
    dims = {f"hf://owner/name@{revision}": dims for revision, dims in [(first, model.dims), ("small", 2), ("main", 3)]}
    for url, expected in {**dims, "hf://owner/name": 3}.items():
        assert pbos.load(url).dims == expected
    with pytest.raises(ModelError, match=r"^hf://owner/name@v9: the repository has no revision v9$"):
        pbos.load("hf://owner/name@v9")


def test_several_models_in_one_repository(hub, model):
    hub.create("owner/name")
    model.save("hf://owner/name/large")
    model.compress(dims=2).save("hf://owner/name/small/")
    assert [pbos.load(f"hf://owner/name/{size}").dims for size in ("large", "small")] == [model.dims, 2]
    with pytest.raises(ModelError, match=r"no model at hf://owner/name: there is no hf://owner/name/config.json"):
        pbos.load("hf://owner/name")


def test_a_segmenter_and_what_commands_write(hub, run, small_vectors, tmp_path):
    pbos.Segmenter.from_counts({"high": 3, "higher": 1}).save("hf://owner/segmenter")
    assert str(pbos.Segmenter.load("hf://owner/segmenter").segment("higher")[0]).startswith("higher")
    small_vectors.write(tmp_path / "vectors.vec")
    code, _, err = run("train", "vectors.vec", "--limit", "300", "-o", "hf://owner/trained")
    assert code == 0, err
    assert json.loads(run("info", "-m", "hf://owner/trained", "--json")[1])["words"] == 300
    assert "already contains a model" in run("train", "vectors.vec", "-o", "hf://owner/trained")[2]
    assert run("train", "vectors.vec", "--plan", "-o", "hf://owner/planned")[0] == 0
    with pytest.raises(ModelError, match="no such repository"):
        pbos.load("hf://owner/planned")


def test_private_models_need_a_token(hub, model, monkeypatch, tmp_path):
    model.push_to_hub("owner/secret", private=True)
    assert hub.private["owner/secret"]
    assert len(pbos.load("hf://owner/secret")) == len(model)
    monkeypatch.setenv("HF_TOKEN", "")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "other"))
    with pytest.raises(ModelError, match=r"^hf://owner/secret: no such repository, or it is private; .* log in with: "):
        pbos.load("hf://owner/secret")


def test_the_card(hub, model, confident):
    """The head is YAML that huggingface_hub reads, and the figures are those of the model."""
    confident.push_to_hub("owner/name", language=["en", "de"], license="cc-by-4.0", datasets=["a/b: c"])
    text = hub.files("owner/name", "main")["README.md"].decode()
    data = huggingface_hub.ModelCard(text).data.to_dict()
    expected = {"library_name": "pbos", "language": ["en", "de"], "license": "cc-by-4.0", "datasets": ["a/b: c"]}
    assert expected.items() <= data.items()
    assert (data["pipeline_tag"], "word-embeddings" in data["tags"]) == ("feature-extraction", True)
    best = max(confident.info["training"]["tried"].values())
    for line in (
        'model = pbos.load("hf://owner/name")',
        f"| words it was trained on | {len(confident):,} |",
        f"| vectors | {len(confident.subword_vectors):,} x {confident.dims}, float32 |",
        f"| cosine of held-out words with their true vectors | {best:.3f} |",
        "| tells how far to trust a vector | yes |",
        "| uses contexts | no |",
    ):
        assert line in text.splitlines()
    assert yaml.safe_load(model.card().split("---\n")[1])["library_name"] == "pbos"


def test_a_notebook_shows_a_card(confident):
    """It is valid XML, has the figures of the model, and cuts a word as `segment` does."""
    table = ElementTree.fromstring(confident._repr_html_())
    rows = {"".join(row[0].itertext()): "".join(row[1].itertext()) for row in table.iter("tr")}
    word = max(confident.words, key=len)
    assert rows == {
        "words it was trained on": f"{len(confident):,}",
        "subwords": f"{len(confident.index):,}",
        "vectors": f"{len(confident.subword_vectors):,} x {confident.dims}, float32",
        "tells how far to trust a vector": "yes",
        "uses contexts": "no",
        f"cuts {word}": " / ".join(confident.segment(word)[0].pieces),
    }


def test_a_card_in_a_notebook_escapes_words():
    """No word can become markup, or turn the text around it."""
    evil = "<script>alert('&')</script>\u202e\x1b"
    shown = pbos.train(([evil, "a"], [[1.0, 0.0], [0.0, 1.0]]), normalization="none")._repr_html_()
    table = ElementTree.fromstring(shown)
    assert {one.tag for one in table.iter()} == {"table", "caption", "tr", "th", "td", "bdi"}
    assert evil.isprintable() < "".join(table.itertext()).isprintable()


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("hf://owner/nothing", ModelError, "hf://owner/nothing: no such repository, or it is private; check the name,"),
        ("hf://owner/gated", ModelError, r"hf://owner/gated is gated; request access at http://\S+/owner/gated, then"),
        ("hf://name", InputError, "hf://name is not a repository on the Hugging Face Hub; use hf://owner/name or"),
        ("hf://ow..ner/name", InputError, "hf://ow..ner/name: Cannot have"),
        *(
            (f"hf://{name}", InputError, "hf://.* is not a repository on the Hugging Face Hub; use hf://owner/name or")
            for name in (
                *(
                    "owner/name/..",
                    "owner/name/a/../../b",
                    "owner/name//etc",
                    "owner/name/.",
                    "owner/name@..",
                    r"owner/name/..\\",
                ),
                *(
                    "owner/name@main/..",
                    "owner/name@a%2F..%2F..%2Fx",
                    "owner/name@%2e%2e",
                    "owner/name@refs/x/../../..",
                ),
            )
        ),
        ("hf://", InputError, "hf: is not a repository on the Hugging Face Hub; use hf://owner/name or"),
    ],
)
def test_what_cannot_be_loaded(hub, run, url, error, message):
    with pytest.raises(error, match=f"^{message}.*$") as raised:
        pbos.load(url)
    assert "\n" not in str(raised.value)
    code, out, err = run("info", "-m", url)
    assert (code, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("sha", ["..", "../../../x", "x/../../y"])
def test_names_from_a_hostile_server(hub, run, model, monkeypatch, sha):
    """What huggingface_hub, which some versions do, refuses is no error of its own, but has to be one of ours."""
    model.push_to_hub("owner/name")
    info = hub_server.Handler.info
    monkeypatch.setattr(hub_server.Handler, "info", lambda *args: [{**info(*args)[0], "sha": sha}])
    hub.commits["owner/name"][sha] = hub.files("owner/name", "main")
    try:
        pbos.load("hf://owner/name")
    except ModelError as error:
        assert str(error).startswith("hf://owner/name: unexpected response from the Hugging Face Hub (")


def test_no_network(hub, model, monkeypatch):
    model.push_to_hub("owner/name")
    pbos.load("hf://owner/name")
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert len(pbos.load("hf://owner/name")) == len(model)  # from the cache
    with pytest.raises(ModelError, match=r"^hf://owner/other is not in the cache, and the Hugging Face Hub cannot be"):
        pbos.load("hf://owner/other")
    with pytest.raises(ModelError, match=r"^hf://owner/name: the Hugging Face Hub cannot be reached \(.*\)$"):
        model.push_to_hub("owner/name")


def test_offline_and_not_in_the_cache(hub, model, monkeypatch):
    model.push_to_hub("owner/name")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match=r"^hf://owner/name is not in the cache, and the .* be reached .*"):
        pbos.load("hf://owner/name")
    with pytest.raises(ModelError, match=r"^hf://owner/name: the Hugging Face Hub cannot be reached .*OFFLINE"):
        model.push_to_hub("owner/name")


def test_what_cannot_be_pushed(hub, model):
    with pytest.raises(ModelError, match=r"^hf://other/name: no permission; log in with: hf auth login, with a token"):
        model.push_to_hub("other/name")
    with pytest.raises(InputError, match=r"^hf://name is not a repository on the Hugging Face Hub"):
        model.push_to_hub("name")
    assert not hub.branches


def test_places():
    assert hub_place("hf://datasets/o/n@refs/pr/1/a/b")[1:] == ("dataset", "o/n", "refs/pr/1", "a/b")
    assert hub_place("hf://o/n@a%2Fb/")[1:] == (None, "o/n", "a/b", "")
    assert hub_place("hf:/models/o/n")[1:] == ("model", "o/n", None, "")


def test_without_huggingface_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "pbos.files.hub")
    monkeypatch.delattr("pbos.files.hub")
    with pytest.raises(MissingExtraError, match=r'a path at hf:// needs an .*: pip install "pbos\[hub\]"$'):
        pbos.load("hf://owner/name")
