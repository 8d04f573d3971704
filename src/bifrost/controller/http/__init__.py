"""Odin over HTTP. Only `node.py` of a broker imports it, and only where the settings ask for it: it is heavy."""
