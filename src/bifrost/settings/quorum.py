"""Who votes, as settings say it: what is refused, because it would be another cluster or none, and what is only unwise.

Looks at settings and at nothing else: whether the others say the same, nobody here can know.
"""

from __future__ import annotations

from typing import NamedTuple

from bifrost.settings.broker import Settings
from bifrost.settings.listeners import is_loopback


class _Voter(NamedTuple):
    node_id: int
    address: str


def quorum_problems(settings: Settings) -> list[str]:
    """A node that does not find its quorum must not become one of its own: that would be a second cluster."""
    voters, me = _voters(settings), settings.node_id
    is_controller = "controller" in settings.process_roles
    if not voters and not is_controller and settings.process_roles:
        return ["controller.quorum.voters: a broker that is no controller needs to know them, as ID@HOST:PORT"]
    if not voters and not _names_only_itself(settings):
        return [
            (
                "controller.quorum.bootstrap.servers: the controllers are a fixed list here, and nobody is asked for"
                " it; name all of them, on every node, in controller.quorum.voters, as ID@HOST:PORT"
            )
        ]
    names = [name for voter in voters for name in (f"node {voter.node_id}", f"address {voter.address}")]
    for name in names:
        if names.count(name) > 1:
            return [f"controller.quorum.voters: {name} is named twice; every voter has its own"]
    if voters and is_controller != (me in [voter.node_id for voter in voters]):
        return [f"controller.quorum.voters: node {me} has to be among them if it is a controller, and only then"]
    return _listener_problems(settings) if is_controller else []


def quorum_notes(settings: Settings) -> list[str]:
    """What works, and is not what one would want. Kafka allows it, too."""
    voters, notes = _voters(settings), []
    if voters and settings.controller_quorum_bootstrap_servers:
        notes.append("controller.quorum.bootstrap.servers: ignored; controller.quorum.voters says who votes")
    if voters and len(voters) % 2 == 0:
        bears = len(voters) // 2 - 1
        notes.append(
            f"controller.quorum.voters: {len(voters)} voters bear the loss of {bears or 'none'},"
            f" as {len(voters) - 1} would; an odd number is better"
        )
    return notes


def _voters(settings: Settings) -> list[_Voter]:
    pairs = (voter.partition("@") for voter in settings.controller_quorum_voters)
    return [_Voter(int(node_id), address) for node_id, _, address in pairs]


def _names_only_itself(settings: Settings) -> bool:
    """Whether nobody is named, or a single node whose address is this one's: as in the file that Kafka ships."""
    named = settings.controller_quorum_bootstrap_servers
    if not named:
        return True
    host, _, port = named[0].rpartition(":")
    try:
        own = [str(one.port) for one in settings.controller_listeners]
    except ValueError:  # which is told elsewhere
        own = []
    return len(named) == 1 and is_loopback(host.strip("[]")) and port in own


def _listener_problems(settings: Settings) -> list[str]:
    """A controller has to be reached by others, unless it is the whole cluster (Kafka: KafkaConfig.validateValues)."""
    try:
        for_clients, for_controllers = settings.broker_listeners, settings.controller_listeners
    except ValueError:  # which is told elsewhere
        return []
    is_broker, has_others = "broker" in settings.process_roles, len(settings.controller_quorum_voters) > 1
    names = ", ".join(settings.controller_listener_names)
    if not for_controllers and (has_others or not is_broker):
        return [
            (
                f"listeners: a controller needs a listener whose name is one of controller.listener.names ({names}),"
                " such as CONTROLLER://:9093"
            )
        ]
    if for_clients and not is_broker:
        return [
            (
                f"listeners={for_clients[0]}: a node that is only a controller serves no clients;"
                f" its listeners are those of controller.listener.names ({names})"
            )
        ]
    return []
