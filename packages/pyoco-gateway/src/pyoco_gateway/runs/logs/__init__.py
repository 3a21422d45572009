"""What runs print: read it page by page or follow it."""
