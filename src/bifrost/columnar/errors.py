"""What is raised about columns, beside what any client raises."""

from __future__ import annotations

from typing import Any

from bifrost.client.errors import BifrostError, UnsupportedError


class CorruptBatch(BifrostError, ValueError):  # noqa: N818  # it is a batch that is raised about, as in Kafka's words
    """A batch of a topic is not what was once written: `topic`, `partition` and `offset` say which one."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str, *, next_offset: int | None = None) -> None:
        behind = "" if next_offset is None else f", or start behind it, at offset {next_offset}"
        super().__init__(
            f"{topic}-{partition}: the batch at offset {offset} is corrupt: {reason}",
            f"Read it from another replica{behind}.",
            code="CORRUPT_MESSAGE",
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.reason = reason
        self.next_offset = next_offset
        """The first offset behind the batch, if its header can be trusted that far."""


def arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise UnsupportedError(
            "columns need pyarrow, which is not installed", "pip install 'bifrost-stream[arrow]'."
        ) from error
    return pyarrow
