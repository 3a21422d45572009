"""Runs: lifecycle, record, job, signature and output."""
