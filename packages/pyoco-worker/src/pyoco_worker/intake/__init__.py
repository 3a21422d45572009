"""Pulls jobs from the queue, limits how many run at once, and handles each one."""
