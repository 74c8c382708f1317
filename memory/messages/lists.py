"""The messages of one run: what was remembered, what came in, what the model answered.

Every entry carries a source tag: `memory` (loaded), `input`, `response` (this run's output) or `context` (prompt
only). Remembered rows keep their stored order and stand before this run's, which stand by arrival. Stored messages
are never changed in place: a merge makes a new message. Source: the message format's section 5.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from memory.errors import InvalidInput
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import stored_with_places, without_orphan_mark
from memory.messages.prompt import Prompt, prompt_from_json
from memory.messages.stored import ROLES, RowContent, StoredMessage, content_of, instant, parts_of, rank_of, timestamp
from memory.messages.typed import call_ids

Source = Literal["memory", "input", "response", "context"]
_SOURCES: dict[str, Source] = {
    "memory": "memory",
    "input": "input",
    "user": "input",
    "response": "response",
    "context": "context",
}
_ROW_ROLES = frozenset(ROLES) - {"system"}
_TIME_LENGTH = len("2026-01-01T00:00:00.000Z")
_sorted_json = msgspec.json.Encoder(order="sorted")


class Entry:
    """A message of the list with its tag.

    `held` is the message as it came; its content may be a row's text, which `message` reads first.
    `was_loaded`: it came from memory, whatever became of it since. `has_output`: this run's model wrote some of it.
    """

    __slots__ = ("has_output", "held", "source", "was_loaded")

    def __init__(
        self, held: StoredMessage, source: Source, *, was_loaded: bool = False, has_output: bool = False
    ) -> None:
        self.held, self.source, self.was_loaded, self.has_output = held, source, was_loaded, has_output

    @property
    def message(self) -> StoredMessage:
        if type(content := self.held["content"]) is RowContent:
            self.held = {**self.held, "content": _with_legacy_arguments(content.value)}
        return self.held

    @message.setter
    def message(self, message: StoredMessage) -> None:
        self.held = message


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
        self._latest: datetime | None = None
        self._row_times: list[str] = []
        self._system: dict[str, list[str]] = {"": []}
        self._asked: dict[str, list[Entry]] = {}  # by call id: entries that hold such a call
        self._unread: list[Entry] = []  # loaded entries whose calls are not noted there before a result asks for one
        self._growing: tuple[StoredMessage, _Parts] | None = None  # the message merged last, and its parts

    # Reading

    @property
    def entries(self) -> Sequence[Entry]:
        return self._entries

    @property
    def messages(self) -> list[StoredMessage]:
        return [entry.message for entry in self._entries]

    @property
    def held(self) -> list[StoredMessage]:
        """The messages as they came: the content of one that nobody has looked into may be a row's text still."""
        return [entry.held for entry in self._entries]

    def tagged(self, *sources: Source) -> list[StoredMessage]:
        """Messages with one of these tags. A row that several of them touched counts under each."""
        memory, response = "memory" in sources, "response" in sources
        return [
            e.message
            for e in self._entries
            if e.source in sources or (memory and e.was_loaded) or (response and e.has_output)
        ]

    @property
    def has_output(self) -> bool:
        """Whether this run's model wrote anything; results that the caller brought are none of it."""
        return any(entry.has_output for entry in self._entries)

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
        return to_prompt((entry.held for entry in self._entries), system=self.system_texts)

    # Changing

    def add_system(self, text: str, *, tag: str = "") -> None:
        """Add a system text; the same text twice under one tag counts once."""
        bucket = self._system.setdefault(tag, [])
        if text not in bucket:
            bucket.append(text)

    def set_system(self, given: Iterable[str | Mapping[str, Any]]) -> None:
        """Replace all system texts, tagged ones too; texts or system messages."""
        texts = (text if isinstance(text, str) else _system_text(text) for text in given)
        self._system = {"": list(dict.fromkeys(texts))}

    def add(self, given: Any, source: str, *, merge: bool = True) -> None:
        """Add a text, one message or several, in stored or prompt form.

        Raises InvalidInput (code INVALID_MESSAGE_CONTENT) for a message without content, and for one of another
        thread or resource.
        """
        tag = _SOURCES[source]
        made = self._made(given, tag)
        if tag == "memory":
            self._load(made)
            return
        for message in sorted(made, key=lambda m: instant(m["createdAt"]) or datetime.max.replace(tzinfo=UTC)):
            self._add_live(message, tag, merge)

    def remove(self, message_ids: Iterable[str]) -> None:
        gone = set(message_ids)
        if not gone:
            return
        self._entries = [entry for entry in self._entries if entry.held["id"] not in gone]
        self._by_id = {entry.held["id"]: entry for entry in self._entries}
        self._loaded_count = sum(entry.was_loaded for entry in self._entries)

    def replace(self, message: StoredMessage) -> None:
        """Put a repaired message in the place of the one with its id; tag and place stay."""
        self._set(self._by_id[message["id"]], message)

    def put_back(self, entries: Iterable[tuple[Source, StoredMessage]], gone: Iterable[str] = ()) -> None:
        """Make the list again what it was: with these messages under their tags, and without those that are gone."""
        self.remove(gone)
        for source, message in entries:
            entry = self._by_id.get(message["id"])
            if entry is None:
                self.add([message], source, merge=False)
                continue
            self._set(entry, message)
            entry.source = source

    def apply(self, messages: Iterable[StoredMessage], visible: Iterable[str], *, source: Source = "input") -> None:
        """Take the array a processor returned for the ids it could see.

        Missing ids are removed, every returned message is put in again with its former tag (new ones: `source`),
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
            if entry is None:
                self.add([message], source, merge=False)
            elif message is not entry.message:
                given_at = message.get("createdAt") or entry.message["createdAt"]
                for new in self._made([message], entry.source):
                    self._set(entry, {**new, "createdAt": given_at})

    # Inside

    def _made(self, given: Any, tag: Source) -> list[StoredMessage]:
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
            if tag == "memory" and type(message) is dict and self._is_own_row(message):
                flush()
                made.append(message)
                continue
            place = f"messages[{i}]"
            if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
                raise InvalidInput("expected a message with a role", field=place)
            if message["role"] == "system":
                if tag != "memory":
                    self.add_system(_system_text(message))
                continue
            is_old_row = tag == "memory" and isinstance(message.get("content"), str)
            if _is_prompt_form(message) and not is_old_row:
                prompt_form.append(message)
                continue
            flush()
            made.append(self._stamped(dict(message), tag, place, keeps_time=True))
        flush()
        return made

    def _is_own_row(self, message: StoredMessage) -> bool:
        """Whether it is a message as a store loads them, with all that the list would have to ask for or fill in."""
        try:
            owner = message["resourceId"]
            if (
                type(message["content"]) is not RowContent
                or message["role"] not in _ROW_ROLES
                or not (message["id"] and message["threadId"] and owner)
                or (owner != self.resource_id and self.resource_id is not None)
                or type(message["createdAt"]) is not str
            ):
                return False
        except KeyError:
            return False
        self._row_times.append(message["createdAt"])
        return True

    def _newest(self) -> datetime | None:
        """The newest time of a message so far; those of rows are read when a message needs a later one."""
        times, self._row_times = self._row_times, []
        if all(len(at) == _TIME_LENGTH and at[-1] == "Z" for at in times):
            times = [max(times)] if times else []  # as `timestamp` spells them: they sort as they stand
        for at in map(instant, times):
            if at is not None and (self._latest is None or at > self._latest):
                self._latest = at
        return self._latest

    def _from_prompt_form(self, given: Sequence[Mapping[str, Any]], tag: Source) -> list[StoredMessage]:
        try:
            stored = stored_with_places(prompt_from_json(given))
        except ValueError as error:
            raise InvalidInput(str(error), field="messages") from error
        made = []
        for place, message in stored:
            self._answer_open_calls(message)
            if not message["content"]["parts"]:
                continue
            for key in ("createdAt", "threadId", "resourceId"):
                if given[place].get(key) is not None:
                    message[key] = given[place][key]
            made.append(self._stamped(message, tag, f"messages[{place}]", keeps_time=tag == "memory"))
        return made

    def _settle_lone_results(self) -> None:
        """Results that came in before the rows with their calls were loaded find them now."""
        emptied = []
        for entry in self._entries[self._loaded_count :]:
            if not any(_is_lone_result(part) for part in parts_of(entry.message["content"])):
                continue
            content = {**entry.message["content"], "parts": list(parts_of(entry.message["content"]))}
            message = {**entry.message, "content": content}
            self._answer_open_calls(message)
            self._set(entry, message)
            if not content["parts"]:
                emptied.append(message["id"])
        self.remove(emptied)

    def _answer_open_calls(self, message: StoredMessage) -> None:
        """Give lone results to the open calls of the list: the row that asked is the one that holds the answer."""
        parts = message["content"]["parts"]
        for part in [part for part in parts if _is_lone_result(part)]:
            entry = self._nearest_open(part["toolInvocation"]["toolCallId"], except_id=message.get("id"))
            if entry is None:
                continue
            answer = {**part, "providerMetadata": without_orphan_mark(part["providerMetadata"])}
            self._merge(entry, {"content": {"parts": [answer]}})
            entry.source = "input" if entry.source == "input" else "response"
            parts.remove(part)

    def _nearest_open(self, call_id: str, *, except_id: str | None) -> Entry | None:
        """The last entry in list order that holds an unanswered call of this id."""
        for entry in self._unread:
            self._register(entry, entry.held)
        self._unread.clear()
        asked = [e for e in self._asked.get(call_id, ()) if self._is_open(e, call_id)]
        if not asked:
            self._asked.pop(call_id, None)
            return None
        self._asked[call_id] = asked
        others = [entry for entry in asked if entry.held["id"] != except_id]
        if len(others) < 2:
            return others[0] if others else None
        ids = {id(entry) for entry in others}
        return next(entry for entry in reversed(self._entries) if id(entry) in ids)

    def _is_open(self, entry: Entry, call_id: str) -> bool:
        part = _find_call(entry.message, call_id)
        return self._by_id.get(entry.held["id"]) is entry and part is not None and not _is_final(part)

    def _stamped(self, message: StoredMessage, tag: Source, place: str, *, keeps_time: bool) -> StoredMessage:
        content = message.get("content")
        if content is None and isinstance(message.get("parts"), list):
            content = {"format": 2, "parts": message.pop("parts")}
        is_row = isinstance(content, str | RowContent) and tag == "memory"
        if not is_row and not (
            isinstance(content, dict)
            and (
                isinstance(content.get("parts"), list)
                or isinstance(content.get("content"), str)
                or isinstance(content.get("toolInvocations"), list)
            )
        ):
            raise InvalidInput(
                "a message needs content with parts or a text", field=f"{place}.content", code="INVALID_MESSAGE_CONTENT"
            )
        if message["role"] not in ROLES:
            raise InvalidInput(f"expected one of {', '.join(ROLES)}", field=f"{place}.role")
        if type(content) is not RowContent:
            message["content"] = _with_legacy_arguments(content_of(content))
        for key, own in (("threadId", self.thread_id), ("resourceId", self.resource_id)):
            given = message.get(key)
            if not given:
                if own is not None:
                    message[key] = own
            elif own is not None and given != own and (tag != "memory" or key == "resourceId"):
                raise InvalidInput(f"{key} is {given!r}, the list belongs to {own!r}", field=f"{place}.{key}")
        message["id"] = message.get("id") or self._new_id()
        at = instant(message.get("createdAt"))
        newest = self._newest()
        next_free = None if newest is None else newest + timedelta(milliseconds=1)
        if at is None:
            at = self._clock() if next_free is None else max(self._clock(), next_free)
            message["createdAt"] = timestamp(at)
        elif not keeps_time and next_free is not None and newest is not None and at <= newest:
            at = next_free
            message["createdAt"] = timestamp(at)
        if newest is None or at > newest:
            self._latest = at
        if tag != "memory":
            message["content"] = _with_part_times(message["content"], int(at.timestamp() * 1000))
        return message

    def _load(self, made: Iterable[StoredMessage]) -> None:
        """Put remembered rows before this run's, in stored order. A row that is here already takes its stored place.

        Of an assistant row the stored copy is the base, of a user row the live copy counts. The newest message of
        this run keeps its place even when its id is known: it is what is asked now.
        """
        loaded, live = self._entries[: self._loaded_count], self._entries[self._loaded_count :]
        asked_now = live[-1] if live and live[-1].held["role"] != "assistant" else None
        for message in made:
            entry = self._by_id.get(message["id"])
            if entry is None:
                entry = Entry(message, "memory", was_loaded=True)
                self._by_id[message["id"]] = entry
                self._unread.append(entry)
                loaded.append(entry)
                continue
            message = Entry(message, "memory").message
            is_equal = _key(entry.message) == _key(message)
            if entry.was_loaded:
                if entry.source == "memory" and not is_equal:
                    self._set(entry, message)
                continue
            if message["role"] == "assistant" and not is_equal:
                taken = _only_outcomes(entry.message, message) if entry.source == "input" else entry.message
                self._set(entry, message)
                self._merge(entry, taken)
            if entry is not asked_now:
                entry.was_loaded = True
                loaded.append(entry)
        self._entries = loaded + [entry for entry in live if not entry.was_loaded]
        self._loaded_count = len(loaded)
        self._settle_lone_results()

    def _add_live(self, message: StoredMessage, source: Source, merge: bool) -> None:
        entry = self._by_id.get(message["id"])
        last = self._entries[-1] if self._entries else None
        is_output = source == "response"
        merge = merge and message["role"] == "assistant"
        if merge and last is not None and (entry is None or entry is last) and _may_merge(last, message):
            if entry is last and _key(last.message) == _key(message):
                return
            self._merge(last, message)
            last.has_output |= is_output
            if last.source == "memory":
                last.source = "response"
        elif entry is None:
            entry = Entry(message, source, has_output=is_output)
            self._entries.append(entry)
            self._by_id[message["id"]] = entry
            self._register(entry, message)
        elif _key(entry.message) != _key(message):
            if merge and _may_merge(entry, message):
                self._merge(entry, message)
            else:
                self._set(entry, message)
            entry.has_output |= is_output
            if entry.source == "memory" and source != "context":
                entry.source = source

    def _set(self, entry: Entry, message: StoredMessage) -> None:
        entry.message = message
        self._register(entry, message)

    def _register(self, entry: Entry, message: Mapping[str, Any]) -> None:
        """Note which calls the entry holds, so that a result finds them."""
        content = message["content"]
        calls = call_ids(content.row_text) if type(content) is RowContent else None
        if calls is None:
            calls = [call_id for part in parts_of(content) if isinstance(call_id := _call_id(part), str)]
        for call_id in calls:
            asked = self._asked.setdefault(call_id, [])
            if not asked or asked[-1] is not entry:
                asked.append(entry)

    def _merge(self, entry: Entry, added: Mapping[str, Any]) -> None:
        """Merge `added` into the entry's message. Parts of a growing answer are counted once, not at every merge."""
        growing = self._growing
        parts = growing[1] if growing and growing[0] is entry.message else _Parts(_whole_parts(entry.message))
        entry.message = _merged(entry.message, added, parts)
        self._growing = (entry.message, parts)
        self._register(entry, added)

    def begin_step(self, model: str) -> None:
        """From the second model call on: a step marker at the end of the last assistant message, which is the run's."""
        last = self._entries[-1] if self._entries else None
        if last is None or last.held["role"] != "assistant" or _mastra(last.message).get("sealed"):
            return
        content = last.message["content"]
        parts = list(content.get("parts") or [])
        if not parts or parts[-1].get("type") == "step-start":
            return
        parts.append({"type": "step-start", "model": model} if model else {"type": "step-start"})
        last.message = {**last.message, "content": {**content, "parts": parts}}
        if last.source != "context":
            last.source = "response"


