"""Pulls jobs from the queue and starts each one."""
