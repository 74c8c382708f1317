"""Who speaks after whom, and who speaks last."""

from __future__ import annotations

from operator import ne

from msgspec.structs import replace

from memory.messages.prompt import Message, Origin, Part, Prompt, Reasoning, Text, ToolCall
from memory.processors.changes import Change, Spot, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.processors.compat.passes.system import told_role
from memory.profiles.profile import Profile

CONTINUE = "Continue."
BRIDGE = "Done."


def merges(profile: Profile, _: Facts) -> bool:
    return bool(profile.merge_roles)


def merge_neighbours(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Neighbours of one role become one message. Results and what the user says next are one turn already.

    Where only an error asked for it, sealed reasoning stays where its maker put it: at the head of a message.
    """
    said_by = [message.role for message in prompt.messages]
    if all(map(ne, said_by, said_by[1:])):
        return prompt, []
    groups: list[list[Message]] = []
    changes: list[Change] = []
    asks = False  # whether the last group holds calls
    origin: Origin | None = None  # who wrote the last group; what two wrote has no one's stamp
    reason = f"{profile.title} wants the roles to alternate; neighbours of one role are sent as one message."
    for message in prompt.messages:
        role = message.role
        joins = bool(groups) and groups[-1][0].role == role and role in profile.merge_roles
        if joins and role == "assistant":
            is_sealed = facts.call.is_forced and any(isinstance(p, Reasoning) and p.options for p in message.parts)
            # Results of calls come first; what a provider ran itself stays with the stamp that says who that was.
            joins = not (is_sealed or asks or (origin != message.origin and _has_hosted_call(message)))
        if not joins:
            groups.append([])
            asks, origin = False, message.origin
        else:
            told = f"joined to the {role} before"
            changes.append(Change(rule, reason, "reshaped", Spot(message.id), role, told))
            origin = origin if origin == message.origin else None
        groups[-1].append(message)
        asks = asks or any(isinstance(part, ToolCall) for part in message.parts)
    return prompt.with_messages([_joined(group) for group in groups]), changes


def _joined(group: list[Message]) -> Message:
    first, *others = group
    if not others:
        return first
    content: str | tuple[Part, ...]
    if first.role == "system":
        content = "\n\n".join(message.text for message in group)
    else:
        content = first.parts + tuple(
            part if part.of else replace(part, of=message.id) for message in others for part in message.parts
        )
    options = next((message.options for message in reversed(group) if message.options), first.options)
    origin = first.origin if all(message.origin == first.origin for message in others) else None
    return replace(first, content=content, options=options, origin=origin)


def _has_hosted_call(message: Message) -> bool:
    return any(isinstance(part, ToolCall) and part.provider_executed for part in message.parts)


def bridges(profile: Profile, _: Facts) -> bool:
    return profile.bridge_after_tool


def bridge_tool_to_user(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A short assistant message between a tool's result and the user, for this call only."""
    out: list[Message] = []
    changes: list[Change] = []
    for message in prompt.messages:
        if message.role == "user" and out and out[-1].role == "tool":
            reason = f"{profile.title} wants the assistant to speak between a tool's result and the user."
            changes.append(Change(rule, reason, "reshaped", Spot(message.id), None, BRIDGE))
            out.append(Message("assistant", (Text(BRIDGE),)))
        out.append(message)
    return prompt.with_messages(out), changes


def ends_wrong(profile: Profile, facts: Facts) -> bool:
    return (
        facts.call.is_forced
        or profile.last_user == "always"
        or (profile.last_user == "thinking" and facts.call.is_thinking)
    )


def end_with_user(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A short user message behind a final assistant message, except a turn of the provider's own tools: it goes on.

    A system message is no word of the user's either, but where the target takes it as one that stands behind the user.
    """
    last = prompt.messages[-1] if prompt.messages else None
    if last is None or (last.role != "assistant" and (profile.system_after_user or told_role(last) is None)):
        return prompt, []
    final = last.parts[-1] if last.parts else None
    if isinstance(final, ToolCall) or getattr(final, "call_id", None) is not None:
        return prompt, []
    reason = f"{profile.title} wants the user to speak last."
    change = Change(rule, reason, "reshaped", Spot(last.id), None, CONTINUE, breaks_prefix=True)
    return Prompt((*prompt.messages, Message("user", (Text(CONTINUE),)))), [change]


def may_trail(profile: Profile, facts: Facts) -> bool:
    return profile.trims_last_text


def trim_last_text(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A final assistant message without white space at its end; nothing is left of one that holds nothing else."""
    messages = list(prompt.messages)
    changes: list[Change] = []
    reason = "A final assistant text must not end in white space."
    while messages and messages[-1].role == "assistant":
        last = messages[-1]
        text = last.parts[-1] if last.parts else None
        if last.parts and not isinstance(text, Text):
            break
        if isinstance(text, Text) and text.text and text.text == text.text.rstrip():
            break
        if isinstance(text, Text):
            new = replace(text, text=text.text.rstrip())
            changes.append(Change(rule, reason, "same", spot_of(last, text), "…", "trimmed", breaks_prefix=True))
            messages[-1] = replace(last, content=(*last.parts[:-1], *((new,) if new.text else ())))
        if not messages[-1].content:
            messages.pop()
    return prompt.with_messages(messages), changes