def _is_lone_result(part: Mapping[str, Any]) -> bool:
    mastra = (part.get("providerMetadata") or {}).get("mastra") or {}
    return part.get("type") == "tool-invocation" and bool(mastra.get("orphanResult"))


def _is_prompt_form(message: Mapping[str, Any]) -> bool:
    """Content as a text or list is the prompt form; the stored form has an object. An empty text is no content."""
    content = message.get("content")
    return message["role"] == "tool" or isinstance(content, list) or (isinstance(content, str) and content != "")


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


def _with_legacy_arguments(content: dict[str, Any]) -> dict[str, Any]:
    """Entries of the legacy list that lack arguments take them from the part of their call."""
    legacy = content.get("toolInvocations")
    if not isinstance(legacy, list):
        return content
    arguments = {
        invocation.get("toolCallId"): invocation["args"]
        for part in parts_of(content)
        if isinstance(invocation := part.get("toolInvocation"), dict) and invocation.get("args")
    }
    filled = [
        {**entry, "args": arguments[entry.get("toolCallId")]}
        if isinstance(entry, dict) and not entry.get("args") and entry.get("toolCallId") in arguments
        else entry
        for entry in legacy
    ]
    return content if filled == legacy else {**content, "toolInvocations": filled}


# Equality


def _key(message: StoredMessage) -> list[Any]:
    return [_part_key(part) for part in parts_of(message["content"])]


