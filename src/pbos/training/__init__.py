"""A table of vectors becomes a model. Start with `train.py`, then `system.py`, `fit.py` and `solve.py`."""
