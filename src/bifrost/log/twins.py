"""Two logs of one partition in two directories of a node: which of them counts. Pure.

A deletion whose new name was lost with the power leaves files behind, and the topic that was made under the old name
meanwhile may live in another directory. So may a creation that failed half way. Of two topics only one is known.

Two of the same topic are left where a node dies just when a copy takes the place of the log that it was made from
(`future.py`), or where a disk comes back that had failed while its replicas were built anew elsewhere. Then the one
counts that has most: the later leader epoch first, the greater end second, as in Raft. Whatever was committed while the
other was in use is in it. Kafka does not start until somebody has removed one of them.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class Twin(NamedTuple):
    """What one of the two says of itself."""

    topic_id: UUID | None
    leader_epoch: int
    end_offset: int


def second_counts(first: Twin, second: Twin, expected: UUID | None) -> bool | None:
    """Whether it is the second; None if nobody can tell. `expected` is the id of the topic, if there is such a one."""
    if first.topic_id != second.topic_id:
        if first.topic_id != expected and (second.topic_id == expected or first.topic_id is not None):
            return True
        if second.topic_id != expected and (first.topic_id == expected or second.topic_id is not None):
            return False
    if first.topic_id is None:
        return None
    return (second.leader_epoch, second.end_offset) > (first.leader_epoch, first.end_offset)
