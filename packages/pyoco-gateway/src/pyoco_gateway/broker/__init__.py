"""Starts and stops a nats-server of our own."""
