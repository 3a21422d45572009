"""The pool of child processes that execute flows."""
