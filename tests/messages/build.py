"""Stored messages and prompts in few words: a test names only what it is about."""

from datetime import UTC, datetime, timedelta
from typing import Any

from memory.messages.lists import MessageList

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> str:
    """A stored time so many seconds after a fixed instant before NOW."""
    moment = datetime(2026, 2, 10, 8, tzinfo=UTC) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def text(value: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def thought(value: str = "hm", **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "reasoning": value, "details": [{"type": "text", "text": value}], **fields}


def tool(call_id: str = "c1", state: str = "result", *, part: dict[str, Any] | None = None, **fields: Any) -> Any:
    """A tool part; `part` holds fields beside the invocation."""
    invocation = {"state": state, "toolCallId": call_id, "toolName": "f", "args": {"x": 1}}
    if state == "result":
        invocation["result"] = "r"
    return {"type": "tool-invocation", "toolInvocation": {**invocation, **fields}, **(part or {})}


def message(id: str, *parts: dict[str, Any], role: str = "assistant", **fields: Any) -> dict[str, Any]:
    """A stored message; `metadata`, `content` and `toolInvocations` go into its content."""
    content: dict[str, Any] = {"format": 2, "parts": list(parts)}
    for key in ("metadata", "content", "toolInvocations", "providerMetadata"):
        if key in fields:
            content[key] = fields.pop(key)
    return {"id": id, "role": role, "content": content, **fields}


def user(id: str = "u1", value: str = "q", **fields: Any) -> dict[str, Any]:
    return message(id, text(value), role="user", **fields)


def make_list(*given: tuple[str, Any], **options: Any) -> MessageList:
    """A list of thread `th-1` and resource `res-1` with these (source, messages), at NOW."""
    out = MessageList(**{"thread_id": "th-1", "resource_id": "res-1", "clock": lambda: NOW, **options})
    for source, messages in given:
        out.add(messages, source)
    return out


def ids(messages: MessageList) -> list[str]:
    return [value["id"] for value in messages.messages]


def parts(value: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of a message without their times."""
    return [{k: v for k, v in part.items() if k != "createdAt"} for part in value["content"]["parts"]]


def states(value: dict[str, Any]) -> list[str]:
    return [part["toolInvocation"]["state"] for part in parts(value) if part["type"] == "tool-invocation"]
