"""What stands between strangers and the routes: where a request comes from, and how it is sent."""
