"""Workers and queues."""
