"""Dead letters: list, redrive and delete them."""
