"""Processors as data: what an agent's row holds, checked when it is saved, built when a run begins.

An entry is `{"id": "tool-call-filter", "options": {"exclude": [...]}}`; option names are accepted in camelCase too and
kept in snake_case. Matchers and delays are data as well:

    {"match": "code-equals" | "status-equals" | "message-matches" | "dropped-connection" | "bad-request",
     "value": ..., "max_retries": 2, "delay_ms": ...}
    {"fn": "exponential", "base": 1000, "cap": 30000, "jitter": 0.2}
"""

from __future__ import annotations

import difflib
import inspect
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from memory.errors import InvalidInput, InvalidOption
from memory.processors.base import HOOKS, INPUT_HOOKS, ProcessAPIErrorArgs
from memory.processors.compat.processor import ProviderHistoryCompat
from memory.processors.history import MessageHistory
from memory.processors.retry import ErrorMatcher, StreamErrorRetryProcessor, is_bad_request_error, is_dropped_connection
from memory.processors.storage import HistoryStorage, MemoryStorage
from memory.processors.tool_filter import ToolCallFilter

BUILT_IN: dict[str, type] = {
    cls.id: cls for cls in (MessageHistory, ToolCallFilter, ProviderHistoryCompat, StreamErrorRetryProcessor)
}
LISTS = ("input_processors", "output_processors", "error_processors")
_HOOKS_OF = dict(zip(LISTS, (INPUT_HOOKS, HOOKS[3:4], HOOKS[4:]), strict=True))
_NOT_STORED = {"storage", "clock", "additional_rules"}

Entry = dict[str, Any]
Lists = dict[str, list[Entry]]


def default_lists() -> Lists:
    """What an agent gets that names no list at all: history and compat before the call, history after it."""
    history: Entry = {"id": MessageHistory.id, "options": {}}
    compat: Entry = {"id": ProviderHistoryCompat.id, "options": {"rules": "catalogue"}}
    return {"input_processors": [history, compat], "output_processors": [history], "error_processors": []}


def normalise_lists(values: Mapping[str, Any], extra: Mapping[str, type] | None = None) -> Lists:
    """The three lists as an agent's row holds them: nothing is added in silence, defaults are written out.

    `values` may name any of the lists (snake_case or camelCase), or `processors`, the short form that puts each
    entry into every list whose hook it implements. Raises InvalidInput with the place and the nearest known name.
    """
    classes = {**BUILT_IN, **(extra or {})}
    given = {snake_case(key): value for key, value in values.items()}
    if unknown := set(given) - {*LISTS, "processors"}:
        name = min(unknown)
        raise InvalidInput(f"no list is called {name!r}{_nearest(name, (*LISTS, 'processors'))}", field=name)
    if "processors" in given:
        if any(name in given for name in LISTS):
            raise InvalidInput("give either processors or the three lists", field="processors")
        entries = _entries(given["processors"], "processors", classes)
        return {
            name: [entry for entry in entries if any(hasattr(classes[entry["id"]], hook) for hook in _HOOKS_OF[name])]
            for name in LISTS
        }
    if not any(name in given for name in LISTS):
        return default_lists()
    return {name: _entries(given.get(name, []), name, classes) for name in LISTS}


def build_lists(
    lists: Mapping[str, Sequence[Entry]], *, storage: HistoryStorage, extra: Mapping[str, type] | None = None
) -> dict[str, list[Any]]:
    """Objects for `Chain(input=..., output=..., error=...)`; equal entries are one object."""
    classes = {**BUILT_IN, **(extra or {})}
    made: dict[bytes, Any] = {}

    def one(entry: Entry) -> Any:
        key = msgspec.json.encode(entry, order="sorted")
        if key not in made:
            made[key] = build(entry, storage=storage, classes=classes)
        return made[key]

    return {name.removesuffix("_processors"): [one(entry) for entry in lists[name]] for name in LISTS}


def build(entry: Entry, *, storage: HistoryStorage, classes: Mapping[str, type]) -> Any:
    """One processor from its entry. Raises InvalidOption naming the option."""
    cls = classes[entry["id"]]
    options = dict(entry.get("options") or {})
    if cls is MessageHistory:
        options["storage"] = storage
    if cls is StreamErrorRetryProcessor:
        if "delay_ms" in options:
            options["delay_ms"] = delay_from_data(options["delay_ms"], "delay_ms")
        if "matchers" in options:
            options["matchers"] = matchers_from_data(options["matchers"])
    return cls(**options)


def option_names(cls: type) -> list[str]:
    """The stored options of a processor class: the keyword arguments of its constructor."""
    parameters = inspect.signature(cls).parameters.values()
    return [p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name not in _NOT_STORED]


def _entries(value: Any, place: str, classes: Mapping[str, type]) -> list[Entry]:
    if not isinstance(value, list):
        raise InvalidInput("expected a list of processors", field=place)
    return [_entry(item, f"{place}[{i}]", classes) for i, item in enumerate(value)]


