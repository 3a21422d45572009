"""Structured logging for all processes."""
