"""The shape of a Messages request: its keys, its tools, its messages and the blocks they hold."""

import re
from typing import Any

from msgspec import Struct

from memory.sandbox.wire import Refused, words

_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_SERVER_ID = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_SERVER_TOOL = re.compile(r"[a-z0-9_]+_\d{8}")
_IMAGE_BYTES = 5 * 1024 * 1024

_REQUEST_KEYS = words(
    "cache_control container context_management inference_geo max_tokens mcp_servers messages metadata model "
    "output_config output_format service_tier stop_sequences stream system temperature thinking tool_choice tools "
    "top_k top_p"
)
_TOOL_KEYS = words(
    "allowed_callers cache_control defer_loading description eager_input_streaming input_examples input_schema "
    "name strict type"
)
_SERVER_TOOL_KEYS = words(
    "allowed_callers allowed_domains blocked_domains cache_control citations configs default_config defer_loading "
    "display_height_px display_number display_width_px enable_zoom max_characters max_content_tokens max_uses "
    "mcp_server_name name strict type user_location"
)
_SOURCE_KEYS = {
    "base64": {"type", "media_type", "data"},
    "text": {"type", "media_type", "data"},
    "url": {"type", "url"},
    "file": {"type", "file_id"},
    "content": {"type", "content"},
}


class _Block(Struct, frozen=True):
    """Where a block may stand (messages of these roles, a tool result), the keys it needs and those it takes."""

    roles: tuple[str, ...]
    needs: frozenset[str]
    takes: frozenset[str]


def _block(roles: str, needs: str, takes: str = "cache_control") -> _Block:
    return _Block(tuple(roles.split()), words(needs), words(takes))


_SERVER_RESULT = _block("assistant", "tool_use_id content", "cache_control caller")
_BLOCKS = {
    "text": _block("user assistant system tool_result", "text", "cache_control citations"),
    "image": _block("user tool_result", "source"),
    "document": _block("user tool_result", "source", "cache_control title context citations"),
    "search_result": _block("user tool_result", "source title content", "cache_control citations"),
    "container_upload": _block("user", "file_id"),
    "tool_result": _block("user", "tool_use_id", "cache_control content is_error"),
    "tool_use": _block("assistant", "id name input", "cache_control caller"),
    "thinking": _block("assistant", "thinking signature", ""),
    "redacted_thinking": _block("assistant", "data", ""),
    "compaction": _block("assistant", "content"),
    "server_tool_use": _block("assistant", "id name input", "cache_control caller"),
    "mcp_tool_use": _block("assistant", "id name input server_name"),
    "mcp_tool_result": _block("assistant", "tool_use_id", "cache_control content is_error"),
    "advisor_tool_result": _SERVER_RESULT,
    "bash_code_execution_tool_result": _SERVER_RESULT,
    "code_execution_tool_result": _SERVER_RESULT,
    "text_editor_code_execution_tool_result": _SERVER_RESULT,
    "tool_search_tool_result": _SERVER_RESULT,
    "web_fetch_tool_result": _SERVER_RESULT,
    "web_search_tool_result": _SERVER_RESULT,
    "tool_addition": _block("system", "tool"),
    "tool_reference": _block("tool_result", "tool_name"),
}
_STRINGS = frozenset(
    {"text", "id", "name", "tool_use_id", "thinking", "signature", "data", "file_id", "tool_name", "server_name"}
)


