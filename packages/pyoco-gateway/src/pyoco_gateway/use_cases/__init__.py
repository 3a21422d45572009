"""What a caller can have done: one file for each verb."""
