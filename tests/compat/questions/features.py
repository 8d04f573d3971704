"""Questions about the levels of features. Nothing is changed: only what is refused is asked without `validate_only`."""

from __future__ import annotations

from tests.compat.questions.catalogue import fixed

ONLY_UP, DOWN_IF_NOTHING_IS_LOST, DOWN_EVEN_SO = 1, 2, 3


def _try(name: str, *updates: tuple[str, int, int], first: int = 1) -> None:
    """Version 0 knows of no trying: what it would be allowed to do is asked from version 1 on."""
    wanted = [
        {
            "feature": feature,
            "max_version_level": level,
            "allow_downgrade": kind != ONLY_UP,
            "upgrade_type": kind,
        }
        for feature, level, kind in updates
    ]
    fixed("update_features", name, first=first, feature_updates=wanted, validate_only=True)


_try("same_level", ("group.version", 1, ONLY_UP))
_try("same_level_down", ("group.version", 1, DOWN_IF_NOTHING_IS_LOST))
_try("above_what_is_supported", ("group.version", 99, ONLY_UP), first=0)
_try("metadata_above_what_is_supported", ("metadata.version", 99, ONLY_UP), first=0)
_try("metadata_same_level", ("metadata.version", 30, ONLY_UP))
_try("metadata_zero", ("metadata.version", 0, DOWN_EVEN_SO), first=0)
_try("negative", ("group.version", -1, DOWN_EVEN_SO), first=0)
_try("unknown_feature", ("no.such.version", 1, ONLY_UP), first=0)
_try("unknown_feature_taken_back", ("no.such.version", 0, DOWN_IF_NOTHING_IS_LOST))
_try("empty_name", ("", 1, ONLY_UP), first=0)
_try("down_without_saying_so", ("group.version", 0, ONLY_UP), first=0)
_try("down", ("group.version", 0, DOWN_IF_NOTHING_IS_LOST))
_try("down_even_so", ("group.version", 0, DOWN_EVEN_SO))
_try("unknown_kind", ("group.version", 1, 0))
_try("kind_of_the_future", ("group.version", 1, 9))
_try("good_beside_bad", ("group.version", 1, ONLY_UP), ("no.such.version", 1, ONLY_UP))
_try("named_twice", ("group.version", 1, ONLY_UP), ("group.version", 1, ONLY_UP))
_try("nothing", first=0)
