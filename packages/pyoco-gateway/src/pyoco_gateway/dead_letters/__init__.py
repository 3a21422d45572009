"""Dead letters: find them, redrive them, discard them."""
