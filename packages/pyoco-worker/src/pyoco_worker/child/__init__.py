"""What runs inside a child process: the engine, and user code. Nothing here speaks to NATS."""
