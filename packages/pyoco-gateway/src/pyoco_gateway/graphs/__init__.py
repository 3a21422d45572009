"""Graphs: store versions, read them, and compile them for executions."""
