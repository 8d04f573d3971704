"""Error codes of answers as the errors that clients raise, and which of them are worth another attempt."""

from __future__ import annotations

from typing import Final

from bifrost.client.errors import BifrostError, TimedOutError, UnknownTopicError, UnreachableError, explain
from bifrost.errors import ErrorCode

_LIBRDKAFKA_NAMES: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PART",
    ErrorCode.MESSAGE_TOO_LARGE: "MSG_SIZE_TOO_LARGE",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "TOPIC_EXCEPTION",
}

TRANSPORT_FAILURES: Final = (UnreachableError, TimedOutError)
"""What a connection raises when another attempt, perhaps at another broker, may do better."""


class TryAgain(Exception):  # noqa: N818 - not an error: it says what to do
    """An answer that may be another one in a moment; `failure` is what to raise when time is over."""

    def __init__(self, failure: BifrostError) -> None:
        super().__init__(str(failure))
        self.failure = failure


def from_code(
    number: int,
    *,
    detail: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    bootstrap: str | None = None,
) -> BifrostError:
    """The error for a code that an answer carried."""
    code = ErrorCode(number)
    text = detail or f"the broker answered {code.name}" + ("" if code == number else f" ({number})")
    name = _LIBRDKAFKA_NAMES.get(code, code.name)
    made = explain(name, text, topic=topic, partition=partition, bootstrap=bootstrap)
    place = "" if topic is None or partition is None else f"{topic}-{partition}"
    problem = made.problem if place in made.problem else f"{place}: {made.problem}"
    return type(made)(problem, made.hint, code=code.name)


def made_anew(topic: str, what: str) -> UnknownTopicError:
    """Another topic has the name now. To go on would repeat, skip or mix without a word."""
    return UnknownTopicError(
        f"topic {topic} was deleted and made anew while it was {what}",
        "Start again from its beginning.",
        code=ErrorCode.UNKNOWN_TOPIC_ID.name,
    )
