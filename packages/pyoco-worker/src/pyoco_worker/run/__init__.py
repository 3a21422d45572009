"""Executes a claimed run: heartbeats, cancel, outcome, and the settlement of its job."""
