"""The output of runs: reading it page by page and following it live.

"Logs" is the name of the route and of names on the wire; the code says "output".
"""
