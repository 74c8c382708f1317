"""Mastra's real packages in a cache folder, and a Node that runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import npm


class Packages:
    """The folder with the packages and our script; `node` is the program that runs it."""

    def __init__(self, folder: Path, node: str) -> None:
        self._folder, self._node = folder, node

    def make_store(self, kind: str, url: str) -> bytes:
        """Fill a new store at the URL; the JSON of all that the packages say is in it."""
        command = [self._node, "store.mjs", kind, url]
        ended = subprocess.run(command, cwd=self._folder, capture_output=True, timeout=120)
        assert ended.returncode == 0, ended.stderr.decode(errors="replace")[-3000:]
        return ended.stdout


def installed_packages() -> Packages:
    """The packages, installed once for each version of our `package.json`. Skips, with the reason, without Node."""
    return Packages(*npm.installed(Path(__file__).resolve().parent / "mastra", "mastra", needs=(22, 13)))
