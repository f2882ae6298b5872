"""Evaluation: the paper's tasks for any model, baselines, tables (extra `eval`). Imports pbos, never imported by it."""
