"""The vocabulary of executions: statuses, commands, events, rejections and the commit record."""
