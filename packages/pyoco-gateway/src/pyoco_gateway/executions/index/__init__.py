"""The index of executions: their last heads and open nodes, from which lists are answered."""
