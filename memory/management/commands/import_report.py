"""`manage.py import_report FILE|DIR|URL...`: how histories would fare at other providers. Nothing is stored."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from msgspec import Struct, field

from memory.access import operator
from memory.errors import InvalidInput
from memory.management.commands.import_history import SHOWN, add, add_sources, counts, named_sources
from memory.services.connections import target_model
from memory.services.importing import ImportReport, Trial, try_lines

TARGETS = ("anthropic/claude-sonnet-4-5", "openai/gpt-4o", "cerebras/zai-glm-4.7")


class _Tally(Struct):
    total: int = 0
    without_error: int = 0
    with_changes: int = 0
    rules: Counter[str] = field(default_factory=Counter)

    def add(self, trial: Trial) -> None:
        self.total += 1
        if trial.preview is None:
            return
        self.without_error += 1
        self.with_changes += bool(trial.preview.changes)
        # By conversation: one that has a fault a hundred times is still one.
        self.rules.update({change.rule for change in trial.preview.changes})


class Command(BaseCommand):
    help = "Preview every conversation of these files for each target and count what would be changed, by rule."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_sources(parser)
        parser.add_argument("--to", action="append", metavar="PROVIDER/MODEL", help=f"default: {' '.join(TARGETS)}")

    def handle(self, *args: Any, **options: Any) -> None:
        targets = tuple(dict.fromkeys(options["to"] or TARGETS))
        try:
            for target in targets:
                target_model(target)
        except InvalidInput as error:
            raise CommandError(f"--to {target}: {error}.") from error
        report = ImportReport()
        tallies = {target: _Tally() for target in targets}
        failures = []
        for trial in _trials(options["sources"], options["format"], targets, report):
            tallies[trial.target].add(trial)
            if trial.preview is None:
                failures.append(f"  {trial.thread_id} for {trial.target}: {trial.error}")
        self.stdout.write(counts(report))
        for row in table(tallies):
            self.stdout.write(row)
        for failure in failures[:SHOWN]:
            self.stdout.write(failure)
        if len(failures) > SHOWN:
            self.stdout.write(f"  and {len(failures) - SHOWN} more")


def _trials(names: list[str], format_: str, targets: tuple[str, ...], report: ImportReport) -> Iterator[Trial]:
    for source in named_sources(names):
        found = ImportReport()
        yield from try_lines(
            source.units,
            caller=operator("import_report", "admin"),
            targets=targets,
            report=found,
            format_=format_,
            source=source.name,
        )
        add(report, found, source.name)


def table(tallies: dict[str, _Tally]) -> list[str]:
    """A row for each count and each rule, a column for each target."""
    rules = sorted({rule for tally in tallies.values() for rule in tally.rules})
    rows = [
        ["", *tallies],
        ["conversations", *(str(tally.total) for tally in tallies.values())],
        ["previewed without an error", *(str(tally.without_error) for tally in tallies.values())],
        ["with changes", *(str(tally.with_changes) for tally in tallies.values())],
        *([rule, *(str(tally.rules[rule]) for tally in tallies.values())] for rule in rules),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
