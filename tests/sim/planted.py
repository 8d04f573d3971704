"""Bugs to plant into the node, so that the simulator can prove that it would find them.

Each breaks one promise of production code, from outside: the code itself has no switch for it. `test_planted.py` names
a seed that finds each; when a change of the code moves what seeds do,
`make sim SEEDS=50 ARGS="--planted NAME"` tells which ones find it now.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from bifrost.errors import StorageError
from bifrost.log import loading, recovery
from bifrost.log.flush_job import FlushJob
from bifrost.log.producers import ProducerStates
from bifrost.replication.core.leader import Effects, PartitionLeader
from bifrost.replication.partition import Partition
from tests.sim.bug import Bug
from tests.sim.compacted.planted import COMPACTED_PLANTED
from tests.sim.crowd.planted import GROUP_PLANTED
from tests.sim.storage import SimDisk


def _without(owner: type, name: str, statement: str) -> AbstractContextManager[Any]:
    """The method as it would be had somebody deleted the statement."""
    method = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(method))
    assert source.count(statement) == 1, f"{owner.__name__}.{name} has no single {statement}"
    found: dict[str, Any] = {}
    exec(source.replace(statement, "pass"), method.__globals__, found)  # our own source, less one statement
    return patch.object(owner, name, found[name])


def no_data_sync() -> AbstractContextManager[Any]:
    """The one call that brings what was appended to the disk (fdatasync) is deleted."""
    return _without(FlushJob, "run", "file.sync()")


def no_directory_sync() -> AbstractContextManager[Any]:
    """Directories are not synced: names of new files may be lost, and the files with them."""
    return patch.object(SimDisk, "sync_directory", lambda self, path: None)


def acknowledge_before_sync() -> AbstractContextManager[Any]:
    """A write counts as safe as soon as it was written."""

    def is_acknowledged(self: Partition, next_offset: int, _acks: int = -1) -> bool:
        return self.log.log_end_offset >= next_offset

    return patch.object(Partition, "is_acknowledged", is_acknowledged)


def show_before_sync() -> AbstractContextManager[Any]:
    """The high watermark follows the end of the log."""

    def on_append(self: PartitionLeader, log_end_offset: int, durable_offset: int) -> Effects:
        self.log_end_offset = log_end_offset
        return self.on_durable(log_end_offset)

    return patch.object(PartitionLeader, "on_append", on_append)


def ignore_failed_sync() -> AbstractContextManager[Any]:
    """A sync that failed is taken for one that did not."""
    run = FlushJob.run

    def run_anyway(self: FlushJob) -> None:
        try:
            run(self)
        except StorageError:
            pass

    return patch.object(FlushJob, "run", run_anyway)


@contextmanager
def forget_producers() -> Iterator[None]:
    """Producer states are not restored after a start: what is sent again is stored again."""
    with ExitStack() as stack:
        for module in (loading, recovery):
            stack.enter_context(patch.object(module, "load_producers", lambda *_, **__: ProducerStates()))
        yield


def keep_torn_tails() -> AbstractContextManager[Any]:
    """Recovery does not cut off what a loss of power left of the last batches."""
    return _without(recovery._Recovery, "_scan_segment", "file.truncate(good)")


_POWER = ("lose_power",)
_SLOW = ("lose_power", "slow_disk")

PLANTED = {
    "no-data-sync": Bug(no_data_sync, "ack", _POWER, ("lost write", "lost metadata", "node failed")),
    "no-directory-sync": Bug(no_directory_sync, "ack", _POWER, ("lost write", "lost metadata", "node failed")),
    "acknowledge-before-sync": Bug(acknowledge_before_sync, "ack", _SLOW, ("lost write", "watermark went back")),
    "show-before-sync": Bug(show_before_sync, "ack", _SLOW, ("lost write", "vanished read")),
    "ignore-failed-sync": Bug(ignore_failed_sync, "ack", ("fail_disk",), ("lost write", "watermark went back")),
    "forget-producers": Bug(forget_producers, "ack", ("kill", "slow_disk"), ("duplicate",)),
    "keep-torn-tails": Bug(keep_torn_tails, "os", _POWER, ("node failed", "not served", "corrupt batch")),
    **GROUP_PLANTED,
    **COMPACTED_PLANTED,
}
