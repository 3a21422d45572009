"""Finishes cancelled runs and queues the runs of lost workers again."""
