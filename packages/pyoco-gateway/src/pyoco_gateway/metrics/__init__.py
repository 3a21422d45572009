"""Prometheus metrics: run events are counted as they happen, without scanning all runs."""
