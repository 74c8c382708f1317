"""`manage.py import_history FILE...`: recorded exchanges and bare request bodies become threads."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.access import operator
from memory.errors import InvalidInput
from memory.services.importing import ImportReport, import_lines, lines_in

SHOWN = 20


class Command(BaseCommand):
    help = "Import recorded provider exchanges (JSON lines) or request bodies as threads; doing it again adds nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="JSON lines, or JSON with one body or a list")
        parser.add_argument("--resource", default="import", metavar="ID", help="whose threads these become")

    def handle(self, *args: Any, **options: Any) -> None:
        total = ImportReport()
        for name in options["files"]:
            try:
                with open(name, "rb") as file:
                    report = import_lines(
                        lines_in(file), caller=operator("import_history"), resource_id=options["resource"], source=name
                    )
            except OSError as error:
                raise CommandError(f"{name} can't be read: {error.strerror}.") from error
            except InvalidInput as error:
                raise CommandError(f"--resource: {error}.") from error
            add(total, report, name)
        self.stdout.write(counts(total))
        for line in skipped_lines(total):
            self.stdout.write(line)
        if not (total.threads_made or total.threads_extended or total.unchanged):
            raise CommandError("Nothing could be imported.")


def add(total: ImportReport, report: ImportReport, name: str) -> None:
    """Add the counts of a file; what it names by number only is named with the file."""
    total.threads_made += report.threads_made
    total.threads_extended += report.threads_extended
    total.messages_added += report.messages_added
    total.unchanged += report.unchanged
    total.skipped += [(f"{name} {who}" if who.startswith("line ") else who, why) for who, why in report.skipped]


def counts(report: ImportReport) -> str:
    return (
        f"threads made: {report.threads_made}, extended: {report.threads_extended},"
        f" messages added: {report.messages_added}, lines unchanged: {report.unchanged},"
        f" left out: {len(report.skipped)}"
    )


def skipped_lines(report: ImportReport) -> list[str]:
    """What was left out and why, the first of it by name."""
    lines = [f"  {who}: {why}" for who, why in report.skipped[:SHOWN]]
    more = len(report.skipped) - SHOWN
    return [*lines, f"  and {more} more"] if more > 0 else lines
