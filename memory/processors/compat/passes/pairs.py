"""Every call one result, every result its call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from memory.messages.halves import write_mended
from memory.messages.prompt import Message, Output, Part, Prompt, Text, ToolCall, ToolResult
from memory.processors.changes import Change, brief, spot_of
from memory.processors.compat.passes.facts import Facts, tail_of
from memory.profiles.profile import Profile

NO_RESULT = "No result was recorded for this call."


def may_settle(profile: Profile, facts: Facts) -> bool:
    return facts.has_pending and profile.pending_call != "accept"


def may_be_unpaired(profile: Profile, facts: Facts) -> bool:
    # In a conversation that the server keeps, the call of a result lies there.
    keeps = facts.call.settings.get("conversation") or facts.call.settings.get("previous_response_id")
    return not keeps and facts.has_unpaired and profile.unpaired != "accept"


def settle_pending_calls(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Calls whose outcome is not stored: dropped, or answered by a result that says that none was recorded."""
    if profile.pending_call == "drop":
        return _drop_pending(prompt, rule)
    return _answer_calls(prompt, rule, only_pending=True)


def settle_unpaired(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Calls and results that do not meet: dropped, or the call answered and the result told as text."""
    if profile.unpaired == "drop":
        return _drop_unpaired(prompt, rule)
    answered, changes = _answer_calls(prompt, profile.rule("pending-call"), only_pending=False)
    told, more = _tell_orphans(answered, rule)
    return told, changes + more


# Dropping, as the reference does


def _drop_pending(prompt: Prompt, rule: str) -> tuple[Prompt, list[Change]]:
    messages = prompt.messages
    last = len(messages) - 1
    while last >= 0 and messages[last].role in ("tool", "system"):
        last -= 1
    deferred = last if last >= 0 and messages[last].role == "assistant" else -1
    changes: list[Change] = []
    out: list[Message] = []
    lost_tail = ""  # id of the stored message whose last prompt message so far lost a pending call at its end
    for i, message in enumerate(messages):
        kept = []
        ends_in_loss = False
        for part in message.parts if message.role == "assistant" else ():
            if isinstance(part, ToolCall) and part.pending and not (part.provider_executed and i == deferred):
                reason = "The call has no outcome yet, and this conversion sends finished calls only."
                changes.append(Change(rule, reason, "content lost", spot_of(message, part), brief(part)))
                ends_in_loss = True
            else:
                kept.append(part)
                ends_in_loss = False
        if message.role == "assistant" and len(kept) != len(message.parts):
            shown = replace(message, content=tuple(kept)) if kept else None
        else:
            shown = message
        if shown is not None and shown.parted and lost_tail == message.id and out and out[-1].id == message.id:
            out[-1] = _joined(out[-1], shown)
        elif shown is not None:
            out.append(shown)
        if message.role == "assistant":
            lost_tail = message.id if ends_in_loss else ""
    return prompt.with_messages(out), changes


def _joined(first: Message, second: Message) -> Message:
    return replace(first, content=first.parts + second.parts, options=second.options or first.options)


def _drop_unpaired(prompt: Prompt, rule: str) -> tuple[Prompt, list[Change]]:
    changes: list[Change] = []
    calls = [{p.id for p in m.parts if isinstance(p, ToolCall)} for m in prompt.messages]
    results = [{p.call_id for p in m.parts if isinstance(p, ToolResult)} for m in prompt.messages]
    out: list[Message] = []
    for i, message in enumerate(prompt.messages):
        answered = results[i] | (results[i + 1] if i + 1 < len(results) else set())
        asked = calls[i] | (calls[i - 1] if i else set())

        def is_paired(part: Part, answered: set[str] = answered, asked: set[str] = asked) -> bool:
            match part:
                case ToolCall():
                    return bool(part.provider_executed) or part.id in answered
                case ToolResult():
                    return part.call_id in asked
                case _:
                    return True

        if isinstance(message.content, str) or all(map(is_paired, message.content)):
            out.append(message)
            continue
        for part in message.content:
            if not is_paired(part):
                what = "call has no result" if isinstance(part, ToolCall) else "result has no call"
                reason = f"The {what} beside it."
                changes.append(Change(rule, reason, "content lost", spot_of(message, part), brief(part)))
        kept = tuple(filter(is_paired, message.content))
        if kept:
            out.append(replace(message, content=kept))
    return prompt.with_messages(out), changes


# Answering, telling


def _answer_calls(prompt: Prompt, rule: str, *, only_pending: bool) -> tuple[Prompt, list[Change]]:
    """Give every client call a result in the tool message behind its turn: a late one moved up, else a made-up one.

    Neighbouring assistant messages count as one turn. A call that is never answered stays pending in the store: the
    real result may still come, so the made-up one is in this request only.
    """
    messages = list(prompt.messages)
    known = {id(message) for message in messages[: tail_of(prompt)]}  # earlier requests held these already
    changes: list[Change] = []
    i = 0
    while i < len(messages):
        if messages[i].role != "assistant":
            i += 1
            continue
        end = i
        while end < len(messages) and messages[end].role == "assistant":
            end += 1
        behind = end
        while behind < len(messages) and messages[behind].role == "tool":
            behind += 1
        if (first := _first_to_ask(messages[i:end])) is not None:
            end = behind = i + first + 1
        answered = _answered(messages[i:end], messages[end:behind])
        turn = [(m, p) for m in messages[i:end] for p in _client_calls(m)]
        missing = [(m, p) for m, p in turn if id(p) not in answered and (p.pending or not only_pending)]
        if missing:
            made: dict[int, ToolResult] = {}
            for message, call in missing:
                late = _late_result(messages, behind, call.id)
                if late is not None:
                    at, index = late
                    result = messages[at].parts[index]
                    assert isinstance(result, ToolResult)
                    owner = messages[at]
                    changes.append(_moved(rule, owner, result, is_new=id(owner) not in known))
                    messages[at] = replace(owner, content=_without(owner.parts, index))
                    made[id(call)] = replace(result, of=result.of or owner.id)
                else:
                    spot = replace(spot_of(message, call), is_result=True)
                    changes.append(Change(rule, _WHY, "reshaped", spot, None, NO_RESULT))
                    output = Output("error-text", NO_RESULT)
                    made[id(call)] = ToolResult(call.id, call.name, output, call.input, None, call.at, message.id)
            _place(messages, turn, made, end, behind)
            behind = max(behind, end + 1)
        i = behind
    kept = [m for m in messages if m.content or m.role != "tool"]
    return prompt.with_messages(kept), changes


def _client_calls(message: Message) -> list[ToolCall]:
    return [p for p in message.parts if isinstance(p, ToolCall) and not p.provider_executed]


def _answered(turn: Sequence[Message], behind: Sequence[Message]) -> set[int]:
    """Identities of the client calls of a turn that have a result: each result answers the nearest call of its id.

    Of two calls of one id the one that is not pending has it. A result of a hosted call answers no client's, and one
    inside the turn no call that is pending.
    """
    left = Counter(p.call_id for m in behind for p in m.parts if isinstance(p, ToolResult))
    left_inside: Counter[str] = Counter()
    for message in turn:
        inside = [p.call_id for p in message.parts if isinstance(p, ToolResult)]
        if inside:
            hosted = {p.id for p in message.parts if isinstance(p, ToolCall) and p.provider_executed}
            left_inside.update(call_id for call_id in inside if call_id not in hosted)
    out: set[int] = set()
    calls = [call for message in reversed(turn) for call in reversed(_client_calls(message))]
    for call in sorted(calls, key=lambda call: call.pending):
        for have in (left, left_inside) if not call.pending else (left,):
            if have[call.id] > 0:
                have[call.id] -= 1
                out.add(id(call))
                break
    return out


def _first_to_ask(turn: Sequence[Message]) -> int | None:
    """Index of the first message of a turn that waits for results, and behind which the assistant goes on.

    Its results go right behind it, whatever the assistant says next: so a turn that goes on keeps its beginning.
    """
    inside: set[int] | None = None
    for at, message in enumerate(turn[:-1]):
        calls = _client_calls(message)
        if calls and inside is None:
            inside = _answered(turn, ())
        if any(id(call) not in (inside or ()) for call in calls):
            return at
    return None


_WHY = "Each call needs a result in the next message. The words say that none was recorded; they are never stored."


def _moved(rule: str, message: Message, result: ToolResult, *, is_new: bool) -> Change:
    reason = "The result came after other turns; it has to follow its call."
    spot = spot_of(message, result)
    return Change(rule, reason, "reshaped", spot, brief(result), brief(result), breaks_prefix=is_new)


def _late_result(messages: list[Message], start: int, call_id: str) -> tuple[int, int] | None:
    """Where a later result of this id stands that no later call claims."""
    for at in range(start, len(messages)):
        for index, part in enumerate(messages[at].parts):
            if isinstance(part, ToolCall) and part.id == call_id:
                return None
            if isinstance(part, ToolResult) and part.call_id == call_id and messages[at].role == "tool":
                return at, index
    return None


def _without(parts: tuple[Part, ...], index: int) -> tuple[Part, ...]:
    return parts[:index] + parts[index + 1 :]


def _place(
    messages: list[Message],
    turn: list[tuple[Message, ToolCall]],
    made: dict[int, ToolResult],
    end: int,
    behind: int,
) -> None:
    """Put the new results beside those that are there, in the order of the calls."""
    if end == behind:
        owner = turn[-1][0]
        results = tuple(made[id(call)] for _, call in turn if id(call) in made)
        messages.insert(end, Message("tool", results, None, owner.id, owner.origin))
        return
    there = list(messages[end].parts)
    order = {call.id: n for n, (_, call) in enumerate(turn)}
    for _, call in turn:
        if id(call) in made:
            later = (
                k
                for k, p in enumerate(there)
                if isinstance(p, ToolResult) and order.get(p.call_id, -1) > order[call.id]
            )
            there.insert(next(later, len(there)), made[id(call)])
    messages[end] = replace(messages[end], content=tuple(there))


def _tell_orphans(prompt: Prompt, rule: str) -> tuple[Prompt, list[Change]]:
    """Results without a call before them become text of a user message; in an assistant message they go."""
    changes: list[Change] = []
    out: list[Message] = []
    open_ids: list[str] = []
    for message in prompt.messages:
        if message.role == "user":
            open_ids = []
        if message.role == "assistant":
            if out and out[-1].role == "tool":
                open_ids = []
            open_ids += [p.id for p in message.parts if isinstance(p, ToolCall)]
        results = [p for p in message.parts if isinstance(p, ToolResult)]
        orphans = []
        for result in results:
            if result.call_id in open_ids:
                open_ids.remove(result.call_id)
            else:
                orphans.append(result)
        if not orphans:
            out.append(message)
            continue
        told: list[Part] = []
        for result in orphans:
            text = f"Result of an earlier tool call ({result.name}): {_output_text(result.output)}"
            reason = "The call of this result is not in the request, so its words are sent as text."
            changes.append(Change(rule, reason, "reshaped", spot_of(message, result), brief(result), text[:300]))
            told.append(Text(text, None, result.at))
        kept = tuple(p for p in message.parts if not any(p is o for o in orphans))
        if kept:
            out.append(replace(message, content=kept))
        if message.role == "tool":
            out.append(Message("user", tuple(told), None, message.id, message.origin))
    return prompt.with_messages(out), changes


def _output_text(output: Output) -> str:
    if isinstance(output.value, str):
        return output.value
    if output.type == "content" and isinstance(output.value, list):
        texts = [item.get("text") or f"[{item.get('mediaType', 'media')}]" for item in output.value]
        return "\n".join(texts)
    return write_mended(output.value)
