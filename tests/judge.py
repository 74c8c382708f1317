"""The judge judged: where a pretend provider answers otherwise than the real one did.

`python -m tests.judge [--recordings DIR] > docs/judge.md` makes the page.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec import Struct, field

import memory.sandbox
from memory.errors import EncodingError
from memory.messages.convert import to_prompt
from memory.messages.names import provider_id
from memory.providers import wire_module
from tests.cases import checks
from tests.sandbox.conftest import HEADERS, PATHS
from tests.vectors.provider_cases import settings_of, stored_messages

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT.parent / "shared" / "recordings"
CASES = ROOT / "tests" / "cases" / "provider_rejections.jsonl"
BEARER = {"authorization": "Bearer any"}
# A host that was recorded under its own root.
MOVED = {"/openai/chat/completions": "/openai/v1/chat/completions", "/openai/responses": "/openai/v1/responses"}
REFUSALS = (400, 404, 413, 422)

NOT_OF_THE_HISTORY = {
    r"effort level": "a setting of the request",
    r"model identifier is invalid|is not found for API version|does not exist or you do not have access": (
        "a model that is not there"
    ),
    r"Tool call validation failed": "what the model wrote, not what it was sent",
    r"Web search options": "a setting of the request",
    r"rate-limited upstream": "a limit",
    r"Cannot fetch content": "a file that the vendor could not fetch",
}
"""Recorded errors that say nothing of the history: words of theirs, and what they are about."""
_HEAD = """# The judge, judged

Rules are proven against pretend providers (`memory/sandbox`), so these have to answer as the real ones do. Two kinds of
evidence say how far they do: recorded traffic and reported refusals. Made by `python -m tests.judge`, which sends each
request over HTTP, with no rule applied.

- A **false refusal** is a recorded request that its provider answered with 200 and the pretend one refuses.
- A **false pass** is a history that the real one refused, by a record or a report, and the pretend one accepts.

The pretend providers were written with this evidence at hand: the numbers say that they keep to it, not how they do
with what nobody recorded. `manage.py probe` asks the real ones.
"""


class Tally(Struct):
    """What one provider's sandbox did with what was recorded of the real one and reported of it: counts, and ids."""

    answered: int = 0
    false_refusals: list[str] = field(default_factory=list)
    refused: int = 0
    reported: int = 0
    false_passes: list[str] = field(default_factory=list)
    other_errors: list[str] = field(default_factory=list)
    """What recorded errors are about that are not counted, as they say nothing of the history."""
    mended: list[str] = field(default_factory=list)
    """Reports in another protocol's form whose fault is gone once the history is written in the target's own."""


def judged(recordings: Path) -> dict[str, Tally]:
    """A tally by provider id. Raises OSError where there are no recordings."""
    tallies: dict[str, Tally] = {}
    sandbox = memory.sandbox.start()
    try:
        with httpx.Client(base_url=sandbox.url, timeout=30, trust_env=False, verify=False) as client:
            _judge_recordings(client, recordings, tallies)
            _judge_reports(client, tallies)
    finally:
        sandbox.stop()
    return dict(sorted(tallies.items()))


def _judge_recordings(client: httpx.Client, recordings: Path, tallies: dict[str, Tally]) -> None:
    for exchange in _exchanges(recordings):
        provider = provider_id(exchange["provider"])
        tally = tallies.setdefault(provider, Tally())
        status = _sent(
            client, provider, exchange["protocol"], exchange["path"], exchange["request"], exchange["status"]
        )
        if exchange["status"] == 200:
            tally.answered += 1
            if status != 200:
                tally.false_refusals.append(exchange["id"])
        elif other := about(exchange):
            tally.other_errors.append(other)
        else:
            tally.refused += 1
            if status == 200:
                tally.false_passes.append(exchange["id"])


def _exchanges(folder: Path) -> Iterator[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"there are no recordings in {folder}")
    for file in files:
        for line in file.read_bytes().splitlines():
            exchange = msgspec.json.decode(line)
            if exchange["request"] is not None:
                yield exchange


def about(exchange: Mapping[str, Any]) -> str:
    """What a recorded error is about when it is not the history, else nothing."""
    said = json.dumps(exchange["response"], ensure_ascii=False)
    return next((words for pattern, words in NOT_OF_THE_HISTORY.items() if re.search(pattern, said)), "")


