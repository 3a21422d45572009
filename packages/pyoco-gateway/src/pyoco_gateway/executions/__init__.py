"""Executions: durable, event-sourced graphs of tasks, waits, forks and joins."""
