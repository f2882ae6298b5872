"""The card of a model: README.md, for people and for the Hugging Face Hub, and what a notebook shows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any

from pbos.errors import for_terminal

TAGS = ["word-embeddings", "subwords", "out-of-vocabulary"]
TEXT = """---
{head}
---

# A pbos model

A vector for every word, from its spelling. Use it with

```python
import pbos

model = pbos.load("{path}")
model["unfriendliest"]
```

| | |
|---|---|
{rows}

## Settings

{facts}
"""


def figures(config: dict[str, Any]) -> dict[str, str]:
    """Return what people want to know about a model first."""
    return {
        "words it was trained on": f"{config['words']:,}",
        "subwords": f"{config['subwords']:,}",
        "vectors": f"{config['vectors']:,} x {config['dims']}, {config['dtype']}",
        "tells how far to trust a vector": "yes" if config["confidence"] else "no",
        "uses contexts": "yes" if config.get("contexts") else "no",
    }


def model_card(config: dict[str, Any], path: str, metadata: dict[str, Any]) -> str:
    """Return the card of a model: see `Model.card`."""
    facts = {**config, **config["spelling"], **config["info"], "confidence": config["confidence"]}
    facts |= facts.pop("training", {})
    head = {"library_name": "pbos", "pipeline_tag": "feature-extraction", "tags": TAGS, **metadata}
    rows = figures(config)
    if tried := facts.pop("tried", None):
        rows["cosine of held-out words with their true vectors"] = f"{max(tried.values()):.3f}"
        facts["cosine of held-out words by lam, reliability"] = "; ".join(f"{what}: {tried[what]}" for what in tried)
    return TEXT.format(
        path=path,
        head="\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()),
        rows="\n".join(f"| {name} | {value} |" for name, value in rows.items()),
        facts="\n".join(f"- {name}: {one}" for name, one in facts.items() if not isinstance(one, (dict, list))),
    )


def html_card(config: dict[str, Any], word: str, pieces: Iterable[str]) -> str:
    """Return the card of a model for notebooks, with one of its words, cut into pieces, as an example."""
    rows = figures(config) | ({f"cuts {word}": " / ".join(pieces)} if word else {})
    cells = ([f"<bdi>{escape(for_terminal(text))}</bdi>" for text in row] for row in rows.items())
    lines = (f'<tr><th style="text-align: left">{name}</th><td>{value}</td></tr>' for name, value in cells)
    return f"<table><caption>pbos model</caption>{''.join(lines)}</table>"