def _entry(value: Any, place: str, classes: Mapping[str, type]) -> Entry:
    if isinstance(value, str):
        value = {"id": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("id"), str):
        raise InvalidInput("expected a processor id, or an object with id and options", field=place)
    if unknown := set(value) - {"id", "options"}:
        raise InvalidInput(f"unknown key {min(unknown)!r}; known: id, options", field=place)
    cls = classes.get(value["id"])
    if cls is None:
        raise InvalidInput(
            f"no processor is called {value['id']!r}{_nearest(value['id'], classes)}", field=f"{place}.id"
        )
    given = value.get("options") or {}
    if not isinstance(given, Mapping):
        raise InvalidInput("expected an object", field=f"{place}.options")
    known = option_names(cls)
    options = {}
    for key, option in given.items():
        name = snake_case(key)
        if name not in known:
            message = f"{value['id']} has no option {key!r}{_nearest(name, known)}"
            raise InvalidInput(message, field=f"{place}.options.{key}")
        options[name] = option
    if cls is ProviderHistoryCompat:
        options.setdefault("rules", "catalogue")
    entry: Entry = {"id": value["id"], "options": options}
    try:
        build(entry, storage=MemoryStorage(), classes=classes)
    except InvalidOption as error:
        field = error.errors[0].field if error.errors else ""
        raise InvalidInput(str(error), field=f"{place}.options.{field}".rstrip(".")) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{value['id']}: {error}", field=f"{place}.options") from error
    return entry


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# Matchers and delays as data


def delay_from_data(value: Any, place: str) -> Any:
    """A delay: milliseconds, or an exponential function with base, cap and jitter (a share from 0 to 1)."""
    if not isinstance(value, Mapping):
        return value
    if value.get("fn") != "exponential" or set(value) - {"fn", "base", "cap", "jitter"}:
        raise InvalidOption(
            f"{place}: expected fn exponential with base, cap and jitter, got {dict(value)!r}", field=place
        )
    numbers = {"base": value.get("base"), "cap": value.get("cap", 30_000), "jitter": value.get("jitter", 0)}
    for key, number in numbers.items():
        most = 1 if key == "jitter" else math.inf
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= most:
            words = "a number from 0 to 1" if key == "jitter" else "a number from 0"
            raise InvalidOption(f"{place}.{key}: expected {words}", field=f"{place}.{key}")
    base, cap, jitter = float(numbers["base"]), float(numbers["cap"]), float(numbers["jitter"])

    def exponential(args: ProcessAPIErrorArgs) -> float:
        delay = min(base * 2.0 ** min(args.retry_count, 64), cap)
        return delay * (1 - jitter * random.random())

    return exponential


def matchers_from_data(value: Any) -> list[ErrorMatcher]:
    """Matchers of a stored processor. Raises InvalidOption naming the place."""
    if not isinstance(value, list):
        raise InvalidOption("matchers: expected a list", field="matchers")
    return [_matcher(item, f"matchers[{i}]") for i, item in enumerate(value)]


def _matcher(value: Any, place: str) -> ErrorMatcher:
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{place}: expected an object with match", field=place)
    given = {snake_case(key): item for key, item in value.items()}
    if unknown := set(given) - {"match", "value", "max_retries", "delay_ms"}:
        raise InvalidOption(f"{place}: unknown key {min(unknown)!r}", field=place)
    kind, wanted = given.get("match"), given.get("value")
    made = _MATCHERS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise InvalidOption(f"{place}.match: expected one of {', '.join(_MATCHERS)}", field=f"{place}.match")
    kinds, build_match = made
    if kinds is not None and (isinstance(wanted, bool) or not isinstance(wanted, kinds)):
        raise InvalidOption(f"{place}.value: {kind} needs a {kinds.__name__}", field=f"{place}.value")
    words = f"{kind} {wanted}" if kinds is not None else str(kind)
    return ErrorMatcher(
        match=build_match(wanted),
        max_retries=given.get("max_retries"),
        delay_ms=delay_from_data(given.get("delay_ms"), f"{place}.delay_ms"),
        name=words,
    )


def _value(error: Any, *names: str) -> Any:
    for name in names:
        found = error.get(name) if isinstance(error, Mapping) else getattr(error, name, None)
        if found is not None:
            return found
    return None


def _code_equals(wanted: Any) -> Callable[[Any], bool]:
    def match(error: Any) -> bool:
        codes = (_value(error, "code"), _value(error, "error_code"))
        return any(isinstance(code, str) and code.lower() == wanted.lower() for code in codes)

    return match


def _status_equals(wanted: Any) -> Callable[[Any], bool]:
    return lambda error: _value(error, "status_code", "statusCode") == wanted


def _message_matches(wanted: Any) -> Callable[[Any], bool]:
    def match(error: Any) -> bool:
        message = _value(error, "message") or (str(error) if isinstance(error, BaseException) else "")
        return isinstance(message, str) and wanted.lower() in message.lower()

    return match


_MATCHERS: dict[str, tuple[type | None, Callable[[Any], Callable[[Any], bool]]]] = {
    "code-equals": (str, _code_equals),
    "status-equals": (int, _status_equals),
    "message-matches": (str, _message_matches),
    "dropped-connection": (None, lambda _: is_dropped_connection),
    "bad-request": (None, lambda _: is_bad_request_error),
}
