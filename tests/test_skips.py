"""A skip fails in CI, and there alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.skips import is_allowed

ROOT = Path(__file__).resolve().parent.parent
SKIPPING = """
import pytest

def test_known():
    pytest.skip("The packages can't be installed: npm cannot reach a registry")

def test_unknown():
    pytest.skip("not today")

@pytest.mark.xfail(reason="known to fail")
def test_expected():
    assert False
"""
MODULE = "import pytest\npytest.importorskip('no_such_module_at_all')\n"


def run(folder: Path, **environment: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    inherited["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.skips", "-p", "no:cacheprovider", "-c", os.devnull]
    ended = subprocess.run(
        [*command, "--rootdir", str(folder), str(folder)],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_some.py").write_text(SKIPPING)
    return tmp_path


def test_in_ci_only_listed_reasons_pass(folder: Path) -> None:
    said = run(folder, CI="true")
    assert "1 failed, 1 skipped, 1 xfailed" in said
    assert "not today" in said and "tests/skips.txt" in said


def test_a_whole_module_does_not_pass_either(folder: Path) -> None:
    (folder / "test_module.py").write_text(MODULE)
    assert "1 error" in run(folder, CI="true")


def test_elsewhere_all_of_them_do(folder: Path) -> None:
    (folder / "test_module.py").write_text(MODULE)
    assert "3 skipped, 1 xfailed" in run(folder)


def test_a_star_stands_for_any_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed = tmp_path / "skips.txt"
    listed.write_text("# *\nneeds the * of (a)\n")
    monkeypatch.setattr("tests.skips.ALLOWED", listed)
    assert is_allowed("Skipped: needs the wire module of (a)")
    assert not is_allowed("needs the wire module of a") and not is_allowed("anything")
