"""Long attacks on pbos: hostile files and words, kills, many users at once. `make torture` runs them."""
