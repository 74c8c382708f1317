"""The messages of one run: what was remembered, what came in, what the model answered.

Every entry carries a source tag: `memory` (loaded), `input`, `response` (this run's output) or `context` (prompt
only). Remembered rows keep their stored order and stand before this run's, which stand by arrival. Stored messages
are never changed in place: a merge makes a new message. Source: the message format's section 5.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from memory.errors import InvalidInput
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import Prompt, prompt_from_json
from memory.messages.stored import RANKS, ROLES, StoredMessage, content_of, instant, parts_of, timestamp

Source = Literal["memory", "input", "response", "context"]
_SOURCES = {"memory": "memory", "input": "input", "user": "input", "response": "response", "context": "context"}
_sorted_json = msgspec.json.Encoder(order="sorted")


class Entry(msgspec.Struct):
    """A message of the list with its tag. `was_loaded`: it came from memory, whatever became of it since."""

    message: StoredMessage
    source: Source
    was_loaded: bool = False


class MessageList:
    """Messages of one thread and resource, deduplicated by id. `clock` gives the time of messages without one."""

    def __init__(
        self,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = lambda: f"msg_{uuid.uuid4().hex}",
    ) -> None:
        self.thread_id, self.resource_id = thread_id, resource_id
        self._clock, self._new_id = clock, new_id
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._loaded_count = 0  # loaded entries stand first, in stored order
        self._newest: datetime | None = None
        self._system: dict[str, list[str]] = {"": []}

    # Reading

    @property
    def entries(self) -> Sequence[Entry]:
        return self._entries

    @property
    def messages(self) -> list[StoredMessage]:
        return [entry.message for entry in self._entries]

    def tagged(self, *sources: Source) -> list[StoredMessage]:
        """Messages with one of these tags. A loaded row that this run touched has the run's tag and `memory`."""
        wants_memory = "memory" in sources
        return [e.message for e in self._entries if e.source in sources or (wants_memory and e.was_loaded)]

    def unsaved(self) -> list[StoredMessage]:
        """What a save has to write: input first, then response, as the list holds them."""
        return [e.message for source in ("input", "response") for e in self._entries if e.source == source]

    def source_of(self, message_id: str) -> Source | None:
        entry = self._by_id.get(message_id)
        return entry.source if entry else None

    @property
    def system_texts(self) -> list[str]:
        """Untagged texts, then the tagged ones in the order their tags came."""
        return [text for texts in self._system.values() for text in texts]

    def to_prompt(self) -> Prompt:
        return to_prompt(self.messages, system=self.system_texts)

    # Changing

    def add_system(self, text: str, *, tag: str = "") -> None:
        """Add a system text; the same text twice under one tag counts once."""
        bucket = self._system.setdefault(tag, [])
        if text not in bucket:
            bucket.append(text)

    def set_system(self, texts: Iterable[str]) -> None:
        """Replace the untagged system texts."""
        self._system[""] = list(dict.fromkeys(texts))

    def add(self, given: Any, source: str, *, merge: bool = True) -> None:
        """Add a text, one message or several, in stored or prompt form.

        Raises InvalidInput (code INVALID_MESSAGE_CONTENT) for a message without content, and for one of another
        thread or resource.
        """
        tag = _SOURCES[source]
        made = self._made(given, tag)
        if tag == "memory":
            for message in made:
                self._add_loaded(message)
            self._settle_lone_results()
            return
        for message in sorted(made, key=lambda m: instant(m["createdAt"]) or datetime.max.replace(tzinfo=UTC)):
            self._add_live(message, tag, merge)  # type: ignore[arg-type]

    def remove(self, message_ids: Iterable[str]) -> None:
        gone = set(message_ids)
        self._entries = [entry for entry in self._entries if entry.message["id"] not in gone]
        self._by_id = {entry.message["id"]: entry for entry in self._entries}
        self._loaded_count = sum(entry.was_loaded for entry in self._entries)

    def replace(self, message: StoredMessage) -> None:
        """Put a repaired message in the place of the one with its id; tag and place stay."""
        self._by_id[message["id"]].message = message

    def apply(self, messages: Iterable[StoredMessage], visible: Iterable[str]) -> None:
        """Take the array a processor returned for the ids it could see.

        Missing ids are removed, every returned message is put in again with its former tag (new ones: `input`),
        never merged; system messages become system texts.
        """
        returned = list(messages)
        ids = {message.get("id") for message in returned}
        self.remove(message_id for message_id in visible if message_id not in ids)
        for message in returned:
            if message.get("role") == "system":
                self.add_system(_system_text(message))
                continue
            entry = self._by_id.get(message.get("id") or "")
            if entry is not None:
                entry.message = message
            else:
                self.add([message], "input", merge=False)

    # Inside

    def _made(self, given: Any, tag: str) -> list[StoredMessage]:
        if isinstance(given, str):
            given = [{"role": "user", "content": given}]
        elif isinstance(given, Mapping):
            given = [given]
        made: list[StoredMessage] = []
        prompt_form: list[Mapping[str, Any]] = []

        def flush() -> None:
            if prompt_form:
                made.extend(self._from_prompt_form(prompt_form, tag))
                prompt_form.clear()

        for i, message in enumerate(given):
            place = f"messages[{i}]"
            if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
                raise InvalidInput("expected a message with a role", field=place)
            if message["role"] == "system":
                if tag != "memory":
                    self.add_system(_system_text(message))
                continue
            if _is_prompt_form(message):
                prompt_form.append(message)
                continue
            flush()
            made.append(self._stamped(dict(message), tag, place, keeps_time=True))
        flush()
        return made

    def _from_prompt_form(self, given: Sequence[Mapping[str, Any]], tag: str) -> list[StoredMessage]:
        try:
            stored = from_prompt(prompt_from_json(given))
        except ValueError as error:
            raise InvalidInput(str(error), field="messages") from error
        for message in stored:
            self._answer_open_calls(message)
        times = [message.get("createdAt") for message in given]
        if len(times) == len(stored):
            for message, at in zip(stored, times, strict=True):
                if at is not None:
                    message["createdAt"] = at
        return [
            self._stamped(message, tag, f"messages[{i}]", keeps_time=tag == "memory")
            for i, message in enumerate(stored)
            if message["content"]["parts"]
        ]

    def _settle_lone_results(self) -> None:
        """Results that came in before the rows with their calls were loaded find them now."""
        for entry in [entry for entry in self._entries if not entry.was_loaded]:
            if not any(_is_lone_result(part) for part in parts_of(entry.message["content"])):
                continue
            content = {**entry.message["content"], "parts": list(parts_of(entry.message["content"]))}
            entry.message = {**entry.message, "content": content}
            self._answer_open_calls(entry.message)
            if not content["parts"]:
                self.remove([entry.message["id"]])

    def _answer_open_calls(self, message: StoredMessage) -> None:
        """Give lone results to the open calls of the list: the row that asked is the one that holds the answer."""
        parts = message["content"]["parts"]
        for part in list(parts):
            if not _is_lone_result(part):
                continue
            mastra = part["providerMetadata"]["mastra"]
            for entry in self._entries:
                if entry.message is message:
                    continue
                open_part = _find_call(entry.message, part["toolInvocation"]["toolCallId"])
                if open_part is not None and not _is_final(open_part):
                    metadata = {k: v for k, v in part["providerMetadata"].items() if k != "mastra"}
                    if rest := {k: v for k, v in mastra.items() if k != "orphanResult"}:
                        metadata["mastra"] = rest
                    answer = {**part, "providerMetadata": metadata}
                    entry.message = _merged(entry.message, {"content": {"parts": [answer]}})
                    entry.source = "input" if entry.source == "input" else "response"
                    parts.remove(part)
                    break

    def _stamped(self, message: StoredMessage, tag: str, place: str, *, keeps_time: bool) -> StoredMessage:
        content = message.get("content")
        if not isinstance(content, dict | str) or (
            isinstance(content, dict)
            and not isinstance(content.get("parts"), list)
            and not isinstance(content.get("content"), str)
            and not isinstance(content.get("toolInvocations"), list)
        ):
            raise InvalidInput(
                "a message needs content with parts or a text", field=f"{place}.content", code="INVALID_MESSAGE_CONTENT"
            )
        if message["role"] not in ROLES:
            raise InvalidInput(f"expected one of {', '.join(ROLES)}", field=f"{place}.role")
        message["content"] = content_of(content)
        for key, own in (("threadId", self.thread_id), ("resourceId", self.resource_id)):
            given = message.get(key)
            if given is None:
                if own is not None:
                    message[key] = own
            elif own is not None and given != own and tag != "memory":
                raise InvalidInput(f"{key} is {given!r}, the list belongs to {own!r}", field=f"{place}.{key}")
        message.setdefault("id", self._new_id())
        if not message["id"]:
            message["id"] = self._new_id()
        at = instant(message.get("createdAt"))
        if at is None or (not keeps_time and self._newest is not None and at <= self._newest):
            now = self._clock()
            at = now if self._newest is None else max(now, self._newest + timedelta(milliseconds=1))
            message["createdAt"] = timestamp(at)
        if self._newest is None or at > self._newest:
            self._newest = at
        if tag != "memory":
            message["content"] = _with_part_times(message["content"], int(at.timestamp() * 1000))
        return message

    def _add_loaded(self, message: StoredMessage) -> None:
        entry = self._by_id.get(message["id"])
        if entry is None:
            self._insert(Entry(message, "memory", was_loaded=True), self._loaded_count)
            self._loaded_count += 1
            return
        if entry.was_loaded or _key(entry.message) == _key(message) or message["role"] != "assistant":
            return
        # The stored row is the base; of the live copy only what moves the thread on is taken.
        live = _only_outcomes(entry.message, message) if entry.source == "input" else entry.message
        source = entry.source
        self.remove([message["id"]])
        self._insert(Entry(_merged(message, live), source, was_loaded=True), self._loaded_count)
        self._loaded_count += 1

    def _add_live(self, message: StoredMessage, source: Source, merge: bool) -> None:
        entry = self._by_id.get(message["id"])
        last = self._entries[-1] if self._entries else None
        if merge and last is not None and (entry is None or entry is last) and _may_merge(last.message, message):
            if entry is last and _key(last.message) == _key(message):
                return
            last.message = _merged(last.message, message)
            if last.source == "memory":
                last.source = "response"
            return
        if entry is None:
            self._insert(Entry(message, source), len(self._entries))
        elif _key(entry.message) != _key(message):
            if merge and _may_merge(entry.message, message):
                entry.message = _merged(entry.message, message)
            else:
                entry.message = message
            if entry.source == "memory":
                entry.source = source if source != "context" else entry.source

    def _insert(self, entry: Entry, index: int) -> None:
        self._entries.insert(index, entry)
        self._by_id[entry.message["id"]] = entry

    def begin_step(self, model: str) -> None:
        """From the second model call on: a step marker at the end of the last assistant message."""
        last = self._entries[-1] if self._entries else None
        if last is None or last.message["role"] != "assistant" or _mastra(last.message).get("sealed"):
            return
        content = last.message["content"]
        parts = list(content.get("parts") or [])
        if not parts or parts[-1].get("type") == "step-start":
            return
        parts.append({"type": "step-start", "model": model})
        last.message = {**last.message, "content": {**content, "parts": parts}}
        if last.source == "memory":
            last.source = "response"


