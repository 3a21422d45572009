"""Brings to its end, or back into the queue, what nobody takes care of any more."""
