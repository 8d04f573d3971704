"""A cluster for tests: real nodes, real sockets, ports chosen by the system.

Nodes run in threads of the calling process, each with a loop of its own, or as processes of their own when they are to
be killed or paused for real. Either way they are the nodes that production runs, in the arrangement of `bifrost up`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar

from bifrost.realm.plan import PlannedNode, Ports, Shape, plan
from bifrost.realm.ports import ReservedPorts
from bifrost.testing.embedded import EmbeddedNode
from bifrost.testing.process import ProcessNode

AnyNode: TypeAlias = EmbeddedNode | ProcessNode

Result = TypeVar("Result")

_ANSWER_S: Final = 5.0
_NO_RETENTION_MS: Final = "86400000"
"""Tests like records from long ago, which would go half a minute after the start: nobody tests for a day."""
_NOTHING: Final[Mapping[str, object]] = {}


class Cluster:
    """A Bifrost cluster that lives as long as a `with` block.

    One broker is a node that is its own controller. Several have a quorum of Odins beside them, three unless `odins`
    says how many. Brokers have the ids 0, 1, 2 and so on, Odins 100, 101, 102; nodes are named by id everywhere.

    Settings are Kafka's, with underscores for dots: `Cluster(num_partitions=4)`; names that need it can be given as
    they are: `Cluster(**{"log.segment.bytes": 1 << 20})`. `broker_settings` and `odin_settings` hold for one kind of
    node and win. Data live in `data_dir`, or in a temporary directory that is removed at the end. `flush_policy` is
    `os` unless set: what a node wrote survives its death, if not the machine's. Records stay however old their
    timestamps are, unless `log_initial_task_delay_ms` says when retention begins.
    """

    def __init__(
        self,
        brokers: int = 1,
        odins: int | None = None,
        *,
        processes: bool = False,
        data_dir: str | Path | None = None,
        broker_settings: Mapping[str, object] = _NOTHING,
        odin_settings: Mapping[str, object] = _NOTHING,
        **settings: object,
    ) -> None:
        shape = Shape.of(brokers, odins)
        self._keep_data = data_dir is not None
        self.data_dir = Path(data_dir) if data_dir is not None else Path(tempfile.mkdtemp(prefix="bifrost-"))
        # Voters name each other before the first one listens. A lone node simply takes a port, and keeps it.
        self._ports = ReservedPorts(0 if shape.is_one_node else brokers + shape.odins)
        planned = plan(shape, self.data_dir, Ports.dealt(self._ports.numbers or [0], shape))
        shared = {"flush.policy": "os", "log.initial.task.delay.ms": _NO_RETENTION_MS, **_named(settings)}
        by_role = {True: {**shared, **_named(broker_settings)}, False: {**shared, **_named(odin_settings)}}
        self._nodes: dict[int, AnyNode] = {
            each.id: _node({**_own(each), **by_role[each.is_broker]}, processes=processes) for each in planned
        }
        self.brokers: tuple[AnyNode, ...] = tuple(self._nodes[each.id] for each in planned if each.is_broker)
        self.odins: tuple[AnyNode, ...] = tuple(self._nodes[each.id] for each in planned if not each.is_broker)
        """Nodes that are controllers and nothing else: none, if a single node is everything."""

    def node_dir(self, node_id: int) -> Path:
        """Where the node keeps its partitions."""
        return Path(self._nodes[node_id].settings["log.dirs"])

    def node(self, node_id: int) -> AnyNode:
        """The node itself: an embedded one shows its counters, one that is a process takes signals."""
        return self._nodes[node_id]

    @property
    def bootstrap(self) -> str:
        """What clients call `bootstrap.servers`: all brokers, whether they are up or not."""
        return ",".join(node.address for node in self.brokers)

    def start(self) -> Self:
        """Start all nodes at once. If one of them cannot, all of them end, and its error is raised."""
        nodes = list(self._nodes.values())
        with ThreadPoolExecutor(len(nodes)) as pool:
            starts = [pool.submit(node.start) for node in nodes]
            try:
                for done in as_completed(starts):
                    done.result()
            except BaseException:
                for node in nodes:  # else the others would wait for a majority that never comes
                    node.kill()
                raise
        return self

    def close(self) -> None:
        """Stop every node and remove temporary data, which nobody has to store and sync first."""
        try:
            if self._keep_data:
                for nodes in (self.brokers, self.odins):  # brokers need the quorum to leave it in order
                    _at_once(lambda node: node.stop(), nodes)
            else:
                for nodes in (self.odins, self.brokers):  # nobody is left to mourn a broker in the test's output
                    _at_once(lambda node: node.kill(), nodes)
        finally:
            self._ports.release()
            if not self._keep_data:
                shutil.rmtree(self.data_dir, ignore_errors=True)

    def stop(self, node_id: int) -> None:
        """Shut the node down in good order."""
        self._nodes[node_id].stop()

    def kill(self, node_id: int) -> None:
        """End the node at once: nothing is flushed, no connection is closed in order."""
        self._nodes[node_id].kill()

    def restart(self, node_id: int) -> None:
        """Start the node again, on the port and the data that it had; stop it first, if it runs."""
        self._nodes[node_id].stop()
        self._nodes[node_id].start()

    def pause(self, node_id: int) -> None:
        """Freeze the node, as a machine does that hangs: its connections stay open. Only with `processes=True`."""
        self._nodes[node_id].pause()

    def resume(self, node_id: int) -> None:
        """Let a paused node go on, as if no time had passed for it."""
        self._nodes[node_id].resume()

    def active_odin(self) -> AnyNode | None:
        """The node that decides for the cluster, as the nodes themselves tell it; None while nobody does.

        Of two that believe it, which happens when one was cut off for a while, the one with the later epoch.
        """
        from bifrost.client.wire.connection import Address
        from bifrost.client.wire.quorum import ask_controller

        def epoch(node: AnyNode) -> int:
            host, port = node.address.rsplit(":", 1)
            quorum = ask_controller(Address(host, int(port)), _ANSWER_S) if node.is_running else None
            return -1 if quorum is None or quorum.leader != node.id else quorum.epoch

        nodes = self.odins or self.brokers
        told = dict(zip(nodes, _at_once(epoch, nodes)))
        active = max(nodes, key=lambda node: told[node])
        return active if told[active] >= 0 else None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cluster(bootstrap={self.bootstrap!r}, data_dir={str(self.data_dir)!r})"


def _own(planned: PlannedNode) -> dict[str, str]:
    """The settings of a node; a lone one takes any port at first, and the same again later."""
    settings = dict(planned.settings)
    if settings["listeners"].endswith(":0"):
        del settings["listeners"]
    return settings


def _node(settings: Mapping[str, str], *, processes: bool) -> AnyNode:
    return ProcessNode(settings) if processes else EmbeddedNode(settings)


def _at_once(work: Callable[[AnyNode], Result], nodes: Iterable[AnyNode]) -> list[Result]:
    listed = list(nodes)
    with ThreadPoolExecutor(max(1, len(listed))) as pool:
        return list(pool.map(work, listed))


def _named(settings: Mapping[str, object]) -> dict[str, str]:
    return {name.replace("_", "."): _text(value) for name, value in settings.items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
