"""What OpenRouter refuses: what the upstream of the model would refuse, in a wrapping of its own.

The upstream is told by the maker in the model's name and sees only the keys the router passes on. What Anthropic and
Google do not take is rewritten on the way in a manner nobody documents, so their models are held to nothing here.
Source: OpenRouter's API reference (chat completions, errors), errors reported by client projects, and recorded
exchanges; last seen September 2026.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from memory.sandbox import deepseek, minimax, mistral, moonshot, openai_chat, qwen, xai, zhipu
from memory.sandbox.chat_shape import OPENAI_PARTS, Fault, Shape, bracketed, walk
from memory.sandbox.wire import Refused, string_of, to_json, words

_SHAPE = Shape(
    roles=("system", "developer", "user", "assistant", "tool"),
    parts=dict.fromkeys(OPENAI_PARTS, words("text image_url input_audio file video_url refusal")),
)


class _Upstream(Struct, frozen=True):
    title: str
    check: Callable[[Any], None]
    error_body: Callable[[Refused, str], dict[str, Any]]
    keys: frozenset[str] = words("role content tool_calls tool_call_id")
    """Keys of a message that it is shown."""
    reads_files: bool = False
    """Whether it is shown files as they are; to all others the router tells what it read in them."""


_REASONED = words("role content tool_calls tool_call_id reasoning_content")
_UPSTREAMS = {
    "openai": _Upstream("OpenAI", openai_chat.check, openai_chat.error_body, reads_files=True),
    "mistralai": _Upstream("Mistral", mistral.check, mistral.error_body),
    "deepseek": _Upstream("DeepSeek", deepseek.check, openai_chat.error_body, _REASONED),
    "x-ai": _Upstream("xAI", xai.check, xai.error_body),
    "moonshotai": _Upstream("Moonshot AI", moonshot.check, openai_chat.error_body, _REASONED),
    "qwen": _Upstream("Alibaba", qwen.check, openai_chat.error_body),
    "z-ai": _Upstream("Z.AI", zhipu.check, zhipu.error_body, _REASONED),
    "minimax": _Upstream("Minimax", minimax.check, minimax.error_body),
}


class _Wrapped(Refused):
    """What an upstream said: its body as text, and its name."""

    def __init__(self, raw: str, title: str, status: int = 400) -> None:
        super().__init__("Provider returned error", status=status)
        self.metadata = {"raw": raw, "provider_name": title}


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    error: dict[str, Any] = {"message": refused.message, "code": refused.status}
    if isinstance(refused, _Wrapped):
        error["metadata"] = refused.metadata
    return {"error": error, "user_id": "user_sandbox"}


def failure(status: int) -> Refused:
    """What the router says with this status when nothing is wrong with the conversation."""
    if status == 401:
        return Refused("No auth credentials found", status=401)
    if status == 402:
        return Refused("Insufficient credits. Add more using https://openrouter.ai/settings/credits", status=402)
    if status == 429:
        raw = "The model is temporarily rate-limited upstream. Please retry shortly."
        return _Wrapped(raw, "Sandbox", status=429)
    if status >= 500:
        return Refused("Internal Server Error", status=status)
    return Refused("Not Found" if status == 404 else "Error", status=status)


def check(body: Any) -> None:
    """Nothing when the router and its upstream would answer this request body; raises Refused where not."""
    try:
        walk(body, _SHAPE)
    except Fault as fault:
        raise Refused(
            f"Invalid input at {bracketed(fault.place) or 'the body'}: {fault.wanted or fault.kind}"
        ) from None
    _check_details(body["messages"])
    upstream = _UPSTREAMS.get(body["model"].partition("/")[0])
    if upstream is None:
        return
    try:
        upstream.check(_passed_on(body, upstream))
    except Refused as refused:
        raw = to_json(upstream.error_body(refused, "req_upstream")).decode()
        raise _Wrapped(raw, upstream.title, refused.status) from None


def is_reasoning(body: dict[str, Any]) -> bool:
    """Whether the answer shows reasoning, which has to be asked for."""
    asked = body.get("reasoning")
    return isinstance(asked, dict) and asked.get("enabled") is not False and string_of(asked, "effort") != "none"


def _passed_on(body: dict[str, Any], upstream: _Upstream) -> dict[str, Any]:
    messages = []
    for message in body["messages"]:
        shown = dict(message)
        if isinstance(message.get("reasoning"), str):
            shown["reasoning_content"] = message["reasoning"]
        told = {key: value for key, value in shown.items() if key in upstream.keys and value is not None}
        messages.append({key: _bare(value, upstream) for key, value in told.items()})
    return {"model": body["model"].partition("/")[2] or body["model"], "messages": messages}


def _bare(value: Any, upstream: _Upstream) -> Any:
    """A list of parts without what is the router's own: cache markers, and files, which it reads for most models."""
    if not isinstance(value, list):
        return value
    return [
        {"type": "text", "text": "What the file says."}
        if part.get("type") == "file" and not upstream.reads_files
        else {key: inner for key, inner in part.items() if key != "cache_control"}
        for part in value
    ]


def _check_details(messages: list[dict[str, Any]]) -> None:
    """An item of sealed reasoning comes once: the upstream knows its items by their ids."""
    seen: set[str] = set()
    for message in messages:
        details = message.get("reasoning_details")
        for detail in details if isinstance(details, list) else []:
            item_id = string_of(detail, "id")
            if item_id in seen:
                inner = Refused(f"Duplicate item found with id {item_id}.", param="input", code=None)
                raise _Wrapped(to_json(openai_chat.error_body(inner, "")).decode(), "OpenAI")
            if item_id:
                seen.add(item_id)
