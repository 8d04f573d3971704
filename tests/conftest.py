"""What every test shares: property tests draw the same examples in every run, on any machine.

`HYPOTHESIS_PROFILE=explore` draws new ones, to look for bugs that nobody has met yet.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
