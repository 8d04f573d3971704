"""A member that cannot read its files any more, and has others to ask, begins anew: they have what it has lost.

This file decides what becomes of the files: they get other names and stay where they are, for whoever wants to know
what has happened. Nothing is removed. What goes on to count, if it can be read, is the vote: a member that has
forgotten it could vote twice in an epoch.

A crash at any moment leaves a member that knows that it has begun anew, or one that finds the same damage again.
"""

from __future__ import annotations

import logging
from typing import Final

from bifrost.errors import StorageError
from bifrost.log.disk import Disk
from bifrost.raft.core.messages import ElectionState
from bifrost.raft.damage import DamagedMetadataError
from bifrost.raft.election_file import ELECTION_FILE, encode_election

_log = logging.getLogger(__name__)

_ASIDE: Final = ".damaged"


def begin_anew(disk: Disk, directory: str, damage: DamagedMetadataError, election: ElectionState | None) -> None:
    """Leave a vote that is still known, and nothing else that has a name which counts."""
    if election is not None:
        # First of all: whatever a crash leaves here from now on, nobody takes it for the log of a voter.
        disk.write_atomic(f"{directory}/{ELECTION_FILE}", encode_election(election._replace(is_newborn=True)))
    names = [name for name in disk.listdir(directory) if name != ELECTION_FILE and _ASIDE not in name]
    if election is None and disk.exists(f"{directory}/{ELECTION_FILE}"):
        names.append(ELECTION_FILE)  # last: a log without it would count as one from before there were votes
    for name in names:
        set_aside(disk, f"{directory}/{name}")
    disk.sync_directory(directory)
    _log.critical(
        "metadata damaged and begun anew path=%s detail=%r vote=%s files=%s/*%s*: this node is rebuilt from the others,"
        " and does not vote until it has caught up",
        damage.path, damage.detail, "lost" if election is None else "kept", directory, _ASIDE,
    )  # fmt: skip


def set_aside(disk: Disk, path: str) -> str:
    """The name that it has from now on, which no other file has had."""
    aside, number = path + _ASIDE, 1
    while disk.exists(aside):
        number += 1
        aside = f"{path}{_ASIDE}-{number}"
    disk.rename(path, aside)
    return aside


def refused(damage: DamagedMetadataError) -> StorageError:
    """What the operator of a node is told that is alone, and so has nobody to ask."""
    return StorageError(damage.path, f"{damage.detail}; restore the directory from a backup")
