"""Decides whether this worker may run a job, and claims the run."""