def _is_lone_result(part: Mapping[str, Any]) -> bool:
    mastra = (part.get("providerMetadata") or {}).get("mastra") or {}
    return part.get("type") == "tool-invocation" and bool(mastra.get("orphanResult"))


def _is_prompt_form(message: Mapping[str, Any]) -> bool:
    """Content as a text or list is the prompt form; the stored form has an object."""
    return message["role"] == "tool" or not isinstance(message.get("content"), dict | type(None))


def _system_text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else parts_of(content_of(content))
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))


def _with_part_times(content: dict[str, Any], at_ms: int) -> dict[str, Any]:
    parts = content.get("parts")
    if not isinstance(parts, list) or all(not isinstance(p, dict) or "createdAt" in p for p in parts):
        return content
    stamped = [{**p, "createdAt": at_ms} if isinstance(p, dict) and "createdAt" not in p else p for p in parts]
    return {**content, "parts": stamped}


# Equality


def _key(message: StoredMessage) -> list[Any]:
    return [_part_key(part) for part in parts_of(message["content"])]


def _item_ids(part: Mapping[str, Any]) -> tuple[Any, ...]:
    metadata = part.get("providerMetadata")
    if not isinstance(metadata, Mapping):
        return ()
    return tuple(
        value.get("itemId") for name in ("openai", "azure") if isinstance(value := metadata.get(name), Mapping)
    )


