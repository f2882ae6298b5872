"""Paths and URLs: read, and written completely or not at all."""
