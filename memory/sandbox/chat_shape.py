"""The chat completions protocol as its hosts read it: one walk over a body, one over its calls and results.

What is wrong comes as a `Fault` or a `Gap`, which say where; each host has its own words for it. A body that was walked
holds what the replies read, in the right types, and nothing more is promised.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from memory.sandbox.wire import words

TEXT = words("text")
OPENAI_PARTS = {
    "system": TEXT,
    "developer": TEXT,
    "user": words("text image_url input_audio file video_url"),
    "assistant": words("text refusal"),
    "tool": TEXT,
}
OPENAI_KEYS = {
    "system": words("role content name"),
    "developer": words("role content name"),
    "user": words("role content name"),
    "assistant": words("role content name tool_calls"),
    "tool": words("role content name tool_call_id"),
}


class Shape(Struct, frozen=True):
    """What a host can read: the roles, and by role the part types a list of content may hold; no entry, no list.

    Keys that are not named are refused; None takes any. Calls have the keys `call_keys` and, in their function, a name
    and arguments.
    """

    roles: tuple[str, ...] = ("system", "user", "assistant", "tool")
    parts: Mapping[str, frozenset[str]] = field(default_factory=lambda: OPENAI_PARTS)
    request_keys: frozenset[str] | None = None
    message_keys: Mapping[str, frozenset[str]] | None = None
    call_keys: frozenset[str] | None = None
    arguments: tuple[type, ...] = (str,)


class Fault(Exception):
    """What a host can't read. `place` is the way to it, `role` that of the message it is in.

    `kind`: `missing` or `type` (`wanted` says what belongs there), `role`, `part` (a part's type), `key`.
    """

    def __init__(
        self, kind: str, place: tuple[str | int, ...], value: Any, *, wanted: str = "", role: str = ""
    ) -> None:
        super().__init__(f"{kind} at {dotted(place)}")
        self.kind = kind
        self.place = place
        self.value = value
        self.wanted = wanted
        self.role = role


class Gap(Struct, frozen=True):
    """Calls and results that don't belong together, at the message where it shows.

    `orphan`: a result, in `ids`, of no call right before; `role` is the role before it. `missing`: the calls, in `ids`,
    that got none; `index` is then the message behind the results, `call_index` the one that called.
    """

    kind: Literal["orphan", "missing"]
    index: int
    ids: tuple[str, ...]
    call_index: int = -1
    role: str = ""


def dotted(place: tuple[str | int, ...]) -> str:
    return ".".join(map(str, place))


def bracketed(place: tuple[str | int, ...]) -> str:
    """The place with list positions in brackets: `messages[1].content[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")


def walk(body: Any, shape: Shape) -> None:
    """Nothing when the host can read the body; raises Fault at the first thing it can't."""
    _want(body, dict, (), "an object")
    for key in body:
        if shape.request_keys is not None and key not in shape.request_keys:
            raise Fault("key", (key,), body[key])
    _want(body.get("model"), str, ("model",), "a string")
    _want_list(body.get("messages"), ("messages",))
    for index, message in enumerate(body["messages"]):
        _walk_message(message, shape, ("messages", index))
    if body.get("tools") is not None:
        _want(body["tools"], list, ("tools",), "an array")
        for at, tool in enumerate(body["tools"]):
            _walk_tool(tool, ("tools", at))


def gap(messages: list[dict[str, Any]]) -> Gap | None:
    """The first place where results don't stand right behind the message that called, one for each of its calls."""
    waiting: dict[str, bool] = {}
    call_index, role = -1, ""
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            if call_id not in waiting:
                return Gap("orphan", index, (call_id,), call_index, role)
            waiting[call_id] = True
        else:
            if missing := _unanswered(waiting):
                return Gap("missing", index, missing, call_index)
            waiting = {call["id"]: False for call in message.get("tool_calls") or []}
            call_index = index
        role = message["role"]
    missing = _unanswered(waiting)
    return Gap("missing", len(messages), missing, call_index) if missing else None


def arguments_of(message: Mapping[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    """The calls of a message with their decoded arguments; with `msgspec.UNSET` where they are no JSON."""
    found = []
    for call in message.get("tool_calls") or []:
        text = call["function"]["arguments"]
        try:
            found.append((call, msgspec.json.decode(text) if isinstance(text, str) else text))
        except (msgspec.MsgspecError, RecursionError):
            found.append((call, msgspec.UNSET))
    return found


def parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content of a message that is a list, else nothing."""
    content = message.get("content")
    return content if isinstance(content, list) else []


def is_empty(message: Mapping[str, Any]) -> bool:
    """Whether a message says nothing and calls nothing."""
    return not message.get("content") and not message.get("tool_calls")


def _unanswered(waiting: Mapping[str, bool]) -> tuple[str, ...]:
    return tuple(call_id for call_id, is_answered in waiting.items() if not is_answered)


def _walk_message(message: Any, shape: Shape, place: tuple[str | int, ...]) -> None:
    _want(message, dict, place, "an object")
    role = message.get("role")
    if role not in shape.roles:
        raise Fault("role", (*place, "role"), role)
    known = None if shape.message_keys is None else shape.message_keys.get(role, frozenset())
    for key in message:
        if known is not None and key not in known:
            raise Fault("key", (*place, key), message[key], role=role)
    if role == "tool":
        _want(message.get("tool_call_id"), str, (*place, "tool_call_id"), "a string", role)
    content = message.get("content")
    if isinstance(content, list) and role in shape.parts:
        for at, part in enumerate(content):
            _walk_part(part, shape.parts[role], (*place, "content", at), role)
    elif content is not None:
        _want(content, str, (*place, "content"), "a string", role)
    if message.get("tool_calls") is not None:
        _want(message["tool_calls"], list, (*place, "tool_calls"), "an array", role)
        for at, call in enumerate(message["tool_calls"]):
            _walk_call(call, shape, (*place, "tool_calls", at), role)


def _walk_part(part: Any, known: frozenset[str], place: tuple[str | int, ...], role: str) -> None:
    _want(part, dict, place, "an object", role)
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in known:
        raise Fault("part", (*place, "type"), kind, wanted=", ".join(sorted(known)), role=role)
    if kind == "text":
        _want(part.get("text"), str, (*place, "text"), "a string", role)


def _walk_call(call: Any, shape: Shape, place: tuple[str | int, ...], role: str) -> None:
    _want(call, dict, place, "an object", role)
    for key in call:
        if shape.call_keys is not None and key not in shape.call_keys:
            raise Fault("key", (*place, key), call[key], role=role)
    _want(call.get("id"), str, (*place, "id"), "a string", role)
    function = call.get("function")
    _want(function, dict, (*place, "function"), "an object", role)
    _want(function.get("name"), str, (*place, "function", "name"), "a string", role)
    if not isinstance(function.get("arguments"), shape.arguments):
        raise Fault("type", (*place, "function", "arguments"), function.get("arguments"), wanted="a string", role=role)


def _walk_tool(tool: Any, place: tuple[str | int, ...]) -> None:
    """A function; a tool of another type, which the host runs itself, may hold anything."""
    _want(tool, dict, place, "an object")
    if tool.get("type", "function") != "function":
        _want(tool["type"], str, (*place, "type"), "a string")
        return
    function = tool.get("function")
    _want(function, dict, (*place, "function"), "an object")
    _want(function.get("name"), str, (*place, "function", "name"), "a string")
    if function.get("parameters") is not None:
        _want(function["parameters"], dict, (*place, "function", "parameters"), "an object")


def _want_list(value: Any, place: tuple[str | int, ...]) -> None:
    _want(value, list, place, "an array")
    if not value:
        raise Fault("type", place, value, wanted="an array that is not empty")


def _want(value: Any, kind: type, place: tuple[str | int, ...], wanted: str, role: str = "") -> None:
    if value is None:
        raise Fault("missing", place, value, wanted=wanted, role=role)
    if not isinstance(value, kind):
        raise Fault("type", place, value, wanted=wanted, role=role)
