"""Decides whether this worker may execute a job, and claims its run."""
