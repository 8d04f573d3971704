"""Which topic names are legal (Kafka: org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re

from bifrost.errors import ApiError, ErrorCode

NAME_LENGTH_MAX = 249  # with `-` and a partition number behind it, a directory name still fits into 255 bytes
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise ApiError(INVALID_TOPIC_EXCEPTION) unless `name` can name a topic, and with it a directory."""
    problem = None
    if not name:
        problem = "a topic needs a name"
    elif name in (".", ".."):
        problem = f"{name!r} cannot name a topic"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"a topic name has at most {NAME_LENGTH_MAX} characters; this one has {len(name)}"
    elif _LEGAL.fullmatch(name) is None:
        problem = f"topic name {name!r} has characters other than a-z, A-Z, 0-9, '.', '_' and '-'"
    if problem:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
