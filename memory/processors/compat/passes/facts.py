"""One scan over a prompt: what it holds, as upper bounds for the passes that follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct, field

from memory.messages.prompt import File, Options, Origin, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.messages.values import JsonObject
from memory.processors.compat.passes.call import Call


class Facts(Struct):
    """Ids and names in order of first appearance; whether kinds of parts occur at all."""

    tool_ids: dict[str, None]
    tool_names: dict[str, None]
    has_reasoning: bool = False
    reasoners: set[Origin | None] = field(default_factory=set)
    """Who wrote the reasoning."""
    has_blank_text: bool = False
    has_pending: bool = False
    has_unpaired: bool = False
    """Not every client call has its result in the tool message right behind it, in order, and nothing else there."""
    option_keys: set[str] = field(default_factory=set)
    """Keys of the options of messages and parts, of any provider."""
    has_file: bool = False
    has_hosted_call: bool = False
    has_media_result: bool = False
    has_empty_result: bool = False
    has_system_turn: bool = False
    cache_markers: int = 0
    """Messages and parts that carry one, of any provider."""
    has_odd_input: bool = False
    """Arguments of some call are no JSON object."""
    has_repeated_id: bool = False
    has_odd_text: bool = False
    """Some text may hold half a character."""
    call: Call = field(default_factory=Call)
    reasoning_at: list[int] | None = None
    """Places of the messages that hold reasoning; None where they are not known."""
    tools_at: list[int] | None = None
    """The same for calls and results."""
    options_at: list[int] | None = None
    """The same for parts with options."""

    def follow(self, before: Prompt, after: Prompt, *, keeps_places: bool) -> None:
        """Forget the places that a pass has moved."""
        if after is not before and not (keeps_places and len(after.messages) == len(before.messages)):
            self.reasoning_at = self.tools_at = self.options_at = None


_NONE: list[str] = []
"""Never filled: most messages have no call, and a list each would cost more than the rest of the scan."""


def facts_of(prompt: Prompt, declared_tools: Iterable[str] = ()) -> Facts:
    """Facts of a prompt; names of declared tools count after those of the history."""
    reasoning_at: list[int] = []
    tools_at: list[int] = []
    options_at: list[int] = []
    facts = Facts({}, {}, reasoning_at=reasoning_at, tools_at=tools_at, options_at=options_at)
    said: list[Any] = []  # what may hold half a character: ASCII can't, and knowing that costs nothing
    reasoner: Origin | None = None
    asked = _NONE  # client calls of the message before, which the next one has to answer
    for i, message in enumerate(prompt.messages):
        if message.options is not None:
            _note_options(facts, message.options)
            said.append(message.options)
            if message.role != "system":
                facts.has_system_turn = True  # perhaps: the pass looks closer
        answers = calls = hosted = _NONE
        content = message.content
        if message.role == "user" and len(content) == 1 and type(part := content[0]) is Text and part.options is None:
            # Half of all messages are one plain text.
            text = part.text
            if not text or text.isspace():
                facts.has_blank_text = True
            if not text.isascii():
                said.append(text)
            if asked:
                facts.has_unpaired, asked = True, _NONE
            continue
        if isinstance(content, str):
            if not content or content.isspace():
                facts.has_blank_text = True
            if not content.isascii():
                said.append(content)
        else:
            if not content:
                facts.has_blank_text = True
            for part in content:
                if part.options is not None:
                    _note_options(facts, part.options)
                    said.append(part.options)
                    if not options_at or options_at[-1] != i:
                        options_at.append(i)
                # By exact type: this loop meets every part of every prompt, and patterns cost more.
                if type(part) is Text:
                    text = part.text
                    if not text or text.isspace():
                        facts.has_blank_text = True
                    if not text.isascii():
                        said.append(text)
                elif type(part) is ToolCall:
                    if part.id in facts.tool_ids:
                        facts.has_repeated_id = True
                    # An object that is still text was read as UTF-8 already.
                    if type(part.input) is not JsonObject:
                        if type(part.input) is not dict:
                            facts.has_odd_input = True
                        if part.input:
                            said.append(part.input)
                    if not (part.id.isascii() and part.name.isascii()):
                        said += (part.id, part.name)
                    facts.tool_ids[part.id] = None
                    facts.tool_names[part.name] = None
                    if part.pending:
                        facts.has_pending = True
                    if part.provider_executed:
                        facts.has_hosted_call = True
                        hosted = hosted or []
                        hosted.append(part.id)
                    else:
                        calls = calls or []
                        calls.append(part.id)
                elif type(part) is ToolResult:
                    facts.tool_ids[part.call_id] = None
                    facts.tool_names[part.name] = None
                    answers = answers or []
                    answers.append(part.call_id)
                    if not (part.call_id.isascii() and part.name.isascii()):
                        said += (part.call_id, part.name)
                    if type(part.output.value) is not JsonObject:
                        said.append(part.output.value)
                    if part.output.type == "content":
                        # Perhaps: passes look closer, and may move media out of results.
                        facts.has_media_result = facts.has_file = facts.has_blank_text = True
                        facts.has_empty_result = True
                    elif type(part.output.value) is str and not part.output.value:
                        facts.has_empty_result = True
                elif type(part) is Reasoning:
                    facts.has_reasoning = True
                    if not reasoning_at or reasoning_at[-1] != i:
                        reasoning_at.append(i)
                    if part.origin is not reasoner:
                        reasoner = part.origin
                        facts.reasoners.add(reasoner)
                    if not part.text:
                        facts.has_blank_text = True
                    if not part.text.isascii():
                        said.append(part.text)
                else:
                    facts.has_file = True
                    if isinstance(part, File):
                        said += (part.filename, part.media_type, None if part.data.isascii() else part.data)
        if answers or calls or hosted:
            tools_at.append(i)
        if message.role == "tool":
            if answers != asked:
                facts.has_unpaired = True
        elif asked or (answers and not Counter(answers) <= Counter(hosted)):
            facts.has_unpaired = True
        asked = calls
    facts.has_odd_text = _may_hold_halves(said)
    facts.has_unpaired |= facts.has_pending or bool(asked)
    for name in declared_tools:
        facts.tool_names.setdefault(name)
    return facts


def _note_options(facts: Facts, options: Options) -> None:
    for value in options.values():
        if isinstance(value, dict):
            facts.option_keys.update(value)
            if "cacheControl" in value or "cache_control" in value or "cachePoint" in value:
                facts.cache_markers += 1


def tail_of(prompt: Prompt) -> int:
    """Index of the first message that no earlier request of the thread can have held: the last turn's answer."""
    at = len(prompt.messages)
    while at and prompt.messages[at - 1].role != "assistant":
        at -= 1
    while at and prompt.messages[at - 1].role == "assistant":
        at -= 1
    return at


def _may_hold_halves(values: list[Any]) -> bool:
    """Whether something can't be written as UTF-8: the encoder finds that out faster than any walk."""
    try:
        _encoder.encode(values)
    except (UnicodeError, TypeError, ValueError, OverflowError, RecursionError):
        return True
    return False


_encoder = msgspec.msgpack.Encoder()
