"""Reads and checks untrusted workflow files (`flow.yaml`) without executing anything.

Needs the extra `workflows`. Gateway and worker use the same checks, because a worker cannot
trust the source of a job.
"""