def _part_key(part: Mapping[str, Any]) -> tuple[Any, ...]:
    kind = part.get("type")
    if kind == "text":
        return (kind, part.get("text"), _item_ids(part))
    if kind == "tool-invocation":
        invocation = part.get("toolInvocation") or {}
        return (kind, invocation.get("toolCallId"), invocation.get("state"))
    if kind == "reasoning":
        details = [d for d in part.get("details") or () if isinstance(d, Mapping)]
        size = sum(len(str(d.get(name) or "")) for d in details for name in ("text", "signature", "data"))
        return (kind, part.get("reasoning"), size, _item_ids(part))
    if kind == "file":
        return (kind, part.get("data") or part.get("url"), part.get("mimeType") or part.get("mediaType"))
    if isinstance(kind, str) and kind.startswith("data-"):
        return (kind, _sorted_json.encode(part.get("data")))
    return (kind,)


# Merging


def _mastra(message: StoredMessage) -> Mapping[str, Any]:
    metadata = message["content"].get("metadata")
    mastra = metadata.get("mastra") if isinstance(metadata, Mapping) else None
    return mastra if isinstance(mastra, Mapping) else {}


def _has_completion(message: StoredMessage) -> bool:
    metadata = message["content"].get("metadata")
    return isinstance(metadata, Mapping) and bool(
        metadata.get("completionResult") or metadata.get("isTaskCompleteResult")
    )


