"""The contract between the core and its driver: what the driver owes after each input, and what it configures. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from bifrost.raft.core.messages import ElectionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long to wait for those who are late. Those who are dead are not waited for, but for `spread_ms`."""

    election_timeout_ms: float = 1000
    backoff_max_ms: float = 1000
    fetch_timeout_ms: float = 2000
    spread_ms: float = 50
    """Those who lose a leader at the same moment do not campaign at the same moment."""

    def pause_ms(self, attempts: int) -> float:
        """How long to wait, about, after so many attempts that came to nothing."""
        return min(self.spread_ms * (1 << min(attempts, 10)), self.backoff_max_ms)


@dataclass(slots=True)
class Effects:
    """What the driver owes, in this order."""

    persist: ElectionState | None = None
    """To be on disk before anybody is told anything that follows from it."""
    truncate_to: int | None = None
    """The log ends here from now on: what lay beyond was never committed."""
    begin_epoch: int | None = None
    """This node leads: a record that says so has to be appended before any other of this epoch."""
    high_watermark: int | None = None
    """Everything below it is committed."""
