"""Other systems' real packages from npm in a cache folder, and a Node that runs them."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NODE = "node@22.23.3"
NEEDED = (22, 13)
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


class Packages:
    """The folder with the packages and our scripts; `node` is the program that runs them."""

    def __init__(self, folder: Path, node: str) -> None:
        self._folder, self._node = folder, node

    def run(self, script: str, *arguments: str) -> bytes:
        """What a script of ours prints."""
        ended = subprocess.run([self._node, script, *arguments], cwd=self._folder, capture_output=True, timeout=120)
        assert ended.returncode == 0, ended.stderr.decode(errors="replace")[-3000:]
        return ended.stdout


def installed_packages(name: str) -> Packages:
    """The packages of a folder beside this file, installed once for each version of what is in it.

    Skips, with the reason, where there is no Node or no registry.
    """
    source = HERE / name
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"The packages of {name} need Node with its npm, which is not installed")
    wanted = b"".join(path.read_bytes() for path in sorted(source.iterdir())) + NODE.encode()
    folder = Path(tempfile.gettempdir()) / f"compat-admin-{name}-{_user()}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    if not (folder / "done").exists() or not _is_own(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        for path in source.iterdir():
            shutil.copy(path, folder)
        # The packages' own scripts are not needed; Node's fetches the program for this machine.
        _install(npm, folder, ["--ignore-scripts"])
        if _system_node() is None:
            (folder / "node").mkdir()
            (folder / "node" / "package.json").write_text('{"private": true}')
            _install(npm, folder / "node", [NODE])
        (folder / "done").touch()
    node = _system_node() or str(folder / "node" / "node_modules" / ".bin" / "node")
    return Packages(folder, node)


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "me"


def _is_own(folder: Path) -> bool:
    """Whether nobody else has put the folder there, which others may write to."""
    return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()


def _system_node() -> str | None:
    node = shutil.which("node")
    if node is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60).stdout
    numbers = version.strip().removeprefix("v").split(".")[:2]
    return node if all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= NEEDED else None


def _install(npm: str, folder: Path, arguments: Sequence[str]) -> None:
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--no-update-notifier"]
    # By default npm waits a minute and more for a network that is not there.
    command = [npm, "install", *quiet, "--fetch-retries=1", "--fetch-retry-mintimeout=2000", *arguments]
    try:
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip("The packages can't be installed: npm did not end within 300 s")
    if ended.returncode == 0:
        return
    said = ended.stdout + ended.stderr
    if any(code in said for code in _NO_REGISTRY):
        pytest.skip("The packages can't be installed: npm cannot reach a registry")
    pytest.skip(f"The packages can't be installed: npm ended with {ended.returncode}: {said[-2000:]}")
