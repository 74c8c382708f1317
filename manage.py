#!/usr/bin/env python3
"""Django's commands for this site."""

import os
import secrets
import sys
from pathlib import Path
from urllib.parse import quote

from django.core.management import CommandParser, execute_from_command_line

from compat_admin.env import SettingRefused


def main(arguments: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "compat_admin.settings")
    match arguments[1:3]:
        case ["demo", *_]:
            prepare_demo(arguments[2:])
        case ["serve", ("web" | "runner" | "worker") as role]:
            os.environ["COMPAT_ADMIN_ROLE"] = role  # the settings, which are read before any command runs, know it
    try:
        execute_from_command_line(arguments)
    except SettingRefused as error:
        sys.exit(str(error))


def prepare_demo(arguments: list[str]) -> None:
    """Point the settings, which are read before any command runs, at the demo's own folder.

    What the shell says about a database or a broker is overruled: the demo never writes into anything but its folder.
    """
    parser = CommandParser(prog="manage.py demo", add_help=False, allow_abbrev=False)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parent / "demo-data")
    folder: Path = parser.parse_known_args(arguments)[0].data.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        key = folder / "secret-key"
        if not key.exists() or not key.stat().st_size:
            key.touch(mode=0o600)
            key.write_text(secrets.token_urlsafe(48), encoding="utf-8")
    except OSError as error:
        sys.exit(f"The demo can't keep its data in {folder}: {error.strerror}.")
    for name in ("COMPAT_ADMIN_SECRET_KEY", "DATABASE_URL_FILE", "CELERY_BROKER_URL_FILE", "COMPAT_ADMIN_STATIC_ROOT"):
        os.environ.pop(name, None)
    os.environ.update(
        COMPAT_ADMIN_SECRET_KEY_FILE=str(key),
        COMPAT_ADMIN_ALLOWED_HOSTS="127.0.0.1,localhost",
        COMPAT_ADMIN_DEBUG="false",
        COMPAT_ADMIN_HTTPS="false",
        DATABASE_URL=f"sqlite:///{quote((folder / 'demo.sqlite3').as_posix())}",
        CELERY_BROKER_URL="memory://localhost",
    )


if __name__ == "__main__":
    main(sys.argv)
