"""Which format a value is in, and which protocol a request body is written in: told from what only one of them has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory.imports.values import objects, word
from memory.messages.names import PROTOCOLS

BODIES = tuple(PROTOCOLS)
FORMATS = ("recording", *BODIES, "openai-items", "openai-assistants", "mastra", "langchain", "ai-sdk")

_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"}
_OPENAI_ROLES = {"system", "developer", "tool"}
_CONVERSE_KEYS = {"inferenceConfig", "toolConfig", "guardrailConfig", "additionalModelRequestFields"}
_COHERE_KEYS = {"documents", "citation_options", "safety_mode", "strict_tools", "p", "k"}
_COHERE_MODELS = ("command", "c4ai", "north-", "tiny-aya")
_LANGCHAIN_TYPES = {"human", "ai", "system", "tool", "function", "chat", "remove"}
_LANGCHAIN_TYPES |= {"HumanMessage", "AIMessage", "SystemMessage", "ToolMessage", "AIMessageChunk"}
_ASSISTANTS = {"thread", "thread.message", "thread.run", "thread.run.step"}


def format_of(value: Any) -> str:
    """One of FORMATS; `recording` also for what is none of them, whose reader says so."""
    if isinstance(value, Mapping):
        if "request" in value or ("protocol" in value and "messages" not in value):
            return "recording"
        return _of_object(value)
    return _of_messages(value) if isinstance(value, list) else "recording"


def is_one_history(value: Sequence[Any]) -> bool:
    """Whether a list is the messages or items of one history, not a list of histories."""
    return bool(_of_messages(value))


def is_assistants_list(value: Any) -> bool:
    """Whether a value is a list of an Assistants thread's messages, runs or run steps."""
    found = objects(value)
    return bool(found) and all(word(item, "object") in _ASSISTANTS for item in found)


def _of_object(value: Mapping[str, Any]) -> str:
    if is_assistants_list(value) or any(is_assistants_list(value.get(key)) for key in ("messages", "runs", "steps")):
        return "openai-assistants"
    if value.get("object") == "list" or objects(value.get("items")):
        return "openai-items"
    if isinstance(value.get("threads"), list):
        return "mastra"
    values = value.get("values")
    state = values if isinstance(values, Mapping) else value
    found = _of_messages(state.get("messages"))
    if found in ("langchain", "mastra", "ai-sdk"):
        return found
    if isinstance(value.get("messages"), list) and isinstance(value.get("thread"), Mapping):
        return "mastra"
    return guessed_protocol(value) if any(key in value for key in ("messages", "input", "contents")) else "recording"


def _of_messages(value: Any) -> str:
    """The format of a list of messages or items; empty when it is none."""
    found = objects(value)
    if not isinstance(value, list) or not found or len(found) != len(value):
        return ""
    if all("lc" in item or (word(item, "type") in _LANGCHAIN_TYPES and _is_langchain(item)) for item in found):
        return "langchain"
    if any("request" in item for item in found):
        return ""
    roles = [item for item in found if isinstance(item.get("role"), str)]
    if any(_is_stored(item) for item in roles):
        return "mastra"
    if len(roles) == len(found) and any(_is_ui(item) for item in roles):
        return "ai-sdk"
    if is_assistants_list(value):
        return "openai-assistants"
    if all(isinstance(item.get("type"), str) and "messages" not in item for item in found):
        return "openai-items"
    if len(roles) == len(found) and not any("messages" in item for item in found):
        return guessed_protocol(body_of(found))
    return ""


def _is_langchain(item: Mapping[str, Any]) -> bool:
    return isinstance(item.get("data"), Mapping) or "content" in item


def _is_stored(item: Mapping[str, Any]) -> bool:
    content = item.get("content")
    if isinstance(content, Mapping):
        return "parts" in content or "format" in content
    return any(key in item for key in ("threadId", "thread_id")) and item.get("object") != "thread.message"


def _is_ui(item: Mapping[str, Any]) -> bool:
    parts = item.get("parts")
    if isinstance(parts, list):
        return all(isinstance(part, Mapping) and "type" in part for part in parts)
    return "toolInvocations" in item or ("createdAt" in item and "id" in item)


def body_of(messages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A request body of bare messages: Gemini's have parts."""
    return {"contents" if any("parts" in message for message in messages) else "messages": messages}


def guessed_protocol(body: Mapping[str, Any]) -> str:
    """The protocol a request body is written in; OpenAI chat where nothing tells."""
    if "contents" in body:
        return "gemini-contents"
    if "input" in body and "messages" not in body:
        return "openai-responses"
    messages = objects(body.get("messages"))
    blocks = [block for message in messages for block in objects(message.get("content"))]
    if _CONVERSE_KEYS & body.keys() or any("type" not in block for block in [*blocks, *objects(body.get("system"))]):
        return "bedrock-converse"
    if _is_cohere(body, messages, blocks):
        return "cohere-v2"
    return "anthropic-messages" if _is_anthropic(body, messages, blocks) else "openai-chat"


def _is_cohere(
    body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], blocks: Sequence[Mapping[str, Any]]
) -> bool:
    if _COHERE_KEYS & body.keys() or any("tool_plan" in message for message in messages):
        return True
    if any(isinstance(block.get("document"), Mapping) for block in blocks):
        return True
    return word(body, "model").startswith(_COHERE_MODELS)


def _is_anthropic(
    body: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], blocks: Sequence[Mapping[str, Any]]
) -> bool:
    kinds = {str(block.get("type")) for block in blocks}
    tools = objects(body.get("tools"))
    if "system" in body or kinds & _ANTHROPIC_BLOCKS or any("name" in tool for tool in tools):
        return True
    is_openai = (
        tools or kinds - {"text"} or any(word(m, "role") in _OPENAI_ROLES or "tool_calls" in m for m in messages)
    )
    has_sign = bool(kinds) or "claude" in word(body, "model")
    return "max_tokens" in body and has_sign and not is_openai
