"""JSON values against the typed dictionaries of a client library, keys that they don't name included."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Union, cast, get_args, get_origin

import typing_extensions as te

_WRAPPERS = (te.Required, te.NotRequired, te.Annotated, te.ReadOnly)
_UNIONS = (Union, types.UnionType)
_LISTS = (list, Iterable, tuple, set)


def faults(value: Any, hint: Any, place: str = "") -> list[str]:
    """What of a value does not fit a type, each as `place: reason`; nothing when it fits."""
    hint = _bare(hint)
    origin, args = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return []
    if hint is None or hint is type(None):
        return [] if value is None else [f"{place}: not null"]
    if te.is_typeddict(hint):
        return _dictionary_faults(value, hint, place)
    if origin in _UNIONS:
        return _closest(value, args, place)
    if origin is te.Literal:
        return [] if value in args else [f"{place}: {value!r} is none of {', '.join(map(repr, args[:6]))}"]
    if _is_list(hint, origin):
        if not isinstance(value, list):
            return [f"{place}: not a list"]
        inner = args[0] if args else object
        return [fault for at, item in enumerate(value) for fault in faults(item, inner, f"{place}[{at}]")]
    if origin in (dict, Mapping) or hint in (dict, Mapping):
        if not isinstance(value, dict):
            return [f"{place}: not an object"]
        inner = args[1] if args else object
        return [fault for key, item in value.items() for fault in faults(item, inner, f"{place}.{key}")]
    return _plain_faults(value, hint, place)


def _plain_faults(value: Any, hint: Any, place: str) -> list[str]:
    known = {str: str, bool: bool, int: int, float: (int, float)}.get(hint)
    if known is None:
        # Files and other things that no JSON value is.
        return [f"{place}: a {hint} can't come as JSON"]
    fits = isinstance(value, known) and (hint is bool or not isinstance(value, bool))
    return [] if fits else [f"{place}: {value!r:.40} is no {hint.__name__}"]


def _dictionary_faults(value: Any, hint: Any, place: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{place}: not an object"]
    hints = _hints(hint)
    missing = [f"{place}: {key} is missing" for key in sorted(hint.__required_keys__ - value.keys())]
    unknown = [f"{place}.{key}: unknown" for key in sorted(value.keys() - hints.keys())]
    inner = [fault for key in value.keys() & hints.keys() for fault in faults(value[key], hints[key], f"{place}.{key}")]
    return [*missing, *unknown, *sorted(inner)]


def _closest(value: Any, options: tuple[Any, ...], place: str) -> list[str]:
    """The faults against the option that has fewest, among those of the value's kind and of its `type` and `role`."""
    kind = [option for option in options if _is_of_kind(value, _bare(option))]
    named = [option for option in kind if not _has_other_name(value, _bare(option))]
    found: list[str] | None = None
    for option in named or kind or options:
        against = faults(value, option, place)
        if not against:
            return []
        if found is None or len(against) < len(found):
            found = against
    return found or []


def _is_of_kind(value: Any, option: Any) -> bool:
    origin = get_origin(option)
    if isinstance(value, dict):
        return te.is_typeddict(option) or origin in (dict, Mapping) or origin in _UNIONS or option in (dict, object)
    if isinstance(value, list):
        return _is_list(option, origin) or origin in _UNIONS or option is object
    return not te.is_typeddict(option) and not _is_list(option, origin)


def _has_other_name(value: Any, option: Any) -> bool:
    """Whether a typed dictionary's `type` or `role` is not the value's."""
    if not isinstance(value, dict) or not te.is_typeddict(option):
        return False
    hints = _hints(option)
    return any(key in value and key in hints and faults(value[key], hints[key]) for key in ("type", "role"))


def _bare(hint: Any) -> Any:
    while get_origin(hint) in _WRAPPERS or isinstance(hint, te.TypeAliasType):
        hint = hint.__value__ if isinstance(hint, te.TypeAliasType) else get_args(hint)[0]
    return hint


def _is_list(hint: Any, origin: Any) -> bool:
    kind = origin or hint
    return kind in _LISTS or (isinstance(kind, type) and kind not in (str, bytes) and issubclass(kind, Sequence))


@cache
def _hints(hint: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", te.get_type_hints(hint, include_extras=True))
