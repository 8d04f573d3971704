"""Limits for clients: `core/` counts and decides how long somebody waits, `client_quotas.py` tells it the time."""
