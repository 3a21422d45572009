"""The HTTP resources, one file each."""
