"""Heimdall: the server that clients talk to."""
