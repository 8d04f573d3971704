"""Clients for applications: producer, consumer and admin, thin and typed over librdkafka.

Batching, retries, connections and group membership are librdkafka's. What is decided here is what a Python programmer
sees: names, types, errors that say what to do, and an exact account of what was delivered. Nothing here knows how a
Bifrost broker works inside; everything holds against Apache Kafka just the same. `wire` stands beside them, on the
protocol itself: it moves whole batches and never opens one.
"""
