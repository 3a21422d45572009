"""Runs: submit, read, list, watch, cancel and delete them; logs and the reaper."""