def _sent(client: httpx.Client, provider: str, protocol: str, path: str, body: Any, expected: int) -> int:
    """The status. Raises RuntimeError for an answer that is about the address and not about the body."""
    headers = HEADERS[provider] | (BEARER if protocol.startswith("openai-") else {})
    whole = MOVED.get(f"/{provider}{path}", f"/{provider}{path}")
    status = client.post(whole, json=body, headers=headers).status_code
    if status in (401, 403, 405) or (status == 404 and expected != 404):
        raise RuntimeError(f"the sandbox has no {protocol} at {whole}: {status}")
    return status


# Reports


def reports() -> dict[str, dict[str, Any]]:
    """Reported refusals of a history, by the id of their case."""
    cases = map(json.loads, CASES.read_text(encoding="utf-8").splitlines())
    return {case["id"]: case for case in cases if case["error"] and case["error"]["status"] in REFUSALS}


def _judge_reports(client: httpx.Client, tallies: dict[str, Tally]) -> None:
    for case_id, case in reports().items():
        case = checks.expand(case)
        tally = tallies.setdefault(case["provider"], Tally())
        body = unrewritten(case)
        if body is None:
            is_accepted = False  # Without words for it in the protocol there is no request that could pass.
        else:
            expected = case["error"]["status"]
            is_accepted = _sent(client, case["provider"], case["protocol"], _path(case), body, expected) == 200
        if is_accepted and case["format"] != case["protocol"]:
            tally.mended.append(case_id)
            continue
        tally.reported += 1
        if is_accepted:
            tally.false_passes.append(case_id)


def unrewritten(case: Mapping[str, Any]) -> dict[str, Any] | None:
    """The request of a case with no rule applied: as reported, or written by us; None where it can't be written."""
    if case["format"] == case["protocol"]:
        body = checks.naive_request(case)
        for key in ("format", "model"):
            body.pop(key, None)
    else:
        stored, system, read = stored_messages(case)
        wire = wire_module(case["protocol"])
        prompt = to_prompt(stored, system=system)
        try:
            encoded = wire.encode_request(prompt, settings_of(case, read), provider=case["provider"])
        except EncodingError:
            return None
        body = msgspec.json.decode(encoded.body)
    match case["protocol"]:
        case "anthropic-messages":
            return {"max_tokens": 2048, **body, "model": case["model"]}
        case "bedrock-converse" | "gemini-contents":
            body.pop("model", None)
            return body
    return {**body, "model": case["model"]}


def _path(case: Mapping[str, Any]) -> str:
    match case["protocol"]:
        case "bedrock-converse":
            return f"/model/{case['model']}/converse"
        case "gemini-contents" if case["provider"] == "gemini":
            return f"/v1beta/models/{case['model']}:generateContent"
        case "openai-responses":
            return "/v1/responses"
    return PATHS[case["provider"]].removeprefix(f"/{case['provider']}")


def page(tallies: Mapping[str, Tally]) -> str:
    """The page as Markdown."""
    rows = [_row(f"`{name}`", tally) for name, tally in tallies.items()]
    total = Tally()
    for tally in tallies.values():
        for name in Tally.__struct_fields__:
            setattr(total, name, getattr(total, name) + getattr(tally, name))
    head = ["provider", "answered with 200", "false refusals", "recorded refusals", "reported refusals", "false passes"]
    table = [_line(head), "|---|--:|--:|--:|--:|--:|", *rows, _row("all", total)]
    named = [
        f"- {kind}: {', '.join(f'`{case}`' for case in cases) or 'none'}"
        for kind, cases in (("False refusals", total.false_refusals), ("False passes", total.false_passes))
    ]
    others = [f"{words} ({count})" for words, count in sorted(Counter(total.other_errors).items())]
    left_out = [
        f"- Recorded errors that say nothing of the history: {', '.join(others) or 'none'}.",
        "- Reports in another protocol's form whose fault is gone once the history is written in the target's own,"
        f" before any rule: {', '.join(f'`{case}`' for case in total.mended) or 'none'}.",
    ]
    sections = [
        _HEAD.rstrip(), "\n".join(table), "## By name", "\n".join(named), "## Not counted", "\n".join(left_out),
    ]  # fmt: skip
    return "\n\n".join(sections) + "\n"


def _row(name: str, tally: Tally) -> str:
    counts = [
        tally.answered, len(tally.false_refusals), tally.refused, tally.reported, len(tally.false_passes),
    ]  # fmt: skip
    return _line([name, *map(str, counts)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.judge", description=__doc__.partition("\n")[0])
    parser.add_argument("--recordings", type=Path, default=RECORDINGS, metavar="DIR")
    asked = parser.parse_args(arguments)
    try:
        sys.stdout.write(page(judged(asked.recordings)))
    except OSError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