def check_request(body: dict[str, Any]) -> None:
    for key in ("model", "messages", "max_tokens"):
        if key not in body:
            raise Refused(f"{key}: Field required")
    for key in body:
        if key not in _REQUEST_KEYS:
            raise Refused(f"{key}: Extra inputs are not permitted")
    if not isinstance(body["model"], str) or not body["model"]:
        raise Refused("model: Input should be a valid string")
    limit = body["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise Refused("max_tokens: Input should be a valid integer")
    if limit < 1:
        raise Refused("max_tokens: Input should be greater than or equal to 1")
    if not isinstance(body["messages"], list):
        raise Refused("messages: Input should be a valid array")
    if not body["messages"]:
        raise Refused("messages: at least one message is required")
    for key in ("thinking", "tool_choice", "metadata"):
        if body.get(key) is not None and not isinstance(body[key], dict):
            raise Refused(f"{key}: Input should be a valid dictionary")
    _check_system(body.get("system"))
    _check_tools(body)


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    if not isinstance(system, list):
        raise Refused("system: Input should be a valid array")
    for at, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            raise Refused(f"system.{at}: Input should be a text block")
        _check_keys(block, f"system.{at}")
        if not block["text"]:
            raise Refused("system: text content blocks must be non-empty")
        if not block["text"].strip():
            raise Refused("system: text content blocks must contain non-whitespace text")


def _check_tools(body: dict[str, Any]) -> None:
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise Refused("tools: Input should be a valid array")
    for at, tool in enumerate(tools or []):
        if not isinstance(tool, dict):
            raise Refused(f"tools.{at}: Input should be a valid dictionary")
        kind = tool.get("type", "custom")
        is_custom = kind in ("custom", None)
        if not is_custom and not (isinstance(kind, str) and (_SERVER_TOOL.fullmatch(kind) or kind == "mcp_toolset")):
            raise Refused(f"tools.{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags")
        place = f"tools.{at}.{'custom' if is_custom else kind}"
        for key in tool:
            if key not in (_TOOL_KEYS if is_custom else _SERVER_TOOL_KEYS):
                raise Refused(f"{place}.{key}: Extra inputs are not permitted")
        if is_custom:
            for key in ("name", "input_schema"):
                if key not in tool:
                    raise Refused(f"{place}.{key}: Field required")
            if not isinstance(tool["name"], str) or not _TOOL_NAME.fullmatch(tool["name"]):
                raise Refused(f"{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
            if not isinstance(tool["input_schema"], dict):
                raise Refused(f"{place}.input_schema: Input should be a valid dictionary")
    choice = body.get("tool_choice")
    if choice is not None and choice.get("type") not in ("auto", "any", "tool", "none"):
        raise Refused("tool_choice: Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'")


# One message and its blocks


def check_message(message: Any, place: str, *, is_last: bool) -> None:
    if not isinstance(message, dict):
        raise Refused(f"{place}: Input should be a valid dictionary")
    for key in ("role", "content"):
        if key not in message:
            raise Refused(f"{place}.{key}: Field required")
    for key in message:
        if key not in ("role", "content"):
            raise Refused(f"{place}.{key}: Extra inputs are not permitted")
    role, content = message["role"], message["content"]
    if role not in ("user", "assistant", "system"):
        raise Refused(f'messages: Unexpected role "{role}". Allowed roles are "user" or "assistant".')
    if not isinstance(content, str | list):
        raise Refused(f"{place}.content: Input should be a valid array")
    if not content and not (is_last and role == "assistant"):
        raise Refused(
            f"{place}: all messages must have non-empty content except for the optional final assistant message"
        )
    if isinstance(content, list):
        for at, block in enumerate(content):
            _check_block(block, f"{place}.content.{at}", role)


def _check_block(block: Any, place: str, role: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    known = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if kind is None:
        raise Refused(f"{place}.type: Field required")
    if known is None or (role == "tool_result" and role not in known.roles):
        tags = ", ".join(f"'{name}'" for name, entry in _BLOCKS.items() if role in entry.roles)
        raise Refused(f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}")
    if role not in known.roles:
        raise Refused(f"{place}: `{kind}` blocks can only be in `{known.roles[0]}` messages")
    _check_keys(block, place)
    match kind:
        case "tool_use":
            _check_id(block["id"], f"{place}.tool_use.id")
            if not block["name"]:
                raise Refused(f"{place}.tool_use.name: String should have at least 1 character")
            _check_input(block["input"], f"{place}.tool_use.input")
        case "server_tool_use":
            if not _SERVER_ID.fullmatch(block["id"]):
                raise Refused(f"{place}.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'")
            _check_input(block["input"], f"{place}.server_tool_use.input")
        case "mcp_tool_use":
            _check_id(block["id"], f"{place}.mcp_tool_use.id")
            _check_input(block["input"], f"{place}.mcp_tool_use.input")
        case "tool_result":
            _check_id(block["tool_use_id"], f"{place}.tool_result.tool_use_id")
            _check_result(block, f"{place}.tool_result")
        case "image" | "document":
            _check_source(block["source"], f"{place}.{kind}.source", kind)


def _check_keys(block: dict[str, Any], place: str) -> None:
    """Keys a block must have and may have; `place` is where it stands, without its type."""
    kind = block["type"]
    known = _BLOCKS[kind]
    if kind == "thinking" and "signature" not in block and not block.get("thinking"):
        raise Refused(f"{place}.thinking: each thinking block must contain thinking")
    for key in sorted(known.needs):
        if key not in block:
            raise Refused(f"{place}.{kind}.{key}: Field required")
    for key, value in block.items():
        if key != "type" and key not in known.needs and key not in known.takes:
            raise Refused(f"{place}.{kind}.{key}: Extra inputs are not permitted")
        if key in _STRINGS and not isinstance(value, str):
            raise Refused(f"{place}.{kind}.{key}: Input should be a valid string")
    if block.get("caller") is not None and not isinstance(block["caller"], dict):
        raise Refused(f"{place}.{kind}.caller: Input should be an object")
    marker = block.get("cache_control")
    if marker is not None:
        if not isinstance(marker, dict) or marker.get("type") != "ephemeral" or marker.keys() - {"type", "ttl"}:
            raise Refused(f"{place}.{kind}.cache_control: Input should be an object with type 'ephemeral'")
        if kind == "text" and not block["text"]:
            raise Refused(f"{place}.text: cache_control cannot be set for empty text blocks")


def _check_id(value: str, place: str) -> None:
    if not _TOOL_ID.fullmatch(value):
        raise Refused(f"{place}: String should match pattern '^[a-zA-Z0-9_-]+$'")


def _check_input(value: Any, place: str) -> None:
    if not isinstance(value, dict):
        raise Refused(f"{place}: Input should be a valid dictionary")


def _check_result(block: dict[str, Any], place: str) -> None:
    content, is_error = block.get("content"), block.get("is_error")
    if is_error is not None and not isinstance(is_error, bool):
        raise Refused(f"{place}.is_error: Input should be a valid boolean")
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise Refused(f"{place}.content: Input should be a valid array")
    for at, inner in enumerate(content):
        _check_block(inner, f"{place}.content.{at}", "tool_result")


def _check_source(source: Any, place: str, kind: str) -> None:
    """Where the bytes of an image or a document come from."""
    allowed = {"base64", "url", "file"} if kind == "image" else set(_SOURCE_KEYS)
    tag = source.get("type") if isinstance(source, dict) else None
    if not isinstance(tag, str) or tag not in allowed:
        tags = ", ".join(f"'{name}'" for name in sorted(allowed))
        raise Refused(f"{place}: Input tag '{tag}' found using 'type' does not match any of the expected tags: {tags}")
    for key in sorted(_SOURCE_KEYS[tag] ^ source.keys()):
        fault = "Extra inputs are not permitted" if key in source else "Field required"
        raise Refused(f"{place}.{tag}.{key}: {fault}")
    if tag != "base64":
        return
    media = ["image/gif", "image/jpeg", "image/png", "image/webp"] if kind == "image" else ["application/pdf"]
    if source["media_type"] not in media:
        names = " or ".join(f"'{name}'" for name in media)
        raise Refused(f"{place}.base64.media_type: Input should be {names}")
    if not isinstance(source["data"], str):
        raise Refused(f"{place}.base64.data: Input should be a valid string")
    size = len(source["data"]) * 3 // 4
    if kind == "image" and size > _IMAGE_BYTES:
        raise Refused(f"{place}.base64: image exceeds 5 MB maximum: {size} bytes > {_IMAGE_BYTES} bytes")
