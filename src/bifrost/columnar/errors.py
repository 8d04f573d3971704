"""What is raised about columns, beside what any client raises."""

from __future__ import annotations

from typing import Any

from bifrost.client.errors import CorruptDataError, InvalidRequestError, UnsupportedError


class CorruptBatch(CorruptDataError):  # noqa: N818  # it is a batch that is raised about, as in Kafka's words
    """A batch of a topic is not what was once written: `topic`, `partition` and `offset` say which one."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str, *, next_offset: int | None = None) -> None:
        super().__init__(topic, partition, offset, reason)
        self.code = "CORRUPT_MESSAGE"
        self.reason = reason
        self.next_offset = next_offset
        """The first offset behind the batch, if its header can be trusted that far."""
        if next_offset is not None:
            self.hint = f"{self.hint.rstrip('.')}. To leave the batch out, start behind it, at {next_offset}."


class InvalidRow(InvalidRequestError):  # noqa: N818  # it is a row that is raised about
    """A row that cannot become a record; `row` says which one of those that were to be encoded."""

    def __init__(self, row: int, problem: str, hint: str) -> None:
        super().__init__(problem, hint)
        self.row = row


def arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise UnsupportedError(
            "columns need pyarrow, which is not installed", "pip install 'bifrost-stream[arrow]'."
        ) from error
    return pyarrow
