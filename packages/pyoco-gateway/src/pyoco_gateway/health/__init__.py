"""The health report and its routes."""
