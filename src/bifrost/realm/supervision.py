"""When a node that ended is started again, when that is given up, and in which order all of them stop.

Decides from what it is told, at the time it is told; starts nobody, signals nobody, reads no clock. What the driver
owes after each event is in `Effects`, in the order of its fields.

A node that ends is started again after a pause, which doubles while it keeps ending soon after it was started. One that
does so too often is given up; the others go on. If a node ends before all of them were ready for the first time, the
cluster as a whole has failed to start, and stops: settings that are wrong do not become right by trying again. A
cluster that was ready at an earlier time starts without a node whose disk is spoilt, if it can.

Brokers stop first, because they need the quorum to hand over what they lead. Who does not stop in time is killed.

Nodes may come and go meanwhile. One that joins and ends before it was ever ready is not tried again: whoever wanted it
is there to hear why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """Of one node."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    """It ended, and is started again after a pause."""
    DEAD = "dead"
    """It ended, and nobody starts it again."""
    GIVEN_UP = "given up"
    STOPPING = "stopping"
    STOPPED = "stopped"

    @property
    def has_process(self) -> bool:
        return self in {State.STARTING, State.RUNNING, State.STOPPING}


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient the supervisor is; times in milliseconds."""

    restarts: bool = True
    first_pause_ms: int = 250
    pause_ms_max: int = 10_000
    steady_ms: int = 10_000
    """Who served for so long is well: what ended it before does not count any more."""
    quick_deaths_max: int = 6
    stop_ms: int = 20_000
    """For all brokers together, and then for all Odins."""


@dataclass(slots=True)
class Watched:
    """What is known of one node."""

    name: str
    is_broker: bool
    state: State = State.WAITING
    since_ms: int = 0
    restarts: int = 0
    quick_deaths: int = 0
    start_at_ms: int = 0
    is_new: bool = False
    """It joined, and was not ready yet."""
    is_retiring: bool = False
    """It goes for good."""


@dataclass(slots=True)
class Effects:
    """What the driver does next."""

    kill: list[str] = field(default_factory=list)
    terminate: list[str] = field(default_factory=list)
    start: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Nodes that are none of the cluster's any more."""
    tell: list[tuple[str, str]] = field(default_factory=list)
    """News of nodes, for people."""