def _may_merge(last: StoredMessage, new: StoredMessage) -> bool:
    if last["role"] != "assistant" or new["role"] != "assistant" or last.get("threadId") != new.get("threadId"):
        return False
    mastra = _mastra(last)
    if mastra.get("sealed") or mastra.get("responseBoundary") or _has_completion(last) or _has_completion(new):
        return False
    parts = parts_of(last["content"])
    is_data_only = bool(parts) and all(str(part.get("type")).startswith("data-") for part in parts)
    return not (is_data_only and last["id"] != new["id"])


def _find_call(message: StoredMessage, call_id: str) -> dict[str, Any] | None:
    """The tool part with this id, an unanswered one first."""
    found: dict[str, Any] | None = None
    for part in parts_of(message["content"]):
        invocation = part.get("toolInvocation")
        if part.get("type") != "tool-invocation" or not isinstance(invocation, dict):
            continue
        if invocation.get("toolCallId") == call_id:
            if not _is_final(part):
                return part
            found = found or part
    return found


def _is_final(part: Mapping[str, Any]) -> bool:
    return RANKS.get(part["toolInvocation"].get("state"), 0) == 4


def _only_outcomes(live: StoredMessage, stored: StoredMessage) -> StoredMessage:
    """Of a client's copy of a stored row: the outcomes and approval answers of calls that are still open there."""
    parts = []
    for part in parts_of(live["content"]):
        if part.get("type") != "tool-invocation":
            continue
        known = _find_call(stored, part["toolInvocation"].get("toolCallId"))
        if known is None or _is_final(known):
            continue
        if known.get("providerExecuted") and part["toolInvocation"].get("state") != "approval-responded":
            continue
        parts.append(part)
    return {**live, "content": {"parts": parts}}


