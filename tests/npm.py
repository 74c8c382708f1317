"""Packages of npm in a cache folder, and a Node that runs them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

NODE = "node@22.23.3"
_NO_REGISTRY = (
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "ERR_SOCKET_TIMEOUT",
    "ETIMEDOUT",
)


def installed(sources: Path, name: str, *, needs: tuple[int, int]) -> tuple[Path, str]:
    """A folder with what `sources` holds and the packages its package.json asks for, and a Node of at least `needs`.

    Installed once for each version of the sources. Skips, with the reason, where they can't be had; `name` is theirs.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"{name} needs Node with its npm, which is not installed")
    wanted = b"".join(path.read_bytes() for path in sorted(sources.iterdir())) + NODE.encode()
    folder = Path(tempfile.gettempdir()) / f"compat-admin-{name}-{_user()}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not (folder / "done").exists() or not _is_own(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        for path in sources.iterdir():
            shutil.copy(path, folder)
        # The packages' own scripts are not needed; Node's fetches the program for this machine.
        _install(npm, folder, name, ["--ignore-scripts"])
        if _system_node(needs) is None:
            (folder / "node").mkdir()
            (folder / "node" / "package.json").write_text('{"private": true}')
            _install(npm, folder / "node", name, [NODE])
        (folder / "done").touch()
    return folder, _system_node(needs) or str(folder / "node" / "node_modules" / ".bin" / "node")


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "me"


def _is_own(folder: Path) -> bool:
    """Whether nobody else has put the folder there, which others may write to."""
    return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()


def _system_node(needs: tuple[int, int]) -> str | None:
    node = shutil.which("node")
    if node is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60).stdout
    numbers = version.strip().removeprefix("v").split(".")[:2]
    return node if all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= needs else None


def _install(npm: str, folder: Path, name: str, arguments: Sequence[str]) -> None:
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--no-update-notifier"]
    # By default npm waits a minute and more for a network that is not there.
    command = [npm, "install", *quiet, "--fetch-retries=1", "--fetch-retry-mintimeout=2000", *arguments]
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} can't be installed: npm did not end within 300 s")
    if ended.returncode == 0:
        return
    said = ended.stdout + ended.stderr
    if any(code in said for code in _NO_REGISTRY):
        pytest.skip(f"{name} can't be installed: npm cannot reach a registry")
    pytest.skip(f"{name} can't be installed: npm ended with {ended.returncode}: {said[-2000:]}")
