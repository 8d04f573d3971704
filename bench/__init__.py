"""Bifrost beside Apache Kafka: the same questions, in the same minutes, on the same machine, answered as ratios.

Nothing here is imported by the package, and nothing here imports its server code: both peers are processes that are
reached through their sockets alone.
"""
