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
| words it was trained on | {words:,} |
| subwords | {subwords:,} |
| vectors | {vectors:,} x {dims}, {dtype} |
{best}| tells how far to trust a vector | {trust} |

## Settings

{facts}
"""


def model_card(config: dict[str, Any], path: str, metadata: dict[str, Any]) -> str:
    """Return the card of a model: see `Model.card`."""
    facts = {**config, **config["spelling"], **config["info"], "confidence": config["confidence"]}
    facts |= facts.pop("training", {})
    head = {"library_name": "pbos", "pipeline_tag": "feature-extraction", "tags": TAGS, **metadata}
    parts = {"path": path, "trust": "yes" if config["confidence"] else "no", "best": ""}
    if tried := facts.pop("tried", None):
        parts["best"] = f"| cosine of held-out words with their true vectors | {max(tried.values()):.3f} |\n"
        facts["cosine of held-out words by lam, reliability"] = "; ".join(f"{what}: {tried[what]}" for what in tried)
    parts["head"] = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in head.items())
    shown = (f"- {name}: {value}" for name, value in facts.items() if not isinstance(value, (dict, list)))
    return TEXT.format_map({**config, **parts, "facts": "\n".join(shown)})
