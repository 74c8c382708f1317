"""What Cohere's chat (v2) refuses, in its own words where they are known.

Source: Cohere's API reference (v2 chat), errors reported by client projects, and recorded exchanges; last seen
September 2026. What is not listed is refused.
"""

from collections.abc import Mapping
from typing import Any

from memory.sandbox.openai_chat import bearer
from memory.sandbox.wire import BadJson, Refused, kind_of, read_json, words

_REQUEST_KEYS = words(
    "model messages tools strict_tools tool_choice documents citation_options response_format safety_mode max_tokens "
    "stop_sequences temperature seed frequency_penalty presence_penalty k p logprobs stream thinking priority"
)
_MESSAGE_KEYS = {
    "system": words("role content"),
    "user": words("role content"),
    "assistant": words("role content tool_calls tool_plan citations"),
    "tool": words("role content tool_call_id"),
}
_PART_KEYS = {
    "text": words("type text"),
    "thinking": words("type thinking"),
    "image_url": words("type image_url"),
    "document": words("type document"),
}
_PARTS = {
    "system": words("text"),
    "user": words("text image_url"),
    "assistant": words("text thinking"),
    "tool": words("text document"),
}


def authorise(headers: Mapping[str, str]) -> None:
    """Any key is right; raises Refused with 401 without one."""
    if not bearer(headers):
        raise Refused("no api key supplied", status=401)


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {"id": request_id, "message": refused.message}


_FAILURES = {
    401: "invalid api token",
    404: "not found",
    413: "request body too large",
    429: "Please wait and try again later",
    500: "internal server error, this has been reported to our developers.",
    503: "service unavailable",
}


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    return Refused(_FAILURES.get(status, "error"), status=status)


def bad_json(error: BadJson) -> Refused:
    return Refused(f"invalid request: the body is not JSON: {error.reason}: {error.place}")


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body; raises Refused where it would not."""
    if not isinstance(body, dict):
        raise _invalid("the body must be an object")
    _check_keys(body, _REQUEST_KEYS, "")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise _invalid("model is required")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _invalid("messages must be a list with at least one message")
    _check_tools(body)
    for index, message in enumerate(messages):
        _check_message(message, f"messages[{index}]", is_last=index == len(messages) - 1)
    _check_pairs(messages)


def _invalid(what: str) -> Refused:
    return Refused(f"invalid request: {what}.")


def _check_keys(value: dict[str, Any], known: frozenset[str], place: str) -> None:
    for key in value:
        if key not in known:
            raise _invalid(f"unknown field {place}.{key}" if place else f"unknown field {key}")


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _invalid(f"{place} must be an object, not {kind_of(value)}")
    return value


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _invalid(f"{place} must be a string, not {kind_of(value)}")
    return value


def _listed(value: Any, place: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _invalid(f"{place} must be a list, not {kind_of(value)}")
    return value


def _check_tools(body: dict[str, Any]) -> None:
    tools = _listed(body.get("tools"), "tools")
    for index, tool in enumerate(tools):
        place = f"tools[{index}]"
        _check_keys(_object(tool, place), words("type function"), place)
        function = _object(tool.get("function"), f"{place}.function")
        _check_keys(function, words("name description parameters"), f"{place}.function")
        if tool.get("type") != "function" or not _text(function.get("name"), f"{place}.function.name"):
            raise _invalid(f"{place} must be a function with a name")
        _object(function.get("parameters"), f"{place}.function.parameters")
    choice = body.get("tool_choice")
    if choice not in (None, "REQUIRED", "NONE"):
        raise _invalid("tool_choice must be one of REQUIRED, NONE")
    if choice is not None and not tools:
        raise _invalid("tool_choice needs tools")


def _check_message(value: Any, place: str, *, is_last: bool) -> None:
    message = _object(value, place)
    role = message.get("role")
    if not isinstance(role, str) or role not in _MESSAGE_KEYS:
        raise _invalid(f"{place}.role must be one of assistant, system, tool, user")
    _check_keys(message, _MESSAGE_KEYS[role], place)
    is_empty = _check_content(message.get("content"), role, f"{place}.content")
    calls = _listed(message.get("tool_calls"), f"{place}.tool_calls")
    for index, call in enumerate(calls):
        _check_call(call, f"{place}.tool_calls[{index}]")
    _listed(message.get("citations"), f"{place}.citations")
    if message.get("tool_plan") is not None:
        _text(message["tool_plan"], f"{place}.tool_plan")
    if role == "tool":
        _text(message.get("tool_call_id"), f"{place}.tool_call_id")
    elif is_empty and not calls:
        if is_last and role == "user":
            raise _invalid("message must be at least 1 token long or tool results must be specified")
        raise _invalid("all elements in history must have a message")


def _check_content(content: Any, role: str, place: str) -> bool:
    """Whether it says nothing. Raises Refused for what the role can't hold."""
    if content is None:
        return True
    if isinstance(content, str):
        return not content
    is_empty = True
    for index, item in enumerate(_listed(content, place)):
        part, at = _object(item, f"{place}[{index}]"), f"{place}[{index}]"
        kind = part.get("type")
        if not isinstance(kind, str) or kind not in _PARTS[role]:
            raise _invalid(f"{at}.type must be one of {', '.join(sorted(_PARTS[role]))}")
        _check_keys(part, _PART_KEYS[kind], at)
        match kind:
            case "image_url":
                image = _object(part.get("image_url"), f"{at}.image_url")
                _check_keys(image, words("url detail"), f"{at}.image_url")
                _text(image.get("url"), f"{at}.image_url.url")
            case "document":
                document = _object(part.get("document"), f"{at}.document")
                _check_keys(document, words("data id"), f"{at}.document")
            case _:
                if not _text(part.get(kind), f"{at}.{kind}"):
                    continue
        is_empty = False
    return is_empty


def _check_call(value: Any, place: str) -> None:
    call = _object(value, place)
    _check_keys(call, words("id type function"), place)
    _text(call.get("id"), f"{place}.id")
    function = _object(call.get("function"), f"{place}.function")
    _check_keys(function, words("name arguments"), f"{place}.function")
    _text(function.get("name"), f"{place}.function.name")
    try:
        arguments = read_json(_text(function.get("arguments"), f"{place}.function.arguments").encode())
    except (BadJson, UnicodeError):
        raise _invalid(f"{place}.function.arguments must be JSON") from None
    if arguments is not None and not isinstance(arguments, dict):
        raise _invalid(f"{place}.function.arguments must be a JSON object")


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """The calls of a turn are all answered right behind it, and nothing else is."""
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise _invalid(f"messages[{index}].tool_call_id answers no call of the turn before")
            waiting.discard(message["tool_call_id"])
            continue
        _check_answered(waiting)
        waiting = {call["id"] for call in message.get("tool_calls") or []}
    _check_answered(waiting)


def _check_answered(waiting: set[str]) -> None:
    if waiting:
        raise _invalid(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
        )
