"""The card of a model, README.md: what it is, for people and for the Hugging Face Hub."""

from __future__ import annotations

import json
from typing import Any

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
{figures}

## Settings

{facts}
"""


def model_card(config: dict[str, Any], path: str, metadata: dict[str, Any]) -> str:
    """Return the card of a model: see `Model.card`."""
    facts = {**config, **config["spelling"], **config["info"], "confidence": config["confidence"]}
    facts |= facts.pop("training", {})
    figures = {
        "words it was trained on": f"{config['words']:,}",
        "subwords": f"{config['subwords']:,}",
        "vectors": f"{config['vectors']:,} x {config['dims']}, {config['dtype']}",
    }
    if tried := facts.pop("tried", None):
        figures["cosine of held-out words with their true vectors"] = f"{max(tried.values()):.3f}"
        scores = [f"{what}: {score}" for what, score in tried.items()]
        facts["cosine of held-out words by lam, reliability"] = "; ".join(scores)
    figures["tells how far to trust a vector"] = "yes" if config["confidence"] else "no"
    head = {"library_name": "pbos", "pipeline_tag": "feature-extraction", "tags": TAGS, **metadata}
    return TEXT.format(
        head="\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items()),
        path=path,
        figures="\n".join(f"| {name} | {value} |" for name, value in figures.items()),
        facts="\n".join(f"- {name}: {value}" for name, value in facts.items() if not isinstance(value, (dict, list))),
    )
