"""`manage.py probe PROVIDER`: do the facts behind the rules still hold? Asks the real provider with your own key."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.access import operator
from memory.errors import InvalidInput
from memory.models import RuleProbe
from memory.services.connections import http_client
from memory.services.probes import ProbeStopped, is_in_known_words, planned, probe
from memory.trials import Trial

_SAYS = {
    "holds": "refused as it is, accepted as the rule sends it",
    "not needed": "accepted as it is: this model does not need the rule",
    "cure fails": "refused even as the rule sends it",
    "no answer": "no answer that says anything",
}


class Command(BaseCommand):
    help = (
        "Send the smallest failing history of each rule to a provider, as it is and as the rule makes it, and keep the"
        " answers for the rules' pages. Two calls a rule, with the connection and key that runs use."
    )

    @staticmethod
    def wait(seconds: float) -> None:
        time.sleep(seconds)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("provider", metavar="PROVIDER", help="such as anthropic")
        parser.add_argument("--model", default="", help="for every rule; without it each takes its example's own")
        parser.add_argument("--rule", action="append", default=[], metavar="ID", help="only this one; may be repeated")
        parser.add_argument("--yes", action="store_true", help="don't ask before the calls are made")

    def handle(self, *args: Any, **options: Any) -> None:
        provider: str = options["provider"]
        try:
            trials = planned(provider, model_id=options["model"], rules=options["rule"])
        except InvalidInput as error:
            raise CommandError(f"{error}.") from error
        models = ", ".join(dict.fromkeys(trial.model_id for trial in trials))
        calls = f"{len(trials)} rules, so {2 * len(trials)} calls to {provider} ({models})."
        self.stdout.write(calls)
        if not options["yes"] and not self._is_agreed():
            raise CommandError("Nothing was sent.")
        rows: list[RuleProbe] = []
        try:
            for row in probe(operator("probe"), provider, trials, client=http_client(), wait=self.wait):
                rows.append(row)
                self._write(row)
        except InvalidInput as error:
            raise CommandError(f"{error}. Nothing was sent.") from error
        except ProbeStopped as error:
            raise CommandError(f"Stopped: {_printable(str(error)).rstrip('. ')}. {_kept(rows, trials)}") from error
        except KeyboardInterrupt:
            self.stdout.write(f"Interrupted. {_kept(rows, trials)}")
            sys.exit(130)
        counted = Counter(row.outcome for row in rows)
        self.stdout.write(", ".join(f"{outcome}: {counted[outcome]}" for outcome in _SAYS))
        if counted["cure fails"]:
            sys.exit(1)

    def _is_agreed(self) -> bool:
        if not sys.stdin.isatty():
            raise CommandError("Nobody is here to agree: say --yes. Nothing was sent.")
        return input("Send them? [y/N] ").strip().lower() in ("y", "yes")

    def _write(self, row: RuleProbe) -> None:
        self.stdout.write(f"{row.outcome:<11} {row.rule} ({_printable(row.model_id)}): {_SAYS[row.outcome]}")
        for name, status, error in (
            ("as it is", row.raw_status, row.raw_error),
            ("as sent", row.cured_status, row.cured_error),
        ):
            if error:
                self.stdout.write(f"            {name}: {status or 'no answer'} {_printable(error)}")
        if row.outcome == "cure fails" and row.raw_error == row.cured_error:
            self.stdout.write("            Both were refused in the same words: is the model there, for this key?")
        elif row.outcome == "holds" and is_in_known_words(row) is False:
            self.stdout.write("            Refused in words that the rule is not known by: perhaps for another reason.")


def _kept(rows: Sequence[RuleProbe], trials: Sequence[Trial]) -> str:
    return f"{len(rows)} of {len(trials)} rules were probed, and their answers are kept."


def _printable(text: str) -> str:
    """A provider's words come from elsewhere: what steers a terminal is not shown."""
    return "".join(char if char.isprintable() else " " for char in text)
