"""Finishes cancelled runs and requeues runs whose worker is gone."""
