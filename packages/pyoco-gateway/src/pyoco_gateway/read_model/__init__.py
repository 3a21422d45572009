"""What the gateway knows of all runs without asking: fed by one watch, read by every list."""
