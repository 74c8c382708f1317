"""Play a run's bundle again and say whether it sends the same bytes: `manage.py replay FILE`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from msgspec import structs

from memory.errors import CompatAdminError
from memory.sandbox.recorded import Playback, Recorded
from memory.services.bundles import read_bundle
from memory.services.replay import Answer, replay


class Command(BaseCommand):
    help = "Play a run's bundle again against recorded answers; exit code 1 where other bytes are sent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "file", help="a bundle, from a run's page or GET /api/runs/{id}/bundle; - is standard input"
        )

    def handle(self, *args: Any, file: str, **options: Any) -> None:
        try:
            content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        except OSError as error:
            raise CommandError(f"{file} can't be read: {error.strerror}", returncode=2) from error
        try:
            bundle = read_bundle(content)
            played = replay(bundle, _serve)
        except CompatAdminError as error:
            raise CommandError(str(error), returncode=2) from error
        for note in bundle.missing:
            self.stdout.write(f"note: {note}")
        for attempt in played.attempts:
            said = attempt.difference or "the same bytes"
            self.stdout.write(f"attempt {attempt.number}, {attempt.size_bytes:,} bytes: {said}")
        if not played.is_same:
            sys.exit(1)


def _serve(answers: Sequence[Answer]) -> Playback:
    return Playback([Recorded(**structs.asdict(answer)) for answer in answers])
