"""The table of questions, in the order they are asked.

Those that need peers of their own stand first and last, so that the shared peers run in one stretch.
"""

from __future__ import annotations

from bench.question import Question
from bench.questions import footprint, groups, real_client, requests, scale, throughput

QUESTIONS: tuple[Question, ...] = (
    *footprint.STARTING,
    *groups.FLUSHED_COMMITS,
    *throughput.QUESTIONS,
    *requests.QUESTIONS,
    *real_client.QUESTIONS,
    *groups.QUESTIONS,
    *footprint.LOADED,
    *scale.CONNECTIONS,
    *scale.PARTITIONS,
)
