"""The rules of executions as pure functions: no I/O, no clock, no generated ids."""
