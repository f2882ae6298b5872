"""Attacks on pbos that take long; `python -m torture` runs them. Not part of the package."""
