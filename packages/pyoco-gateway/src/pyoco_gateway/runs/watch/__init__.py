"""Watching runs as server-sent events."""
