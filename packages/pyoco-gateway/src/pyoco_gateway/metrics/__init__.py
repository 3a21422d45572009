"""What Prometheus is told: counted as it happens, never by looking at all runs."""