def _item_ids(part: Mapping[str, Any]) -> tuple[Any, ...]:
    metadata = part.get("providerMetadata")
    if not isinstance(metadata, Mapping):
        return ()
    return tuple(
        _hashable(value.get("itemId"))
        for name in ("openai", "azure")
        if isinstance(value := metadata.get(name), Mapping)
    )


def _part_key(part: Mapping[str, Any]) -> tuple[Any, ...]:
    kind = part.get("type")
    match kind:
        case "text":
            return (kind, _hashable(part.get("text")), _item_ids(part))
        case "tool-invocation":
            invocation = part.get("toolInvocation") or {}
            return (kind, _hashable(invocation.get("toolCallId")), _hashable(invocation.get("state")))
        case "reasoning":
            details = [d for d in part.get("details") or () if isinstance(d, Mapping)]
            size = sum(len(str(d.get(name) or "")) for d in details for name in ("text", "signature", "data"))
            return (kind, _hashable(part.get("reasoning")), size, _item_ids(part))
        case "file":
            data, media_type = part.get("data") or part.get("url"), part.get("mimeType") or part.get("mediaType")
            return (kind, _hashable(data), _hashable(media_type))
        case "step-start":
            return (kind,)
        case str() if kind.startswith("data-"):
            return (kind, _sorted_json.encode(part.get("data")))
        case _:
            rest = {key: value for key, value in part.items() if key not in ("createdAt", "providerMetadata")}
            return (_hashable(kind), _sorted_json.encode(rest))


