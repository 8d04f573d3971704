"""Odin: the cluster's metadata as a state machine over a log."""
