"""Providers: one module per protocol, one entry per provider id. `http` does the sending."""

from __future__ import annotations

from memory.errors import InvalidInput
from memory.providers import (
    anthropic_messages,
    bedrock_converse,
    cohere_v2,
    gemini_contents,
    openai_chat,
    openai_responses,
)
from memory.providers.entries import ENTRIES, ProviderEntry, entry_for
from memory.providers.wire import WireModule

__all__ = ["ENTRIES", "PROTOCOLS", "ProviderEntry", "entry_for", "wire_module"]

PROTOCOLS: dict[str, WireModule] = {
    module.PROTOCOL: module
    for module in (anthropic_messages, openai_chat, openai_responses, gemini_contents, bedrock_converse, cohere_v2)
}


def wire_module(protocol: str) -> WireModule:
    """The module that speaks `protocol`. Raises InvalidInput (`protocol_not_supported`) naming those we have."""
    module = PROTOCOLS.get(protocol)
    if module is None:
        message = f"protocol {protocol!r} is not supported; supported are {', '.join(PROTOCOLS)}"
        raise InvalidInput(message, field="protocol", code="protocol_not_supported")
    return module
