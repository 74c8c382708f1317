"""What a target would refuse of stored histories, told without any call: `python -m memory.check FILE --to TARGET`.

Needs no database and no settings. Every change that a rule would make is a finding; severity `breaks` means that the
target refuses the history as it is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from memory import imports
from memory.errors import CompatAdminError
from memory.imports import Conversation, Dump
from memory.imports.sources import sources_of
from memory.messages.convert import to_prompt
from memory.messages.names import PROVIDERS, ModelRef, model_ref
from memory.messages.prompt import Message, Prompt, Text
from memory.messages.stored import StoredMessage, decode_json
from memory.processors.base import Switches
from memory.processors.changes import Change, Loss, Severity
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.profiles import profile_for
from memory.providers import entry_for


class Finding(Struct, frozen=True):
    """One fault of a thread for a target: `message` counts from 1, 0 is the request as a whole.

    `place` is a JSON pointer into the list of stored messages, empty for the request as a whole.
    """

    thread: str
    message: int
    role: str
    rule: str
    severity: Severity
    loss: Loss
    reason: str
    message_id: str = ""
    place: str = ""


class Unreadable(Struct, frozen=True):
    """A history that could not be read, and why."""

    name: str
    reason: str


def check(
    thread: str,
    messages: Sequence[StoredMessage],
    model: ModelRef,
    *,
    system: Sequence[str] = (),
    protocol: str = "",
    tool_names: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """The faults of a thread for a model, in the order of its messages: as they would show at the user's next turn.

    `tool_names` are declared with the request, `settings` further keys of it in the protocol's spelling.
    """
    places = {message.get("id"): (number, str(message["role"])) for number, message in enumerate(messages, 1)}
    profile = profile_for(model, protocol or entry_for(model.provider).protocol)
    prompt = to_prompt(messages, system=list(system))
    if messages and messages[-1]["role"] == "assistant":
        prompt = Prompt((*prompt.messages, Message("user", (Text("…"),))))
    call = Call(model.model_id, settings or {}, frozenset(tool_names))
    _, changes, _, _ = run_steps(CATALOGUE, prompt, profile, Switches(), tool_names=tool_names, call=call)
    found = [(*places.get(change.spot.message_id, (0, "")), change) for change in changes]
    return [_finding(thread, number, role, change) for number, role, change in sorted(found, key=lambda one: one[0])]


def _finding(thread: str, number: int, role: str, change: Change) -> Finding:
    place = f"/{number - 1}" if number else ""
    if number and change.spot.part is not None:
        place += f"/content/parts/{change.spot.part}"
    message_id = change.spot.message_id if number else ""
    return Finding(thread, number, role, change.rule, change.severity, change.loss, change.reason, message_id, place)


def check_sources(names: Iterable[str], model: ModelRef, *, format_: str = "") -> Iterator[Finding | Unreadable]:
    """The faults of every thread in these files, folders or stores; lines that go on with a thread are joined to it."""
    threads: dict[str, Conversation] = {}
    for name in names:
        try:
            for source in sources_of(name):
                for number, unit in enumerate(source.units, 1):
                    if isinstance(unit, bytes | str) and not unit.strip():
                        continue
                    try:
                        yield from _findings(unit, threads, model, format_)
                    except (CompatAdminError, UnicodeError) as error:
                        yield Unreadable(f"{source.name}, line {number}", str(error))
        except (CompatAdminError, OSError) as error:
            yield Unreadable(name, str(error))
    for conversation in threads.values():
        system = conversation.imported["system"]
        yield from check(conversation.thread_id, conversation.messages, model, system=system)


def _findings(
    unit: bytes | str | Dump, threads: dict[str, Conversation], model: ModelRef, format_: str
) -> Iterator[Finding]:
    """Findings of whole threads; single lines are put into `threads`, by the id of their newest line."""
    if isinstance(unit, Dump):
        found: Iterable[imports.Line | Dump] = [unit]
    else:
        found = imports.read(
            decode_json(unit.encode("utf-8", "surrogatepass") if isinstance(unit, str) else unit), format_
        )
    for one in found:
        if isinstance(one, Dump):
            yield from check(one.thread_id, one.messages, model, system=one.system)
        else:
            threads[one.id] = imports.joined(threads.pop(one.continues, None), one)


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all would be accepted as it is; 1: something would break; 2: something could not be read."""
    parser = argparse.ArgumentParser(prog="python -m memory.check", description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE|DIR|URL", help="histories in any form that can be imported")
    parser.add_argument("--to", required=True, metavar="PROVIDER/MODEL", help="such as anthropic/claude-sonnet-4-5")
    parser.add_argument("--format", default="", choices=["", *imports.FORMATS], help="told from the content by default")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    asked = parser.parse_args(arguments)
    model = model_ref(asked.to)
    if model.provider not in PROVIDERS:
        parser.error(f"--to: expected PROVIDER/MODEL, with one of {', '.join(PROVIDERS)}")
    findings: list[Finding] = []
    unreadable: list[Unreadable] = []
    for found in check_sources(asked.files, model, format_=asked.format):
        if isinstance(found, Unreadable):
            unreadable.append(found)
            sys.stderr.write(f"{found.name}: {found.reason}\n")
            continue
        findings.append(found)
        if asked.json:
            sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    if not asked.json:
        sys.stdout.write(_table(findings, asked.to))
    if unreadable:
        return 2
    return int(any(finding.severity == "breaks" for finding in findings))


def _table(findings: Sequence[Finding], target: str) -> str:
    if not findings:
        return f"{target} would take everything as it is.\n"
    rows = [("THREAD", "MESSAGE", "RULE", "SEVERITY", "WHAT IS LOST")]
    rows += [
        (_printable(f.thread), f"{f.message} {f.role}" if f.message else "request", f.rule, f.severity, f.loss)
        for f in findings
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    broken = len({finding.thread for finding in findings if finding.severity == "breaks"})
    return (
        "\n".join([*lines, "", f"{len(findings)} findings; {target} would refuse {broken} threads as they are."]) + "\n"
    )


def _printable(text: str) -> str:
    """Ids come from foreign files: what steers a terminal is not shown."""
    return "".join(char if char.isprintable() else "?" for char in text)


if __name__ == "__main__":
    sys.exit(main())
