"""Reasoning that must come back, must lead, or is switched off for one call because nothing true could be sent."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from memory.messages.prompt import Message, Prompt, Reasoning, ToolCall
from memory.processors.changes import Change, Spot
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile


def may_lack_reasoning(profile: Profile, facts: Facts) -> bool:
    return bool(profile.reasoning_filler) and bool(facts.tool_ids) and not facts.call.is_thinking_off


def fill_reasoning(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Turns that called tools without reasoning get the filler the target takes for it; nothing is invented."""
    filler = "" if profile.reasoning_filler == "empty" else "(not recorded)"
    changes: list[Change] = []
    out: list[Message] = []
    for message in prompt.messages:
        if message.role != "assistant" or isinstance(message.content, str):
            out.append(message)
            continue
        has_calls = any(isinstance(part, ToolCall) and not part.provider_executed for part in message.content)
        thoughts = [part for part in message.content if isinstance(part, Reasoning)]
        is_said = any(part.text or not filler or _is_sealed(part, profile) for part in thoughts)
        if not has_calls or is_said:
            out.append(message)
            continue
        reason = f"{profile.title} wants the reasoning of every turn that called a tool, and none is stored."
        facts.has_reasoning = facts.has_blank_text = True
        changes.append(Change(rule, reason, "same", Spot(message.id), None, filler or "(empty reasoning)"))
        rest = (part for part in message.content if not isinstance(part, Reasoning))
        out.append(replace(message, content=(Reasoning(filler), *rest)))
    return prompt.with_messages(out), changes


def _is_sealed(part: Reasoning, profile: Profile) -> bool:
    """Whether a thought without a text says something to a router all the same."""
    extra = profile.own(part.options).get("extra")
    return isinstance(extra, Mapping) and bool(extra.get("reasoning_details"))


def may_end_in_thinking(profile: Profile, facts: Facts) -> bool:
    return not profile.final_thinking and facts.has_reasoning and not facts.call.is_thinking


def strip_final_thinking(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """With thinking off, the assistant message that a request ends with holds none."""
    reason = f"With thinking off, {profile.title} takes none in a final assistant message. It stays in the thread."
    messages = list(prompt.messages)
    changes: list[Change] = []
    while messages and messages[-1].role == "assistant":
        last = messages[-1]
        kept = tuple(part for part in last.parts if not isinstance(part, Reasoning))
        if len(kept) == len(last.parts):
            break
        changes.append(Change(rule, reason, "reasoning hidden", Spot(last.id), "reasoning", breaks_prefix=True))
        messages[-1:] = [replace(last, content=kept)] if kept else []
    return prompt.with_messages(messages), changes


def may_not_lead(profile: Profile, facts: Facts) -> bool:
    return facts.call.is_forced or (profile.thinking_leads and facts.call.is_thinking and bool(facts.tool_ids))


def switch_thinking_off(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Where the open tool loop can't begin with the target's own thinking, this one call goes without thinking."""
    turn = _open_turn(prompt)
    if not facts.call.is_forced and (turn is None or _leads(turn) or facts.call.needs.get("thinking") == "off"):
        return prompt, []
    facts.call.needs["thinking"] = "off"
    reason = (
        f"With thinking on, {profile.title} wants the open tool loop to begin with its own thinking, and it does not."
    )
    spot = Spot(turn.id if turn is not None else "")
    off = Change(
        rule, reason, "reasoning hidden", spot, "thinking on", "thinking off for this call", breaks_prefix=True
    )
    return prompt, [off]


def _open_turn(prompt: Prompt) -> Message | None:
    """The assistant message whose calls the last messages answer."""
    if not prompt.messages or prompt.messages[-1].role != "tool":
        return None
    last = next((message for message in reversed(prompt.messages) if message.role != "tool"), None)
    return last if last is not None and last.role == "assistant" else None


def _leads(message: Message) -> bool:
    return bool(message.parts) and isinstance(message.parts[0], Reasoning)
