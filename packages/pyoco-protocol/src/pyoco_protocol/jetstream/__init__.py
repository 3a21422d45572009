"""How gateway and workers speak to JetStream; needs the extra `[nats]`."""
