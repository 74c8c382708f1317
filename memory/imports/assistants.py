"""Dumps of OpenAI's Assistants threads: messages, and (where there are) runs and their steps.

A run's steps hold the calls; a call without an output waits for one. Files are only named, for the dump does not hold
them. Source: OpenAI's reference of the objects `thread.message`, `thread.run` and `thread.run.step`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory.errors import InvalidInput
from memory.imports.values import (
    PREFIX,
    Dump,
    digest,
    json_text,
    key_of,
    label,
    moment,
    objects,
    parsed,
    settled,
    stamp_of,
    stamped,
    word,
)
from memory.messages.stored import StoredMessage

_OPENAI = "openai"
KINDS = {"thread": "threads", "thread.message": "messages", "thread.run": "runs", "thread.run.step": "steps"}


def read(value: Any) -> Iterator[Dump]:
    """The threads of a list of their objects, or of `{thread?, messages, runs?, steps?}`.

    Lists may be bare or `{data: [...]}`; an object says itself what it is. Raises InvalidInput without messages.
    """
    found = pieces(value)
    if not found["messages"]:
        raise InvalidInput("it holds no messages of a thread")
    # One without the id of its thread belongs to the only one there is.
    names = dict.fromkeys(name for kind in KINDS.values() for name in map(_thread_of, found[kind]) if name)
    only = next(iter(names)) if len(names) == 1 else ""
    for name in names or {"": None}:
        own = {kind: [item for item in found[kind] if (_thread_of(item) or only) == name] for kind in found}
        yield _dump(name, own)


def pieces(value: Any) -> dict[str, list[Mapping[str, Any]]]:
    """The objects of a dump by kind: threads, messages, runs, steps."""
    out: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in KINDS.values()}
    lists: list[Any] = [value]
    if isinstance(value, Mapping):
        names = ("threads", "messages", "runs", "steps", "run_steps", "data")
        lists = [value[name] for name in names if name in value]
        lists += [[value["thread"]] if "thread" in value else []]
    for item in (item for given in lists for item in objects(given)):
        kind = KINDS.get(word(item, "object"))
        if kind is not None:
            out[kind].append(item)
        # A run may hold its own steps.
        out["steps"] += objects(item.get("steps"))
    return out


def _thread_of(item: Mapping[str, Any]) -> str:
    return word(item, "id") if item.get("object") == "thread" else word(item, "thread_id")


def _dump(name: str, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Dump:
    key = key_of(name, kind="thread") if name else "thread-" + digest(found["messages"])
    runs = {word(run, "id"): run for run in sorted(found["runs"], key=_time)}
    newest = list(runs.values())[-1] if runs else {}
    steps = [step for step in found["steps"] if _calls_of(step)]
    known = {word(call, "id") for step in steps for call in _calls_of(step)}
    waiting = [_waiting(run, known) for run in runs.values()]
    events = [(_time(m), 1, _message(m, runs)) for m in found["messages"]]
    events += [(_time(s), 0, _steps(s, runs)) for s in steps]
    events += [(_time(run), 0, message) for run, message in zip(runs.values(), waiting, strict=True) if message]
    events.sort(key=lambda event: event[:2])
    held = settled([message for _, _, message in events], key)
    about = found["threads"][0] if found["threads"] else {}
    error = newest.get("last_error")
    metadata = about.get("metadata")
    return Dump(
        format="openai-assistants",
        thread_id=PREFIX + key,
        messages=held.messages,
        created_at=moment(about.get("created_at")),
        metadata=metadata if isinstance(metadata, Mapping) else {},
        system=[text] if (text := word(newest, "instructions")) else [],
        tools=_tools(newest),
        provider=_OPENAI,
        model=word(newest, "model"),
        last_error=label(f"{word(error, 'code')}: {word(error, 'message')}", 500) if isinstance(error, Mapping) else "",
        left_out=held.left_out,
    )


def _time(item: Mapping[str, Any]) -> float:
    at = moment(item.get("created_at"))
    return at.timestamp() if at else 0.0


def _stamp(item: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return stamp_of(_OPENAI, "", word(runs.get(word(item, "run_id"), {}), "model"))


def _tools(run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The functions of a run, as an imported thread keeps tools."""
    functions = [tool["function"] for tool in objects(run.get("tools")) if isinstance(tool.get("function"), Mapping)]
    return [
        {
            "name": word(function, "name"),
            "description": word(function, "description"),
            "parameters": function.get("parameters") or {},
        }
        for function in functions
    ]


