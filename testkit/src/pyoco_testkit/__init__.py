"""What the tests of Pyoco Server stand on: real servers, real processes, builders, strategies."""
