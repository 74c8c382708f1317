"""`manage.py import_history FILE|DIR|URL...`: histories from elsewhere become threads."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.access import operator
from memory.errors import InvalidInput
from memory.imports import FORMATS
from memory.imports.sources import Source, sources_of
from memory.services.importing import ImportReport, import_lines
from memory.services.job_kinds import start_import

SHOWN = 20
WHERE = "JSON, JSON lines, a folder of them, a Mastra store: its LibSQL file or its postgresql:// URL"


class Command(BaseCommand):
    help = "Import histories (request bodies, recordings, other systems' threads) as threads; again, it adds nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_sources(parser)
        parser.add_argument("--resource", default="import", metavar="ID", help="whose threads these become")
        parser.add_argument(
            "--keep-owner", action="store_true", help="a thread that names its own resource becomes that one's"
        )

        parser.add_argument("--background", action="store_true", help="as jobs, for a worker; files only")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["background"]:
            for name in options["sources"]:
                self._leave_to_a_worker(name, options)
            return
        total = ImportReport()
        for source in named_sources(options["sources"]):
            try:
                report = import_lines(
                    source.units,
                    caller=operator("import_history", "admin"),
                    resource_id=options["resource"],
                    source=source.name,
                    format_=options["format"],
                    keep_owner=options["keep_owner"],
                )
            except InvalidInput as error:
                raise CommandError(f"--resource: {error}.") from error
            add(total, report, source.name)
        self.stdout.write(counts(total))
        for line in skipped_lines(total):
            self.stdout.write(line)
        if not (total.threads_made or total.threads_extended or total.unchanged):
            raise CommandError("Nothing could be imported.")

    def _leave_to_a_worker(self, name: str, options: dict[str, Any]) -> None:
        try:
            job = start_import(
                operator("import_history"),
                Path(name).name,
                Path(name).read_bytes(),
                resource_id=options["resource"],
                format_=options["format"],
                keep_owner=options["keep_owner"],
            )
        except OSError as error:
            what = f"{name.partition('://')[0]}://…" if "://" in name else name
            raise CommandError(f"{what} can't be read as a file: {error.strerror}.") from error
        except InvalidInput as error:
            raise CommandError(f"{name}: {error}.") from error
        self.stdout.write(f"{job.id}: {job.title}")


def add_sources(parser: ArgumentParser) -> None:
    """The arguments that say where histories lie, and what they are."""
    parser.add_argument("sources", nargs="+", metavar="FILE|DIR|URL", help=WHERE)
    parser.add_argument(
        "--format", default="", choices=FORMATS, metavar="NAME", help=f"told from the content, or: {', '.join(FORMATS)}"
    )


def named_sources(names: Sequence[str]) -> Iterator[Source]:
    """What these names mean. Raises CommandError for one that can't be opened."""
    for name in names:
        try:
            yield from sources_of(name)
        except OSError as error:
            raise CommandError(f"{name} can't be read: {error.strerror}.") from error
        except InvalidInput as error:
            raise CommandError(f"{name.partition('://')[0] if '://' in name else name}: {error}.") from error


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
