"""The histories of public bug reports: the pretend providers refuse them in the words of the real ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory.providers.classify import classify
from tests.cases import checks
from tests.sandbox.conftest import HEADERS, PATHS

_LINES = (Path(checks.__file__).parent / "provider_rejections.jsonl").read_text(encoding="utf-8").splitlines()
CASES = {
    case["id"]: case
    for case in map(json.loads, _LINES)
    # Others are reported of a history that was first rewritten, or of a limit.
    if case["format"] == case["protocol"] and case["error"] and case["error"]["status"] in (400, 404)
}
NOT_SEEN = {
    # Sealed reasoning is taken for genuine: only its maker can tell where it was sealed.
    "s32-responses-org-change",
}
"""What a pretend provider has no way to know."""
OTHER_WORDS = {
    # A signature it did not make, too short for a real one, is invalid; that it was good once can't be known.
    "s12-anthropic-open-loop-foreign": "messages.1.content.0: Invalid `signature` in `thinking` block",
    # Two faults: the order of roles is looked at first.
    "s17-bedrock-whitespace": "A conversation must start with a user message. Try again with a conversation that starts"
    " with a user message.",
    # The report lost the backticks.
    "s22-anthropic-orphan": "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_gone."
    " Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
}
"""Refused as well, for another reason or in another spelling."""


def send(client: httpx.Client, case: dict[str, Any]) -> httpx.Response:
    body = checks.naive_request(case)
    provider, model = case["provider"], body.pop("model")
    del body["format"]
    path = PATHS[provider]
    match case["protocol"]:
        case "anthropic-messages":
            body |= {"model": model, "max_tokens": 2048}
        case "bedrock-converse":
            path = f"/bedrock/model/{model}/converse"
            body.pop("tools", None)
        case "gemini-contents":
            path = f"/gemini/v1beta/models/{model}:generateContent"
        case "openai-responses":
            path = f"/{provider}/v1/responses"
            body["model"] = model
        case _:
            body["model"] = model
    return client.post(path, json=body, headers=HEADERS[provider])


@pytest.mark.parametrize("case_id", [case_id for case_id in CASES if case_id not in NOT_SEEN])
def test_a_reported_history_is_refused_in_the_same_words(client: httpx.Client, case_id: str) -> None:
    case = checks.expand(CASES[case_id])
    response = send(client, case)

    said = classify(case["provider"], response.status_code, {}, response.text).message
    wanted = classify(case["provider"], case["error"]["status"], {}, json.dumps(case["error"]["body"])).message
    assert (response.status_code, said) == (case["error"]["status"], OTHER_WORDS.get(case_id, wanted))
