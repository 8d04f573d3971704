"""In which log directory a log is, or shall be. It chooses among the directories that work, and touches no file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from bifrost.errors import StorageError
from bifrost.log.home import Home
from bifrost.log.log_directory import LogDirectory
from bifrost.types import TopicPartition


class Placing:
    """The directories of the settings, and those in use, which `homes` has by path and its owner keeps up to date."""

    def __init__(
        self, directories: Sequence[LogDirectory], homes: Mapping[str, Home], cordoned: Collection[str] = ()
    ) -> None:
        self.cordoned = set(cordoned)
        """Directories that get no new partitions (KIP-1066)."""
        self.wanted: dict[TopicPartition, str] = {}
        """Where somebody wants logs to be that are not there yet (Kafka: LogManager.preferredLogDirs)."""
        self._directories = directories
        self._homes = homes

    def choose(self, partition: TopicPartition, directory_id: bytes = b"") -> Home:
        """For a new log: where it is wanted, else where the metadata says that it is, else with the fewest others."""
        path = self.wanted.get(partition) or self._path_of(directory_id)
        if path is not None and path in self._homes:
            return self._homes[path]
        candidates = [home for path, home in self._homes.items() if path not in self.cordoned]
        if not candidates:
            raise StorageError(self._directories[0].path, "no log directory takes new partitions")
        return min(candidates, key=lambda each: len(each.logs) + len(each.futures))

    def home_of(self, path: str) -> Home | None:
        """The directory in use that the path leads into."""
        found = (home for each, home in self._homes.items() if path == each or path.startswith(each + "/"))
        return next(found, None)

    def id_of(self, path: str) -> bytes | None:
        """The id of the directory that the path leads into, in use or not; None if it never came so far."""
        for each in self._directories:
            if (path == each.path or path.startswith(each.path + "/")) and each.directory_id is not None:
                return each.directory_id.bytes
        return None

    def is_online(self, directory_id: bytes) -> bool:
        """Whether there is such a directory, and it works."""
        return self._path_of(directory_id) in self._homes

    def _path_of(self, directory_id: bytes) -> str | None:
        found = (one for one in self._directories if one.directory_id and one.directory_id.bytes == directory_id)
        return next((one.path for one in found), None)
