"""JetStream access for gateway and workers. Needs the extra `[nats]`."""
