"""Which kernels are used, when they are loaded, and where they are kept."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bifrost.client.errors import ConfigError
from bifrost.columnar import kernels as chooser
from bifrost.columnar.kernels import cache, chosen, kernels


def in_process(code: str, **environment: str) -> str:
    """What the code prints in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_columns_are_imported_without_numba() -> None:
    code = (
        "import sys, bifrost.columnar.decoder, bifrost.columnar.encoder, bifrost.columnar.schema as s; s.schema();"
        "print('numba' in sys.modules)"
    )
    assert in_process(code) == "False"


def test_the_environment_may_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("numba", "numpy"):
        monkeypatch.setenv("BIFROST_KERNELS", name)
        assert kernels().name == name
    monkeypatch.setenv("BIFROST_KERNELS", "cython")
    with pytest.raises(ConfigError, match="Set it to numba or numpy"):
        kernels()


def test_numpy_does_where_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BIFROST_KERNELS", raising=False)
    assert chosen() == "numba"
    monkeypatch.setattr(chooser, "find_spec", lambda name: None)
    assert chosen() == "numpy"


def test_who_insists_on_numba_hears_that_it_is_missing() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "from bifrost.columnar.kernels import kernels\n"
        "try: kernels()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    said = in_process(code, BIFROST_KERNELS="numba")
    assert said.startswith("UnsupportedError the compiled kernels need numba")
    assert "pip install 'bifrost-stream[arrow]'" in said


def test_whoever_has_no_pyarrow_is_told_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from bifrost.columnar.schema import schema\n"
        "try: schema()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    assert in_process(code).startswith("UnsupportedError columns need pyarrow, which is not installed. pip install")


def test_compiled_kernels_are_kept_in_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = cache.directory()
    assert found == tmp_path / "bifrost" / "kernels"
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "mine"))
    assert cache.directory() == tmp_path / "mine"


def test_a_directory_that_others_can_write_to_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cache.tempfile, "gettempdir", lambda: str(tmp_path))
    open_to_all = tmp_path / "home" / "bifrost" / "kernels"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    private = tmp_path / f"bifrost-kernels-{os.getuid()}"
    assert cache.directory() == private
    private.rmdir()
    private.symlink_to(tmp_path)
    assert cache.directory() is None


def test_the_place_of_the_application_s_own_functions_stays() -> None:
    from numba import config

    before = config.CACHE_DIR
    with cache.in_place() as place:
        assert str(place) == config.CACHE_DIR
    assert before == config.CACHE_DIR


def test_warming_compiles_once(tmp_path: Path) -> None:
    def warm(**environment: str) -> dict[str, object]:
        code = "from bifrost.cli.main import app; app(['warm', '--json'])"
        return dict(json.loads(in_process(code, NUMBA_CACHE_DIR=str(tmp_path), **environment)))

    first, second = warm(), warm()
    assert first["kernels"] == "numba"
    assert first["compiled"] == 5
    assert first["directory"] == str(tmp_path)
    assert second["compiled"] == 0
    assert any(tmp_path.rglob("*.nbc"))
    assert warm(BIFROST_KERNELS="numpy") | {"seconds": 0} == {
        "kernels": "numpy", "compiled": 0, "seconds": 0, "directory": None
    }  # fmt: skip
