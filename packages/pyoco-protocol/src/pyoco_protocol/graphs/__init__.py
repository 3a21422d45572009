"""Graphs of executions: the document, its validation, conditions and templates."""
