"""What the benchmarks share: a stack to measure, load from outside, the floor, and the report."""
