"""What became of the messages of one producer: sent, acknowledged and stored, compared for each partition.

Three counts from three sources: `sent` is counted when a message is handed over, `acknowledged` when the broker has
confirmed it, `stored` by asking the cluster where the partition ends now. A report is a snapshot and never changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = ("topic", "partition", "sent", "acknowledged", "failed", "stored", "offsets")


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One line of the report."""

    topic: str
    partition: int | None
    """None: messages under way, or given up, before a partition was chosen for them."""
    sent: int
    acknowledged: int
    failed: int
    """Given up: what was not acknowledged in time may still have been stored."""
    stored: int | None
    """Messages in the partition from this producer's first one on; more than acknowledged if others write there too.

    None: the cluster was not asked, or did not answer."""
    first_offset: int | None
    last_offset: int | None

    @property
    def pending(self) -> int:
        return self.sent - self.acknowledged - self.failed

    @property
    def complete(self) -> bool:
        """Everything sent is acknowledged, and nothing that is acknowledged is missing."""
        return self.sent == self.acknowledged and (self.stored is None or self.stored >= self.acknowledged)

    def cells(self) -> tuple[str, ...]:
        if self.first_offset is None:
            offsets = ""
        elif self.first_offset == self.last_offset:
            offsets = f"{self.first_offset}"
        else:
            offsets = f"{self.first_offset}-{self.last_offset}"
        partition = "?" if self.partition is None else str(self.partition)
        return self.topic, partition, *self._counts(), offsets

    def _counts(self) -> tuple[str, ...]:
        counts = (self.sent, self.acknowledged, self.failed)
        return *(f"{count:,}" for count in counts), "?" if self.stored is None else f"{self.stored:,}"


@dataclass(frozen=True, slots=True)
class Report:
    """All partitions that a producer has sent to. `print(report)` shows a table, and so does rich."""

    partitions: tuple[PartitionReport, ...]

    @property
    def sent(self) -> int:
        return sum(each.sent for each in self.partitions)

    @property
    def acknowledged(self) -> int:
        return sum(each.acknowledged for each in self.partitions)

    @property
    def failed(self) -> int:
        return sum(each.failed for each in self.partitions)

    @property
    def pending(self) -> int:
        """Sent, and neither acknowledged nor given up yet."""
        return sum(each.pending for each in self.partitions)

    @property
    def stored(self) -> int | None:
        counts = [each.stored for each in self.partitions if each.acknowledged]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def complete(self) -> bool:
        """Everything sent is acknowledged, and nothing that is acknowledged is missing from its partition."""
        return all(each.complete for each in self.partitions)

    def summary(self) -> str:
        """The report in one line."""
        rest = [f"{count:,} {name}" for count, name in ((self.failed, "failed"), (self.pending, "pending")) if count]
        stored = "" if self.stored is None else f", {self.stored:,} stored"
        return ", ".join([f"{self.sent:,} sent, {self.acknowledged:,} acknowledged{stored}", *rest])

    def __str__(self) -> str:
        rows = [_COLUMNS, *(each.cells() for each in self.partitions)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = [
            "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in fields)
            for fields in (enumerate(zip(row, widths)) for row in rows)
        ]
        return "\n".join(line.rstrip() for line in [*lines, self.summary()])

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(caption=self.summary(), caption_justify="left")
        for name in _COLUMNS:
            table.add_column(name, justify="left" if name == "topic" else "right")
        for each in self.partitions:
            table.add_row(*each.cells(), style=None if each.complete else "red")
        return table
