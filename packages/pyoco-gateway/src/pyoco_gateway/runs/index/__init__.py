"""The index of all runs: lists and counts are answered from it."""
