"""Long attacks on pbos that can be repeated: `python -m torture`. Not part of the package."""
