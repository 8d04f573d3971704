"""Pipelines without Spark: projects, flows, failures, what is missing."""
