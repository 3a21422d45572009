"""Child processes of the gateway, which never outlive it."""
