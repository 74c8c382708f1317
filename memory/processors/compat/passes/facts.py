"""One scan over a prompt: what it holds, as upper bounds for the passes that follow."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from memory.messages.prompt import File, Prompt, Reasoning, Text, ToolCall, ToolResult


class Facts(Struct):
    """Ids and names in order of first appearance; whether kinds of parts occur at all."""

    tool_ids: dict[str, None]
    tool_names: dict[str, None]
    has_reasoning: bool = False
    has_blank_text: bool = False
    has_pending: bool = False
    has_unpaired: bool = False
    """Not every client call has its result in the tool message right behind it, in order, and nothing else there."""
    has_options_on_text: bool = False
    has_file: bool = False
    has_hosted_call: bool = False
    has_media_result: bool = False
    has_system_turn: bool = False


def facts_of(prompt: Prompt, declared_tools: Iterable[str] = ()) -> Facts:
    """Facts of a prompt; names of declared tools count after those of the history."""
    facts = Facts({}, {})
    asked: list[str] = []  # client calls of the message before, which the next one has to answer
    for message in prompt.messages:
        answers: list[str] = []
        calls: list[str] = []
        hosted: list[str] = []
        if message.options is not None and message.role == "user":
            facts.has_system_turn = True  # perhaps: the pass looks closer
        if isinstance(message.content, str):
            if message.role != "system" and not message.content.strip():
                facts.has_blank_text = True
            if asked:
                facts.has_unpaired, asked = True, []
            continue
        if not message.content:
            facts.has_blank_text = True
        for part in message.content:
            match part:
                case Text():
                    if not part.text or part.text.isspace():
                        facts.has_blank_text = True
                    if part.options is not None:
                        facts.has_options_on_text = True
                case ToolCall():
                    facts.tool_ids.setdefault(part.id)
                    facts.tool_names.setdefault(part.name)
                    if part.pending:
                        facts.has_pending = True
                    if part.provider_executed:
                        facts.has_hosted_call = True
                        hosted.append(part.id)
                    else:
                        calls.append(part.id)
                case ToolResult():
                    answers.append(part.call_id)
                    facts.tool_ids.setdefault(part.call_id)
                    facts.tool_names.setdefault(part.name)
                    if part.output.type == "content":
                        facts.has_media_result = facts.has_file = True  # a pass may move media out of results
                case Reasoning():
                    facts.has_reasoning = True
                case File():
                    facts.has_file = True
        if message.role == "tool":
            facts.has_unpaired |= answers != asked
        else:
            facts.has_unpaired |= bool(asked) or any(call_id not in hosted for call_id in answers)
        asked = calls
    facts.has_unpaired |= facts.has_pending or bool(asked)
    for name in declared_tools:
        facts.tool_names.setdefault(name)
    return facts
