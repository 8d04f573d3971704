"""How far a consumer is, as a table: what `Consumer.offsets()` returns.

Every offset is that of the next message: `position` of the next one that will be given out, `committed` of the next one
that the group would start with, `end` of the next one that will be produced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from bifrost.client.errors import UnknownPartitionError

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS: Final = ("topic", "partition", "position", "committed", "end", "lag")


class PartitionOffsets(NamedTuple):
    """One partition's row. `None` is what nobody knows (yet): no position, nothing committed, no group."""

    topic: str
    partition: int
    position: int | None
    committed: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Messages between here and the end; counted from the committed offset as long as there is no position."""
        here = self.committed if self.position is None else self.position
        return None if here is None or self.end is None else max(0, self.end - here)


class OffsetTable(Sequence[PartitionOffsets]):
    """The partitions of a consumer, in order; a sequence of rows that prints as a table.

    >>> table = OffsetTable([PartitionOffsets("readings", 1, 5, None, 7), PartitionOffsets("readings", 0, 10, 8, 12)])
    >>> print(table)
    topic     partition  position  committed  end  lag
    readings          0        10          8   12    2
    readings          1         5          -    7    2
    >>> table.lag
    4
    >>> table["readings", 0].committed
    8
    """

    def __init__(self, rows: Iterable[PartitionOffsets]) -> None:
        self._rows = sorted(rows, key=lambda row: row[:2])

    @property
    def lag(self) -> int:
        """Messages that are still to be read, in all partitions of which that is known."""
        return sum(row.lag or 0 for row in self._rows)

    @overload
    def __getitem__(self, which: int | tuple[str, int]) -> PartitionOffsets: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[PartitionOffsets]: ...
    def __getitem__(self, which: int | slice | tuple[str, int]) -> PartitionOffsets | Sequence[PartitionOffsets]:
        if not isinstance(which, tuple):
            return self._rows[which]
        for row in self._rows:
            if row[:2] == tuple(which):
                return row
        raise UnknownPartitionError(f"{which[0]}-{which[1]} is not in this table", "It has the assigned partitions.")

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[PartitionOffsets]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetTable) and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        cells = [COLUMNS, *(_cells(row) for row in self._rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
        return "\n".join(
            "  ".join(
                text.ljust(width) if column == 0 else text.rjust(width)
                for column, (text, width) in enumerate(zip(row, widths))
            )
            for row in cells
        )

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table()
        for column in COLUMNS:
            table.add_column(column, justify="left" if column == "topic" else "right")
        for row in self._rows:
            table.add_row(*_cells(row))
        return table

    def __repr__(self) -> str:
        return f"OffsetTable({self._rows!r})"


def _cells(row: PartitionOffsets) -> tuple[str, ...]:
    return (row.topic, *("-" if number is None else str(number) for number in (*row[1:], row.lag)))
