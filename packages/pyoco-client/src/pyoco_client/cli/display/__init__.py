"""How the command line shows results."""
