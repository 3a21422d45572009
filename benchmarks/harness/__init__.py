"""Shared by all benchmarks: the measured stack, load generators, the floor and the report."""
