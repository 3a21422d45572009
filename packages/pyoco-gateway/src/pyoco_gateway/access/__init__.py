"""API keys, scopes and tenants: authentication and authorization of requests."""
