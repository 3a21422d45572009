"""The child processes that run flows: started ahead, one run at a time each, killed at need."""
