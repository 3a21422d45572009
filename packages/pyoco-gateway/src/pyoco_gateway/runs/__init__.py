"""Runs: submit, read, list, watch, cancel and delete them; their output; the reaper."""
