"""From samples to rows: medians, ratios, spread, and what is written down for later comparison.

Pure except for `save`. Ratios are subject : reference, never the other way round; whether more is better is the
metric's affair.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
import statistics

from bench.clients.job import Result
from bench.question import Better, Effort, Metric, Question

CLIENT_BOUND = 0.9  # a client that uses this much of a core is what limits the figure
STILL_WARMING = 1.2
FOREIGN_NOISY = 0.2  # so much of a core used by strangers makes a sample doubtful


@dataclasses.dataclass(slots=True)
class Answered:
    """A question with the samples of each side (0 reference, 1 subject), or why there are none."""

    question: Question
    samples: list[list[Result]]
    failure: str = ""
    seconds: float = 0.0  # spent on it, preparations included


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    question: str
    title: str
    policy: str
    metric: Metric
    reference: float | None
    subject: float | None
    ratio: float | None
    met: bool | None
    spread: float  # the larger (max - min) / median of the two sides
    notes: str


def rows(answered: Answered, effort: Effort) -> list[Row]:
    """None where the question failed."""
    if answered.failure:
        return []
    question = answered.question
    return [_row(question, metric, answered.samples, effort) for metric in question.metrics]


def _row(question: Question, metric: Metric, samples: list[list[Result]], effort: Effort) -> Row:
    values = [[sample[metric.key] for sample in side] for side in samples]
    figures = [metric.of_samples(side) if side else None for side in values]
    reference, subject = figures[0], figures[1] if len(figures) > 1 else None
    ratio = subject / reference if subject is not None and reference else None
    notes = _notes(samples, metric.key)
    if "n" not in notes and any(_warming(side, metric.better) for side in values):
        notes += "w"  # on a busy machine a trend says nothing
    return Row(
        question=question.name,
        title=question.title_for(effort),
        policy=question.pairing.words,
        metric=metric,
        reference=reference,
        subject=subject,
        ratio=ratio,
        met=metric.met(ratio, subject) if ratio is not None and subject is not None else None,
        spread=max((_spread(side) for side in values), default=0.0),
        notes=notes,
    )


def _spread(values: list[float]) -> float:
    middle = statistics.median(values) if values else 0.0
    return (max(values) - min(values)) / middle if middle else 0.0


def _warming(values: list[float], better: Better) -> bool:
    """Each sample better than the one before, and by much in all: a JVM was not done compiling."""
    rising = values if better is Better.MORE else [1 / value for value in values if value]
    steady = len(rising) > 2 and all(later > earlier for earlier, later in itertools.pairwise(rising))
    return steady and rising[-1] > rising[0] * STILL_WARMING


def _notes(samples: list[list[Result]], key: str) -> str:
    """c: the client was the limit; n: strangers used the machine."""
    prefix = next((p for p in ("produce_", "consume_") if key.startswith(p)), "")
    notes = ""
    for letter, cost, limit in (("c", "client", CLIENT_BOUND), ("n", "foreign", FOREIGN_NOISY)):
        shares = [
            sample[f"{prefix}{cost}_cpu_seconds"] / sample[f"{prefix}seconds"]
            for side in samples
            for sample in side
            if f"{prefix}{cost}_cpu_seconds" in sample
        ]
        if shares and statistics.median(shares) > limit:
            notes += letter
    return notes


def save(
    folder: pathlib.Path, stamp: str, content: dict[str, object], answers: list[Answered], effort: Effort
) -> pathlib.Path:
    """Writes `<stamp>.json`: settings, machine, rows and every sample."""
    folder.mkdir(parents=True, exist_ok=True)
    table = []
    for answered in answers:
        for row in rows(answered, effort):
            plain = dataclasses.asdict(row) | {"metric": row.metric.key, "unit": row.metric.unit, "aim": row.metric.aim}
            plain |= {"limit": row.metric.limit}
            table.append(plain | {"better": row.metric.better.value})
    record = {
        **content,
        "effort": dataclasses.asdict(effort),
        "rows": table,
        "samples": {answered.question.name: answered.samples for answered in answers},
        "seconds": {answered.question.name: round(answered.seconds, 1) for answered in answers},
        "failures": {answered.question.name: answered.failure for answered in answers if answered.failure},
    }
    path = folder / f"{stamp}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path
