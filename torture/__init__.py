"""Long, repeatable attacks on pbos; not part of the package."""
