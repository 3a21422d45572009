"""Indexes in memory, fed by the watch of a stream, from which lists are answered."""
