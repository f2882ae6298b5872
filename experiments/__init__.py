"""Reproduces the paper's tables and the other results in `results/`. Not part of the installed package.

Run it from the root of the repository: `python -m experiments reproduce all --data DIR`.
"""
