"""Which segments become one: as many in a row as still make a segment. Kafka: Cleaner.groupSegmentsBySize.

Not all too many at once, unlike in Kafka: they are replaced in one turn of the loop, which renames their files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bifrost.log.cleaning.task import Source
from bifrost.log.index import RELATIVE_OFFSET_MAX
from bifrost.log.names import OFFSET_INDEX, TIME_INDEX

_SOURCES_MAX: Final = 50


def group_sources(
    sources: Sequence[Source],
    file_sizes: Mapping[str, int],
    *,
    end_offset: int,
    segment_bytes: int,
    segment_index_bytes: int,
) -> list[list[Source]]:
    """By what they take before they are cleaned: nobody knows yet what is left of them. `end_offset` ends the last."""
    groups: list[list[Source]] = []
    ends = [*(source.base_offset for source in sources[1:]), end_offset]
    taken = [0, 0, 0]
    for source, end in zip(sources, ends):
        name = f"{source.base_offset:020d}"
        adds = [source.size, file_sizes.get(name + OFFSET_INDEX, 0), file_sizes.get(name + TIME_INDEX, 0)]
        limits = (segment_bytes, segment_index_bytes, segment_index_bytes)
        if (
            groups
            and len(groups[-1]) < _SOURCES_MAX
            and all(have + more <= limit for have, more, limit in zip(taken, adds, limits))
            and end - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        ):
            groups[-1].append(source)
            taken = [have + more for have, more in zip(taken, adds)]
        else:
            groups.append([source])
            taken = adds
    return groups
