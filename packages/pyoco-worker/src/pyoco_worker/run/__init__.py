"""Executes one claimed run and records its progress and end."""
