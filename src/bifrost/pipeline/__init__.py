"""Spark Declarative Pipelines whose tables come from topics and whose sinks are topics.

    from bifrost.pipeline import run

    outcome = run("readings", bootstrap="localhost:9092")
    print(outcome.flow("hot_readings").rows_written)

A project is Spark's own: a `spark-pipeline.yml` and files with definitions, which `spark-pipelines` runs as well. Added
here are a catalog that lasts, a look at topics before flows start, and who has come how far. Spark is imported when it
is to run, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bifrost.pipeline.failures import PipelineError as PipelineError
    from bifrost.pipeline.flows import Flow as Flow
    from bifrost.pipeline.running import Outcome as Outcome
    from bifrost.pipeline.running import run as run

_HOMES = {"Flow": "flows", "Outcome": "running", "PipelineError": "failures", "run": "running"}

__all__ = ["Flow", "Outcome", "PipelineError", "run"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