class Supervision:
    """The nodes of one cluster, from the first start to the last stop."""

    def __init__(self, nodes: Iterable[tuple[str, bool]], policy: Policy, *, was_ready_before: bool = False) -> None:
        """`nodes` are names, and whether each is a broker; all of them may have been ready before, on these data."""
        self.nodes = {name: Watched(name, is_broker) for name, is_broker in nodes}
        self.is_stopping = False
        self.were_all_ready = False
        self.failed: str | None = None
        """The node that kept the cluster from starting."""
        self._policy = policy
        self._was_ready_before = was_ready_before
        self._kill_at_ms: int | None = None

    @property
    def is_over(self) -> bool:
        """Nobody runs, and nobody will be started."""
        return all(not each.state.has_process and each.state is not State.WAITING for each in self.nodes.values())

    def deadline_ms(self) -> int | None:
        """When `on_tick` is due."""
        starts = [each.start_at_ms for each in self.nodes.values() if each.state is State.WAITING]
        if self._kill_at_ms is not None:
            starts.append(self._kill_at_ms)
        return min(starts, default=None)

    def on_begin(self, now_ms: int) -> Effects:
        """Start everybody."""
        effects = Effects()
        for node in self.nodes.values():
            self._start(node, now_ms, effects)
        return effects

    def on_ready(self, name: str, address: str, now_ms: int) -> Effects:
        """The node serves."""
        node, effects = self.nodes[name], Effects()
        if node.state is State.STARTING:
            self._enter(node, State.RUNNING, now_ms)
            node.is_new = False
            effects.tell.append((name, f"is {'back' if node.restarts else 'ready'} at {address}"))
        self._settle()
        return effects

    def on_exit(self, name: str, how: str, now_ms: int) -> Effects:
        """The node's process ended; `how` says in which way, such as `was killed by SIGKILL`."""
        node, effects = self.nodes[name], Effects()
        ran_ms = now_ms - node.since_ms if node.state is State.RUNNING else 0
        if self.is_stopping:
            if node.state is State.STOPPING:
                effects.tell.append((name, "stopped" if how == CLEAN else f"{how} while it was stopping"))
            self._enter(node, State.STOPPED, now_ms)
            self._go_on_stopping(now_ms, effects)
        elif node.is_retiring:
            effects.tell.append((name, "stopped for good" if how == CLEAN else f"{how} while it was stopping for good"))
            self._drop(node, effects)
        elif node.is_new:
            effects.tell.append((name, f"{how} before it was ready, and is not started again"))
            self._drop(node, effects)
        elif not self.were_all_ready and not self._can_do_without(node):
            self.failed = name
            self._enter(node, State.DEAD, now_ms)
            effects.tell.append((name, f"{how} before it was ready"))
            self._stop(now_ms, effects)
        else:
            if not self.were_all_ready:
                how += " before all were ready, and the others start without it"
            node.quick_deaths = 1 if ran_ms >= self._policy.steady_ms else node.quick_deaths + 1
            if self._policy.restarts:
                self._start_later(node, how, now_ms, effects)
            else:
                self._enter(node, State.DEAD, now_ms)
                effects.tell.append((name, f"{how}; it stays so (--no-restart)"))
            self._settle()
        return effects

    def on_tick(self, now_ms: int) -> Effects:
        """`deadline_ms` has come."""
        effects = Effects()
        for node in self.nodes.values():
            if node.state is State.WAITING and node.start_at_ms <= now_ms:
                node.restarts += 1
                self._start(node, now_ms, effects)
        if self._kill_at_ms is not None and self._kill_at_ms <= now_ms:
            for node in self._stopping():
                effects.kill.append(node.name)
                effects.tell.append((node.name, f"did not stop in {self._policy.stop_ms / 1000:g} s and is killed"))
            self._kill_at_ms = None
        return effects

    def on_join(self, name: str, is_broker: bool, now_ms: int) -> Effects:
        """One more node, of another name than all others."""
        assert name not in self.nodes
        assert not self.is_stopping
        effects = Effects()
        self.nodes[name] = node = Watched(name, is_broker, is_new=True)
        self._start(node, now_ms, effects)
        return effects

    def on_retire(self, name: str, now_ms: int) -> Effects:
        """A node shall stop, in good order, and not be started again."""
        node, effects = self.nodes[name], Effects()
        if self.is_stopping:
            return effects
        node.is_retiring = True
        if not node.state.has_process:
            self._drop(node, effects)
        elif node.state is not State.STOPPING:
            self._enter(node, State.STOPPING, now_ms)
            effects.terminate.append(name)
            self._kill_at_ms = now_ms + self._policy.stop_ms
        return effects

    def on_stop(self, now_ms: int) -> Effects:
        """Somebody wants the cluster to end; who says so twice does not want to wait."""
        effects = Effects()
        if not self.is_stopping:
            self._stop(now_ms, effects)
            return effects
        for node in self.nodes.values():
            if node.state.has_process:
                effects.kill.append(node.name)
        self._kill_at_ms = None
        return effects

    def _can_do_without(self, node: Watched) -> bool:
        """Whether those of its kind that have not ended are enough: a majority of Odins, one broker."""
        kin = [each for each in self.nodes.values() if each.is_broker == node.is_broker]
        left = [each for each in kin if each is not node and not each.quick_deaths]
        return self._was_ready_before and len(left) * 2 > (0 if node.is_broker else len(kin))

    def _settle(self) -> None:
        """The start is over when all are ready but those that it is done without."""
        if all(each.state is State.RUNNING or each.quick_deaths for each in self.nodes.values()):
            self.were_all_ready = True

    def _drop(self, node: Watched, effects: Effects) -> None:
        del self.nodes[node.name]
        effects.gone.append(node.name)
        if not self._stopping():
            self._kill_at_ms = None

    def _start(self, node: Watched, now_ms: int, effects: Effects) -> None:
        self._enter(node, State.STARTING, now_ms)
        effects.start.append(node.name)

    def _start_later(self, node: Watched, how: str, now_ms: int, effects: Effects) -> None:
        policy = self._policy
        if node.quick_deaths >= policy.quick_deaths_max:
            self._enter(node, State.GIVEN_UP, now_ms)
            text = f"{how}; it ended {node.quick_deaths} times soon after its start and is given up"
            effects.tell.append((node.name, text))
            return
        pause_ms = min(policy.first_pause_ms << (node.quick_deaths - 1), policy.pause_ms_max)
        node.start_at_ms = now_ms + pause_ms
        self._enter(node, State.WAITING, now_ms)
        effects.tell.append((node.name, f"{how}; it starts again in {pause_ms / 1000:g} s"))

    def _stop(self, now_ms: int, effects: Effects) -> None:
        self.is_stopping = True
        for node in self.nodes.values():
            if node.state is State.WAITING:
                self._enter(node, State.STOPPED, now_ms)
        self._go_on_stopping(now_ms, effects)

    def _go_on_stopping(self, now_ms: int, effects: Effects) -> None:
        """Ask the next ones to stop: Odins when no broker is left. A start that failed has nothing to keep in order."""
        with_process = [node for node in self.nodes.values() if node.state.has_process]
        brokers = [node for node in with_process if node.is_broker]
        due = [
            node
            for node in (brokers if brokers and self.failed is None else with_process)
            if node.state is not State.STOPPING
        ]
        for node in due:
            self._enter(node, State.STOPPING, now_ms)
            effects.terminate.append(node.name)
        if due:
            self._kill_at_ms = now_ms + self._policy.stop_ms
        elif not with_process:
            self._kill_at_ms = None

    def _stopping(self) -> list[Watched]:
        return [node for node in self.nodes.values() if node.state is State.STOPPING]

    def _enter(self, node: Watched, state: State, now_ms: int) -> None:
        node.state, node.since_ms = state, now_ms


CLEAN = "ended"
"""How a node ends that was asked to."""
