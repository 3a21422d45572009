"""Workflow files: check them and submit them as runs."""
