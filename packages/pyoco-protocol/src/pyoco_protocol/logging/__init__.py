"""Structured process logs: one record is one line."""
