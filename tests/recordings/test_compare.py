"""The comparison itself: it forgives what it names, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from tests.providers.payloads import payload
from tests.recordings.compare import differences


def changed(body: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    out = deepcopy(body)
    target: Any = out
    for step in path[:-1]:
        target = target[step]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return out


class TestDifferences:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (["messages", 0, "content", 6], None),
            (["messages", 1, "content", 0, "signature"], "b3RoZXI="),
            (["messages", 1, "content", 3, "input", "big"], 10**24),
            (["messages", 1, "content", 4, "cache_control"], None),
            (["messages", 2, "content", 0, "content"], "08:06"),
            (["messages", 2, "content", 1, "is_error"], False),
            (["messages", 3], None),
            (["messages", 4, "content", 1, "content", 0, "encrypted_content"], "eA=="),
            (["system", 1, "cache_control"], None),
            (["tools", 1, "strict"], None),
            (["thinking"], None),
        ],
    )
    def test_sees_a_change_of_a_messages_body(self, path: list[Any], value: Any) -> None:
        sent = payload("anthropic", "every_block")
        assert differences("anthropic-messages", sent, changed(sent, path, value))

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (["messages", 0, "role"], "system"),
            (["messages", 2, "content", 1, "image_url", "detail"], None),
            (["messages", 2, "name"], None),
            (["messages", 3, "tool_calls", 1, "function", "arguments"], '{"row":4'),
            (["messages", 3, "tool_calls", 2], None),
            (["messages", 4, "tool_call_id"], "call_2"),
            (["messages", 10, "refusal"], None),
            (["reasoning_effort"], None),
        ],
    )
    def test_sees_a_change_of_a_chat_body(self, path: list[Any], value: Any) -> None:
        sent = payload("openai", "every_part")
        assert differences("openai-chat", sent, changed(sent, path, value))

    def test_forgives_the_order_of_results_only_after_the_store(self) -> None:
        sent = payload("anthropic", "every_block")
        first, second, rest = sent["messages"][2]["content"]
        turned = changed(sent, ["messages", 2, "content"], [second, first, rest])
        assert differences("anthropic-messages", sent, turned)
        assert differences("anthropic-messages", sent, turned, was_stored=True) == []
