"""Judges what a history tells about topics: acknowledged changes stay, and nothing changes by itself.

Every topic has one owner, who changes it and lists all topics, one after the other. So at each moment only few states
are possible: one after an acknowledged change, two after a change whose answer was lost, until the next look.
"""

from __future__ import annotations

from tests.sim.anomaly import Anomaly
from tests.sim.history import History, TopicChanged, TopicsListed, TopicState

Possible = list[TopicState | None]


def lost_metadata(history: History) -> list[Anomaly]:
    """An acknowledged topic is gone, a deleted one is back, or partitions come and go."""
    possible: dict[str, Possible] = {}
    found = []
    for event in history.events:
        if isinstance(event, TopicChanged):
            states = possible.setdefault(event.name, [None])
            problem = _change(states, event)
            if problem:
                found.append(Anomaly("lost metadata", event.name, f"{problem} at {event.at:.3f}"))
        elif isinstance(event, TopicsListed):
            for name in sorted({*possible, *event.topics}):
                states = possible.setdefault(name, [None])
                now = event.topics.get(name)
                if not any(_agree(state, now) for state in states):
                    detail = f"listed as {now} at {event.at:.3f}, possible was {states}"
                    found.append(Anomaly("lost metadata", name, detail))
                states[:] = [now]
    return found


def _change(states: Possible, event: TopicChanged) -> str | None:
    """Take in what the owner did; what contradicts what was known."""
    if event.outcome == "unknown":
        if not any(_agree(state, event.after) for state in states):
            states.append(event.after)
        return None
    fits = [state for state in states if (state is None) == (event.before is None)]
    if event.outcome == "refused":  # the topic was there although it should be made, or was not although it should go
        others = [state for state in states if state not in fits]
        known, states[:] = list(states), others or states
        return None if others else f"the change to {event.after} was refused, possible was {known}"
    known, states[:] = list(states), [event.after]
    return None if fits else f"the change to {event.after} was done, possible was {known}"


def _agree(state: TopicState | None, now: TopicState | None) -> bool:
    if state is None or now is None:
        return state is now
    return state.partitions == now.partitions and state.topic_id in ("", now.topic_id)
