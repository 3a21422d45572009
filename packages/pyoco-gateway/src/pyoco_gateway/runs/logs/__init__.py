"""The output of runs: reading it page by page and following it live."""
