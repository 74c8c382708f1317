"""Streams of the Gemini contents protocol: each event is an answer of its own that holds what is new.

Sources: Google's references of streamed answers and of streamed call arguments (Vertex). No event says that it is the
last one: an answer is whole when its finish reason came. A call whose arguments come in fragments is given whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memory.messages.halves import write_mended
from memory.providers.shared import mapping, word_at
from memory.providers.sse import Event
from memory.providers.streams import error_in, object_of, unreadable
from memory.providers.wire import Chunk, ReasoningDelta, Reply, TextDelta, ToolInputDelta

_TEXT_KEYS = {"text", "thought", "thoughtSignature"}
_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")
_GAP = 1000
"""Longest run of list items that a fragment may pass over."""


class AnswerReader:
    """Puts an answer together. `decode` reads the body that an unstreamed call would have given.

    `name_call` makes the id of a call that has none from the answer's seed (its id, else its first event) and the
    number of the call; `decode` is given the same seed.
    """

    def __init__(
        self,
        decode: Callable[[Mapping[str, Any], str], Reply],
        name_call: Callable[[str, int], str],
        provider: str,
    ) -> None:
        self._decode = decode
        self._name_call = name_call
        self._provider = provider
        self._seed = ""
        self._body: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []
        self._call_count = 0
        self._open: _OpenCall | None = None
        self.is_whole = False

    @property
    def has_ended(self) -> bool:
        """Never: counts of tokens may follow the finish reason."""
        return False

    def take(self, event: Event) -> Iterator[Chunk]:
        chunk = _unwrapped(event, self._provider)
        if chunk.get("error"):
            raise error_in(event, self._provider)
        try:
            yield from self._add(chunk)
        except ValueError as error:
            raise unreadable(self._provider, str(error), event) from error

    def reply(self) -> Reply:
        content = {"content": {"role": "model", "parts": self._parts}} if self._parts else {}
        candidate = {**self._candidate, **content}
        return self._decode({**self._body, "candidates": [candidate] if candidate else []}, self._seed)

    def partial(self) -> Reply:
        return self.reply()

    def _add(self, chunk: Mapping[str, Any]) -> Iterator[Chunk]:
        if not self._seed:
            self._seed = word_at(chunk, "responseId") or write_mended(chunk)
        for key, value in chunk.items():
            if key == "usageMetadata":
                self._body[key] = {**self._body.get(key, {}), **mapping(value)}
            elif key != "candidates":
                self._body[key] = value
        candidates = chunk.get("candidates")
        candidate = _object(candidates[0], "candidates[0]") if isinstance(candidates, list) and candidates else {}
        content = candidate.get("content")
        parts = _object(content, "content").get("parts") if content is not None else None
        if parts is not None and not isinstance(parts, list):
            raise ValueError("content.parts is no list")
        for part in parts or ():
            yield from self._add_part(_object(part, "content.parts"))
        for key, value in candidate.items():
            if key != "content" and value:
                before = self._candidate.get(key)
                if isinstance(before, dict) and isinstance(value, Mapping):
                    value = {**before, **value}
                self._candidate[key] = value
        if candidate.get("finishReason") or mapping(chunk.get("promptFeedback")).get("blockReason"):
            # A call that came in fragments may lack the last one.
            yield from self._complete()
            self.is_whole = True

    def _add_part(self, part: Mapping[str, Any]) -> Iterator[Chunk]:
        text = part.get("text")
        call = part.get("functionCall")
        if isinstance(text, str):
            if text:
                yield from self._complete()
                yield ReasoningDelta(text) if part.get("thought") else TextDelta(text)
            self._add_text(part, text)
        elif not isinstance(call, Mapping):
            yield from self._complete()
            self._parts.append(dict(part))
        elif call.get("name"):
            yield from self._complete()
            yield from self._begin(part, call)
        elif self._open is not None:
            self._open.add(call)
            if not call.get("willContinue"):
                yield from self._complete()

    def _add_text(self, part: Mapping[str, Any], text: str) -> None:
        if not text and "thoughtSignature" not in part:
            return
        last = self._parts[-1] if self._parts else None
        is_more = (
            last is not None
            and "text" in last
            and last.keys() | part.keys() <= _TEXT_KEYS
            and bool(last.get("thought")) == bool(part.get("thought"))
            and not ("thoughtSignature" in last and "thoughtSignature" in part)
        )
        if last is not None and is_more:
            self._parts[-1] = {**last, **part, "text": last["text"] + text}
        else:
            self._parts.append(dict(part))

    def _begin(self, part: Mapping[str, Any], call: Mapping[str, Any]) -> Iterator[Chunk]:
        given = call.get("id")
        call_id = given if isinstance(given, str) else self._name_call(self._seed, self._call_count)
        self._call_count += 1
        self._open = _OpenCall(part, call, call_id)
        self._open.add(call)
        if call.get("willContinue"):
            yield ToolInputDelta(call_id, self._open.name, "")
        else:
            yield from self._complete()

    def _complete(self) -> Iterator[Chunk]:
        if (call := self._open) is not None:
            self._open = None
            self._parts.append(call.part())
            yield ToolInputDelta(call.id, call.name, write_mended(call.args))


class _OpenCall:
    """A call whose arguments come in fragments, each with the path of the value it belongs to."""

    def __init__(self, part: Mapping[str, Any], call: Mapping[str, Any], call_id: str) -> None:
        self.id = call_id
        self.name = str(call["name"])
        self.args: Any = {}
        self._part = part
        self._call = {key: value for key, value in call.items() if key not in ("args", "partialArgs", "willContinue")}
        self._unfinished = ""
        """Path of the text that the next fragment goes on with."""

    def part(self) -> dict[str, Any]:
        return {**self._part, "functionCall": {**self._call, "args": self.args}}

    def add(self, call: Mapping[str, Any]) -> None:
        """Raises ValueError for a fragment that has no place."""
        if call.get("args") is not None:
            self.args = call["args"]
        for fragment in call.get("partialArgs") or ():
            fragment = _object(fragment, "partialArgs")
            path = str(fragment.get("jsonPath") or "")
            key = next((key for key in _VALUES if key in fragment), None)
            if key is not None:
                value = None if key == "nullValue" else fragment[key]
                self._put(path, value, goes_on=self._unfinished == path and isinstance(value, str))
            self._unfinished = path if fragment.get("willContinue") else ""

    def _put(self, path: str, value: Any, *, goes_on: bool) -> None:
        steps = _steps(path)
        target = self.args
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            empty: Any = [] if isinstance(following, int) else {}
            if isinstance(step, int):
                if not isinstance(target, list) or step - len(target) > _GAP:
                    raise ValueError(f"the path {path!r} leads nowhere")
                target.extend([None] * (step + 1 - len(target)))
                before = target[step]
            else:
                if not isinstance(target, dict):
                    raise ValueError(f"the path {path!r} leads nowhere")
                before = target.get(step)
            if following is None:
                target[step] = before + value if goes_on and isinstance(before, str) else value
            elif before is None:
                target[step] = empty
            target = target[step]


def _steps(path: str) -> list[str | int]:
    """The steps of a path such as `$.rows[0].name`."""
    found = list(_STEP.finditer(path, 1))
    if not found or not path.startswith("$") or "".join(step[0] for step in found) != path[1:]:
        raise ValueError(f"{path!r} is no path")
    return [int(step[2]) if step[2] else step[1] or step[3] or step[4] or "" for step in found]


def _unwrapped(event: Event, provider: str) -> Mapping[str, Any]:
    """The object of an event, also one wrapped in a list."""
    if event.data.startswith("["):
        event = Event(event.name, event.data.strip()[1:-1])
    return object_of(event, provider)


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is no object")
    return value
