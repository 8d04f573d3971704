"""No spoiled batch makes a compiled kernel read or write outside of its arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.cases import SECONDS, SEED

CASES = int(250 * SECONDS)


@pytest.mark.timeout(SECONDS + 300)  # kernels that check are compiled anew
def test_kernels_stay_inside_of_their_arrays(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.column_cases", str(CASES), SEED],
        env=os.environ
        | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused, read = (int(word) for word in done.stdout.split() if word.isdecimal())
    assert refused > CASES // 10
    assert read > CASES // 10
