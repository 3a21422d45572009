"""Test support for Pyoco Server: real servers, real processes, builders, strategies."""
