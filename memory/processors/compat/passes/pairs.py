"""Every call one result, every result its call."""

from __future__ import annotations

from collections import Counter, deque
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
    tail = tail_of(prompt)  # earlier requests held what is before it already
    late = _LateResults(messages)
    changes: list[Change] = []
    out: list[Message] = []
    i = run_end = 0
    inside: set[int] = set()
    while i < len(messages):
        if messages[i].role != "assistant":
            out.append(messages[i])
            i += 1
            continue
        if i >= run_end:
            run_end = _end_of(messages, i, "assistant")
            inside = _answered(messages[i:run_end], ())
        # What the assistant said on behind a call that waits is no part of its turn, whose results go right behind it:
        # so a turn that goes on keeps its beginning.
        waits = (at for at in range(i, run_end - 1) if any(id(c) not in inside for c in _client_calls(messages[at])))
        if (first := next(waits, None)) is not None:
            end = behind = first + 1
        else:
            end = run_end
            behind = _end_of(messages, end, "tool")
        answered = _answered(messages[i:end], messages[end:behind])
        turn = [(m, p) for m in messages[i:end] for p in _client_calls(m)]
        made: dict[int, ToolResult] = {}
        for message, call in turn:
            if id(call) in answered or not (call.pending or not only_pending):
                continue
            if (found := late.take(call.id, behind)) is not None:
                at, result = found
                changes.append(_moved(rule, messages[at], result, is_new=at >= tail))
                made[id(call)] = replace(result, of=result.of or messages[at].id)
                messages[at] = replace(messages[at], content=_without(messages[at].parts, result))
            else:
                spot = replace(spot_of(message, call), is_result=True)
                changes.append(Change(rule, _WHY, "reshaped", spot, None, NO_RESULT))
                output = Output("error-text", NO_RESULT)
                made[id(call)] = ToolResult(call.id, call.name, output, call.input, None, call.at, message.id)
        out += messages[i:end]
        if made:
            there = messages[end] if behind > end else None
            out.append(_with_results(there, turn, made))
            out += messages[end + 1 : behind]
        else:
            out += messages[end:behind]
        i = behind
    kept = [m for m in out if m.content or m.role != "tool"]
    return prompt.with_messages(kept), changes


def _end_of(messages: Sequence[Message], start: int, role: str) -> int:
    """Where the messages of a role end that begin there."""
    end = start
    while end < len(messages) and messages[end].role == role:
        end += 1
    return end


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


_WHY = "Each call needs a result in the next message. The words say that none was recorded; they are never stored."


def _moved(rule: str, message: Message, result: ToolResult, *, is_new: bool) -> Change:
    reason = "The result came after other turns; it has to follow its call."
    spot = spot_of(message, result)
    return Change(rule, reason, "reshaped", spot, brief(result), brief(result), breaks_prefix=is_new)


class _LateResults:
    """Results by their ids, in the order of the thread: each is taken once, and none that a later call claims."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        self._left: dict[str, deque[tuple[int, ToolCall | ToolResult]]] | None = None

    def take(self, call_id: str, start: int) -> tuple[int, ToolResult] | None:
        """The first result of this id from a place on, and where it stands. Places only grow from take to take."""
        if self._left is None:
            self._left = self._by_id()
        left = self._left.get(call_id)
        while left and left[0][0] < start:
            left.popleft()
        if not left or isinstance(left[0][1], ToolCall):
            return None
        at, result = left.popleft()
        assert isinstance(result, ToolResult)
        return at, result

    def _by_id(self) -> dict[str, deque[tuple[int, ToolCall | ToolResult]]]:
        found: dict[str, deque[tuple[int, ToolCall | ToolResult]]] = {}
        for at, message in enumerate(self._messages):
            for part in message.parts:
                if isinstance(part, ToolCall):
                    found.setdefault(part.id, deque()).append((at, part))
                elif isinstance(part, ToolResult) and message.role == "tool":
                    found.setdefault(part.call_id, deque()).append((at, part))
        return found


def _without(parts: tuple[Part, ...], gone: Part) -> tuple[Part, ...]:
    index = next(index for index, part in enumerate(parts) if part is gone)
    return parts[:index] + parts[index + 1 :]


def _with_results(there: Message | None, turn: list[tuple[Message, ToolCall]], made: dict[int, ToolResult]) -> Message:
    """The message of results behind a turn, with the new ones in the order of the calls; a new one where none is."""
    if there is None:
        owner = turn[-1][0]
        results = tuple(made[id(call)] for _, call in turn if id(call) in made)
        return Message("tool", results, None, owner.id, owner.origin)
    parts = list(there.parts)
    order = {call.id: n for n, (_, call) in enumerate(turn)}
    for _, call in turn:
        if id(call) in made:
            later = (
                k
                for k, p in enumerate(parts)
                if isinstance(p, ToolResult) and order.get(p.call_id, -1) > order[call.id]
            )
            parts.insert(next(later, len(parts)), made[id(call)])
    return replace(there, content=tuple(parts))


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
