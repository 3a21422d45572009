"""HTTP server, request limits, errors and API description; nothing here knows about runs."""
