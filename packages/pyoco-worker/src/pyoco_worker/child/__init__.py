"""Code that runs inside a child process: the engine and user code. It does not use NATS."""
