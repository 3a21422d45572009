"""The worker's side of its child processes: the pool, and one object per child."""
