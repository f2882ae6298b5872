"""pbos models in other libraries: one module per extra."""
