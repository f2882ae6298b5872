"""A string becomes subwords and weights; one word is explained."""