def _hashable(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else _sorted_json.encode(value)


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


def _may_merge(entry: Entry, new: StoredMessage) -> bool:
    """Whether an assistant's new message goes into the entry's."""
    if entry.held["role"] != "assistant":
        return False
    last = entry.message
    if last.get("threadId") != new.get("threadId"):
        return False
    if _mastra(last).get("sealed") or _has_completion(last) or _has_completion(new):
        return False
    if _mastra(last).get("responseBoundary") or _mastra(new).get("responseBoundary"):
        return False
    return last["id"] == new["id"] or not _is_data_only(last)


def _is_data_only(message: StoredMessage) -> bool:
    parts = message["content"].get("parts") or ()
    return bool(parts) and all(isinstance(p, dict) and str(p.get("type")).startswith("data-") for p in parts)


def _find_call(message: StoredMessage, call_id: Any) -> dict[str, Any] | None:
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
    return rank_of(part["toolInvocation"]) == 4


_OUTCOMES = ("result", "output-error", "output-denied", "approval-responded")


def _only_outcomes(live: StoredMessage, stored: StoredMessage) -> StoredMessage:
    """Of a client's copy of a stored row: the outcomes and approval answers of calls that are still open there."""
    parts = []
    for part in parts_of(live["content"]):
        invocation = part.get("toolInvocation")
        if part.get("type") != "tool-invocation" or not isinstance(invocation, dict):
            continue
        known = _find_call(stored, invocation.get("toolCallId"))
        if known is None or _is_final(known) or invocation.get("state") not in _OUTCOMES:
            continue
        if known.get("providerExecuted") and invocation.get("state") != "approval-responded":
            continue
        own = {key: value for key, value in invocation.items() if key != "args"}
        parts.append({**part, "toolInvocation": own})
    return {**live, "content": {"parts": parts}}


def _whole_parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a message; what an old row holds beside them (its legacy list, its only text) as parts too."""
    content = message["content"]
    parts = list(parts_of(content))
    if not any(part.get("type") == "tool-invocation" for part in parts):
        legacy = content.get("toolInvocations")
        entries = [entry for entry in legacy if isinstance(entry, dict)] if isinstance(legacy, list) else []
        parts = [{"type": "tool-invocation", "toolInvocation": entry} for entry in entries] + parts
    text = content.get("content")
    if not parts and isinstance(text, str) and text:
        parts.append({"type": "text", "text": text})
    return parts


class _Parts:
    """Parts of a message that grows, with how often each occurs and where calls stand."""

    def __init__(self, parts: list[dict[str, Any]]) -> None:
        self.parts = parts
        self._counts = Counter(map(_part_key, parts))
        self._model: Any = None
        self._calls: dict[Any, list[int]] = {}
        self._find_calls()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.parts)

    def _find_calls(self) -> None:
        self._calls.clear()
        for at, part in enumerate(self.parts):
            self._note(at, part)

    def _note(self, at: int, part: Mapping[str, Any]) -> None:
        if (call_id := _call_id(part)) is not None:
            self._calls.setdefault(call_id, []).append(at)
        elif part.get("type") == "step-start":
            self._model = part.get("model") or self._model

    def index(self, part: Mapping[str, Any]) -> int | None:
        """Where the call of a tool part stands, an unanswered one first."""
        found = self._calls.get(_call_id(part), ()) if _call_id(part) is not None else ()
        return next((at for at in found if not _is_final(self.parts[at])), found[0] if found else None)

    def count(self, key: tuple[Any, ...]) -> int:
        return self._counts[key]

    def update(self, at: int, part: dict[str, Any]) -> None:
        self._counts[_part_key(self.parts[at])] -= 1
        self._counts[_part_key(part)] += 1
        self.parts[at] = part

    def insert(self, at: int, part: dict[str, Any]) -> int:
        """Put the part in, a step marker before it where a text follows a tool part; the place behind it."""
        if part.get("type") == "text" and at and self.parts[at - 1].get("type") == "tool-invocation":
            marker = {"type": "step-start"}
            at = self._put(at, {**marker, "model": self._model} if self._model else marker)
        return self._put(at, part)

    def _put(self, at: int, part: dict[str, Any]) -> int:
        self._counts[_part_key(part)] += 1
        self.parts.insert(at, part)
        if at == len(self.parts) - 1:
            self._note(at, part)
        else:
            self._find_calls()
        return at + 1


def _call_id(part: Mapping[str, Any]) -> Any:
    invocation = part.get("toolInvocation")
    if part.get("type") != "tool-invocation" or not isinstance(invocation, Mapping):
        return None
    return _hashable(invocation.get("toolCallId"))


def _merged(a: StoredMessage, b: Mapping[str, Any], parts: _Parts) -> StoredMessage:
    """A new message: `a` with what `b` adds; `parts` are those of `a` and grow. Id and time of `a` stay."""
    content = dict(a["content"])
    added = _whole_parts(b)
    wanted = Counter(map(_part_key, added))
    known = next((at for part in added if (at := parts.index(part)) is not None), None)
    position = len(parts.parts) if known is None else known
    for part in added:
        at = parts.index(part)
        if at is not None:
            updated = _updated_tool(parts.parts[at], part)
            if updated is not parts.parts[at]:
                parts.update(at, updated)
                _sync_legacy(content, updated)
            position = at + 1
        elif parts.count(key := _part_key(part)) < wanted[key]:
            position = parts.insert(position, part)
    content["parts"] = list(parts)
    theirs = b["content"]
    if theirs.get("metadata"):
        content["metadata"] = {**(content.get("metadata") or {}), **theirs["metadata"]}
    if theirs.get("content"):
        content["content"] = theirs["content"]
    return {**a, "content": content}


def _updated_tool(old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The tool part moved forward to the state of `new`; the very same object when that would not be forward."""
    was, now = old["toolInvocation"], new["toolInvocation"]
    state = now.get("state")
    if rank_of(now) <= rank_of(was) or state == "call":
        return old
    invocation = {**was, "state": state}
    if state != "result":
        invocation.update({key: now[key] for key in ("approval", "errorText", "rawInput") if key in now})
        return {**old, "toolInvocation": invocation}
    invocation.update({key: now[key] for key in ("result", "step", "rawInput") if key in now})
    if isinstance(now.get("args"), dict) and isinstance(was.get("args"), dict):
        invocation["args"] = {**was["args"], **now["args"]}
    elif now.get("args") is not None:
        invocation["args"] = now["args"]
    out = {**old, "toolInvocation": invocation}
    if isinstance(given := new.get("providerMetadata"), dict) and given:
        metadata = dict(old.get("providerMetadata") or {})
        for name, value in given.items():
            before = metadata.get(name)
            is_both = isinstance(value, dict) and isinstance(before, dict)
            metadata[name] = {**before, **value} if is_both else value  # type: ignore[dict-item]
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
