"""Publishes what runs print."""
