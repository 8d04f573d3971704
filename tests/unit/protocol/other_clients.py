"""Record and partitioner code of other clients, to compare ours with."""

from __future__ import annotations

import warnings

import aiokafka.record.default_records as aiokafka_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas through a deprecated function when it is imported
    import kafka.record.default_records as kafka_python_records
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

__all__ = ["aiokafka_records", "kafka_python_murmur2", "kafka_python_records"]