# Messages


def _message(message: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]]) -> StoredMessage:
    content = message.get("content")
    given = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    parts = [_part(piece) for piece in given]
    parts += [_named(word(file, "file_id")) for file in objects(message.get("attachments")) if word(file, "file_id")]
    stored = {"id": message.get("id"), "role": message.get("role"), "createdAt": message.get("created_at")}
    return stamped({**stored, "content": {"format": 2, "parts": parts}}, _stamp(message, runs))


def _part(piece: Mapping[str, Any]) -> dict[str, Any]:
    inner = piece.get(str(piece.get("type")))
    match piece.get("type"):
        case "text":
            value = inner if isinstance(inner, Mapping) else {"value": inner}
            part: dict[str, Any] = {"type": "text", "text": word(value, "value")}
            if notes := value.get("annotations"):
                part["providerMetadata"] = {_OPENAI: {"annotations": notes}}
            return part
        case "refusal":
            return {"type": "text", "text": word(piece, "refusal"), "providerMetadata": {_OPENAI: {"refusal": True}}}
        case "image_url" if isinstance(inner, Mapping):
            return {"type": "file", "mimeType": "image/*", "data": word(inner, "url")}
        case "image_file" if isinstance(inner, Mapping):
            return _named(word(inner, "file_id"))
    return {"type": "text", "text": "", "providerMetadata": {_OPENAI: {"block": piece}}}


def _named(file_id: str) -> dict[str, Any]:
    """A file that is only named: data for the reader, nothing a model could be sent."""
    return {"type": "data-file", "data": {"fileId": file_id}}


# Calls


def _calls_of(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    details = step.get("step_details")
    return objects(details.get("tool_calls")) if isinstance(details, Mapping) else []


def _steps(step: Mapping[str, Any], runs: Mapping[str, Mapping[str, Any]]) -> StoredMessage:
    parts = [_call(call) for call in _calls_of(step)]
    stored = {"id": step.get("id"), "role": "assistant", "createdAt": step.get("created_at")}
    return stamped({**stored, "content": {"format": 2, "parts": parts}}, _stamp(step, runs))


def _waiting(run: Mapping[str, Any], known: set[str]) -> StoredMessage | None:
    """The calls that a run waits for, where no step holds them."""
    action = run.get("required_action")
    asked = action.get("submit_tool_outputs") if isinstance(action, Mapping) else None
    calls = objects(asked.get("tool_calls")) if isinstance(asked, Mapping) else []
    parts = [_call(call) for call in calls if word(call, "id") not in known]
    if not parts:
        return None
    stored = {"id": f"{word(run, 'id')}#calls", "role": "assistant", "createdAt": run.get("created_at")}
    content = {"format": 2, "parts": parts}
    return stamped({**stored, "content": content}, stamp_of(_OPENAI, "", word(run, "model")))


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    kind = word(call, "type")
    inner = call.get(kind)
    values: Mapping[str, Any] = inner if isinstance(inner, Mapping) else {}
    invocation: dict[str, Any] = {"state": "call", "toolCallId": word(call, "id")}
    if kind == "function":
        invocation |= {"toolName": word(values, "name"), "args": parsed(values.get("arguments") or {})}
        if values.get("output") is not None:
            invocation |= {"state": "result", "result": values["output"]}
        return {"type": "tool-invocation", "toolInvocation": invocation}
    # Run by the provider itself: what was asked and what came of it stand in one object.
    asked = {key: value for key, value in values.items() if key == "input"}
    found = {key: value for key, value in values.items() if key != "input"}
    invocation |= {"state": "result", "toolName": kind, "args": asked, "result": found}
    return {"type": "tool-invocation", "toolInvocation": invocation, "providerExecuted": True}


def combined(values: Sequence[Any]) -> bytes:
    """One dump of the lists that lie in several files."""
    found = [pieces(value) for value in values]
    return json_text({kind: [i for f in found for i in f[kind]] for kind in KINDS.values()}).encode()
