"""Other systems' real packages from npm in a cache folder, and a Node that runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import npm


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
    return Packages(*npm.installed(Path(__file__).resolve().parent / name, name, needs=(22, 13)))
