"""Spark's source and sink: what is decided without Spark and without a broker."""
