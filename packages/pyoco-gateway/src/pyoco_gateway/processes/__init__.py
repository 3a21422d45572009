"""Commands that the gateway starts, and that never outlive it."""
