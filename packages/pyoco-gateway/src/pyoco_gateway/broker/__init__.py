"""Configures, starts and stops nats-server."""
