"""What goes wrong with a pipeline, in a sentence. Spark says it in a hundred lines, with the cause in the middle."""

from __future__ import annotations

import re
from typing import Final

from bifrost.client.errors import BifrostError, ConfigError


class PipelineError(BifrostError):
    """The run ended before its flows did; the text says which flow, and why."""


class ProjectError(ConfigError):
    """There is no project, or its specification cannot be read."""


_PYTHON_ERROR: Final = re.compile(
    r"^(?:[a-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Batch): (?P<said>\S.*)$", re.MULTILINE
)
_SPARK_ERROR: Final = re.compile(r"\[[A-Z][A-Z0-9_.]+\] (?P<said>[^\n]+)")
_LOCKED: Final = "Another instance of Derby may have already booted"
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*$")


def cause(text: str) -> str:
    """The one line of Spark's report that says what happened.

    What Python raised comes first: Spark wraps it in its own words, some of them more than once.
    """
    if _LOCKED in text:
        return "another run of this pipeline holds its catalog"
    raised = _PYTHON_ERROR.findall(text)
    if raised:
        return str(raised[-1]).strip()
    said = _SPARK_ERROR.search(text)
    first = (
        said["said"] if said else next((line for line in text.splitlines() if line.strip()), "Spark does not say why")
    )
    return _STATE.sub("", first.removeprefix("Error: ")).strip()
