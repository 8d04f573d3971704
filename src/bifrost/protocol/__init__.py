"""Kafka's wire protocol: bytes to typed values and back. Pure: no loop, no clock, no files, no sockets."""
