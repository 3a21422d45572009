"""Publishes the output of runs to the broker."""