def _merged(a: StoredMessage, b: StoredMessage) -> StoredMessage:
    """A new message: `a` with what `b` adds. Id and time of `a` stay."""
    content = dict(a["content"])
    theirs = b["content"]
    parts = list(parts_of(content))
    known = [part for part in parts_of(theirs) if _known_in(parts, part)]
    position = len(parts)
    if known and (first := _index_of(parts, known[0])) is not None:
        position = first
    for part in parts_of(theirs):
        index = _index_of(parts, part)
        if index is not None:
            updated = _updated_tool(parts[index], part)
            if updated is not parts[index]:
                parts[index] = updated
                _sync_legacy(content, updated)
            position = index + 1
            continue
        key = _part_key(part)
        if sum(_part_key(p) == key for p in parts) >= sum(_part_key(p) == key for p in parts_of(theirs)):
            continue
        before = parts[position - 1] if position else None
        if part.get("type") == "text" and before is not None and before.get("type") == "tool-invocation":
            model = next(
                (p["model"] for p in reversed(parts) if p.get("type") == "step-start" and p.get("model")), None
            )
            parts.insert(position, {"type": "step-start", "model": model} if model else {"type": "step-start"})
            position += 1
        parts.insert(position, part)
        position += 1
    content["parts"] = parts
    if theirs.get("metadata"):
        content["metadata"] = {**(content.get("metadata") or {}), **theirs["metadata"]}
    if theirs.get("content"):
        content["content"] = theirs["content"]
    return {**a, "content": content}


def _known_in(parts: list[dict[str, Any]], part: Mapping[str, Any]) -> bool:
    return _index_of(parts, part) is not None


def _index_of(parts: list[dict[str, Any]], part: Mapping[str, Any]) -> int | None:
    """Where the call of a tool part stands in `parts`, an unanswered one first."""
    if part.get("type") != "tool-invocation":
        return None
    found = _find_call({"content": {"parts": parts}}, part["toolInvocation"].get("toolCallId"))
    return None if found is None else next(i for i, p in enumerate(parts) if p is found)


def _updated_tool(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The tool part moved forward to the state of `new`; the very same object when that would not be forward."""
    was, now = old["toolInvocation"], new["toolInvocation"]
    state = now.get("state")
    if RANKS.get(state, 0) <= RANKS.get(was.get("state"), 0) or state == "call":
        return old
    invocation = {**was, "state": state}
    keys = ("result", "step", "rawInput") if state == "result" else ("approval", "errorText", "rawInput")
    invocation.update({key: now[key] for key in keys if key in now})
    if state == "result" and isinstance(now.get("args"), dict) and isinstance(was.get("args"), dict):
        invocation["args"] = {**was["args"], **now["args"]}
    out = {**old, "toolInvocation": invocation}
    if new.get("providerMetadata"):
        metadata = dict(old.get("providerMetadata") or {})
        for name, value in new["providerMetadata"].items():
            metadata[name] = {**metadata.get(name, {}), **value} if isinstance(value, dict) else value
        out["providerMetadata"] = metadata
    return out


def _sync_legacy(content: dict[str, Any], part: Mapping[str, Any]) -> None:
    legacy = content.get("toolInvocations")
    if isinstance(legacy, list):
        new = part["toolInvocation"]
        content["toolInvocations"] = [
            {**entry, **new} if isinstance(entry, dict) and entry.get("toolCallId") == new.get("toolCallId") else entry
            for entry in legacy
        ]
