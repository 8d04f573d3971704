"""Looking over the shoulder of production objects: methods are wrapped for the time of a run, around whatever is there
by then, be it a planted bug."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from bifrost.errors import StorageError


class Hooks:
    """Undone when the stack is left."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def wrap(self, owner: object, name: str, wrapper: Any) -> None:
        self._stack.enter_context(patch.object(owner, name, wrapper))

    def after(self, owner: type, name: str, tell: Any) -> None:
        """`tell(self, result, *args)` once the method has returned."""
        method = getattr(owner, name)

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = method(self, *args, **kwargs)
            tell(self, result, *args, **kwargs)
            return result

        self.wrap(owner, name, wrapper)

    def before(self, owner: type, name: str, tell: Any) -> None:
        """`tell(self, *args)` before the method runs."""
        method = getattr(owner, name)

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            tell(self, *args, **kwargs)
            return method(self, *args, **kwargs)

        self.wrap(owner, name, wrapper)

    def around(self, owner: type, name: str, look: Any, tell: Any) -> None:
        """`tell(self, look(self), *args)` once the method has returned, or met a disk that fails or is full: something
        may have been done before. `look` was called before it."""
        method = getattr(owner, name)

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            seen = look(self)
            try:
                result = method(self, *args, **kwargs)
            except StorageError:
                tell(self, seen, *args, **kwargs)
                raise
            tell(self, seen, *args, **kwargs)
            return result

        self.wrap(owner, name, wrapper)
