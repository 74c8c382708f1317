"""The request of a prompt as processors left it: tools under their sent names, needs of the call put into settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from memory.errors import EncodingError
from memory.messages.prompt import Prompt
from memory.providers import wire_module
from memory.providers.wire import Encoded, Settings, Tool


def request_for(
    provider: str,
    protocol: str,
    prompt: Prompt,
    settings: Settings,
    *,
    tool_names: Mapping[str, str] | None = None,
    needs: Mapping[str, Any] | None = None,
) -> Encoded:
    """The encoded request.

    `tool_names` maps declared names to the ones that are sent. `needs`: `declare_tools` (names that the history calls
    and nobody declared), `without` (further keys of the request) and `thinking: "off"`, for this call only.

    Raises EncodingError for what the protocol can't say, and for half characters that no rule mended.
    """
    needs = needs or {}
    if not settings.tools and settings.tool_choice in ("auto", "none"):
        settings = replace(settings, tool_choice=_choice_of_none(protocol, settings.tool_choice, needs))
    if tool_names:
        settings = _renamed(settings, tool_names)
    if missing := needs.get("declare_tools"):
        schema = {"type": "object", "properties": {}}
        declared = tuple(Tool(name, "Used earlier in this conversation.", schema) for name in missing)
        settings = replace(settings, tools=settings.tools + declared)
    if without := needs.get("without"):
        settings = replace(settings, extra={key: value for key, value in settings.extra.items() if key not in without})
    if needs.get("thinking") == "off":
        settings = replace(settings, extra=_without_thinking(protocol, settings.extra))
    try:
        return wire_module(protocol).encode_request(prompt, settings, provider=provider)
    except UnicodeEncodeError as error:
        raise EncodingError(f"the request can't be written as JSON: {error.reason}") from error


def _renamed(settings: Settings, names: Mapping[str, str]) -> Settings:
    tools = tuple(
        replace(tool, name=names.get(tool.name, tool.name)) if tool.raw is None else tool for tool in settings.tools
    )
    choice = settings.tool_choice
    if isinstance(choice, Mapping):
        choice = {**choice, "toolName": names.get(choice["toolName"], choice["toolName"])}
    return replace(settings, tools=tools, tool_choice=choice)


def _choice_of_none(protocol: str, choice: str | Mapping[str, Any] | None, needs: Mapping[str, Any]) -> Any:
    """A choice among tools where nobody declared any: it says nothing, and hosts refuse it without tools.

    Tools of the history that are declared after all stay forbidden where the protocol can say so.
    """
    is_said = choice == "none" and needs.get("declare_tools") and protocol != "bedrock-converse"
    return choice if is_said else None


def _without_thinking(protocol: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The further keys with thinking switched off, as the protocol spells it."""
    rest = {key: value for key, value in extra.items() if key != "thinking"}
    if protocol == "openai-chat":
        return {**rest, "thinking": {"type": "disabled"}}
    return rest
