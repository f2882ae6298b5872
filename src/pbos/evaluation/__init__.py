"""Evaluation of any model: in go anything that embeds words and your data, out comes a `Result` with intervals.

Start with `words.py`. It trains nothing: `heldout` is given a function that does. The paper's other tasks are in
`experiments/`, which is not part of the package.
"""
