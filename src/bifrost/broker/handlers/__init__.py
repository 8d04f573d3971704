"""The APIs, one file per state that they touch. Importing this package registers every one of them."""

from bifrost.broker.handlers import cluster, configs, fetch, metadata, offsets, produce, producers, topics

__all__ = ["cluster", "configs", "fetch", "metadata", "offsets", "produce", "producers", "topics"]
