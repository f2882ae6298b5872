"""A table of vectors becomes a model."""
