"""A cluster for tests: real nodes, real sockets, ports chosen by the system.

Nodes run in threads of the calling process, each with a loop of its own, or as processes of their own when they are to
be killed for real. Either way it is the node that production runs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from bifrost.testing.embedded import EmbeddedNode
from bifrost.testing.process import ProcessNode


class Cluster:
    """A Bifrost cluster that lives as long as a `with` block.

    Settings are Kafka's, with underscores for dots: `Cluster(num_partitions=4)`; names that need it can be given as
    they are: `Cluster(**{"log.segment.bytes": 1 << 20})`. Data live in `data_dir`, or in a temporary directory that is
    removed at the end. `flush_policy` is `os` unless set: what a node wrote survives its death, if not the machine's.
    """

    def __init__(
        self, brokers: int = 1, *, processes: bool = False, data_dir: str | Path | None = None, **settings: object
    ) -> None:
        if brokers != 1:
            raise ValueError("one broker per cluster for now: replication is not there yet")
        self._keep_data = data_dir is not None
        self.data_dir = Path(data_dir) if data_dir is not None else Path(tempfile.mkdtemp(prefix="bifrost-"))
        named = {"flush.policy": "os", **{name.replace("_", "."): _text(value) for name, value in settings.items()}}
        self._nodes: list[EmbeddedNode | ProcessNode] = [
            self._node(index, named, processes=processes) for index in range(brokers)
        ]

    def _node(self, index: int, settings: Mapping[str, str], *, processes: bool) -> EmbeddedNode | ProcessNode:
        own = {"node.id": str(index), "log.dirs": str(self.node_dir(index)), **settings}
        return ProcessNode(own) if processes else EmbeddedNode(own)

    def node_dir(self, index: int) -> Path:
        """Where node `index` keeps its partitions."""
        return self.data_dir / f"node-{index}"

    def node(self, index: int) -> EmbeddedNode | ProcessNode:
        """Node `index` itself: an embedded one shows its counters, one that is a process takes signals."""
        return self._nodes[index]

    @property
    def bootstrap(self) -> str:
        """What clients call `bootstrap.servers`."""
        return ",".join(node.address for node in self._nodes)

    def start(self) -> Self:
        for node in self._nodes:
            node.start()
        return self

    def close(self) -> None:
        """Stop every node and remove temporary data, which nobody has to store and sync first."""
        try:
            for node in self._nodes:
                node.stop() if self._keep_data else node.kill()
        finally:
            if not self._keep_data:
                shutil.rmtree(self.data_dir, ignore_errors=True)

    def stop(self, index: int) -> None:
        """Shut node `index` down in good order."""
        self._nodes[index].stop()

    def kill(self, index: int) -> None:
        """End node `index` at once: nothing is flushed, no connection is closed in order."""
        self._nodes[index].kill()

    def restart(self, index: int) -> None:
        """Start node `index` again, on the port and the data that it had."""
        self._nodes[index].stop()
        self._nodes[index].start()

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


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
