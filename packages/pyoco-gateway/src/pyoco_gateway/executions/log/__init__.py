"""The log of an execution: states that follow from commits, and how commits are appended."""
