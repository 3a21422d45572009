"""Workflow files (`flow.yaml`): read without trust, checked without running anything.

Needs the extra `workflows`. Gateway and worker check alike: a job may come from anybody.
"""
