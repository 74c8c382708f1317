"""Bodies as lists of fragments: cut where JSON is, named by SHA-256, put together again byte for byte.

A body is cut at its top-level keys, and at the elements of the lists among them (messages, contents, input), so that a
growing thread shares what it has said before. The names of a long list are cut too, behind every name that ends a node
by its own value: the nodes before the last one stay the same when the list grows, and most of them when it loses its
begin. Names behind the last whole node stand in the body's own record. No protocol is known here, and what is no JSON
is one fragment.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Raw, Struct

KEY_BYTES = 32
_NODE_MARK = b"\x00"  # no JSON begins so: a node is never named like a content
_ENDS_NODE = 7  # one name in eight
_NODE_MOST = 64
_TOP_MOST = 8
_LITERAL_MOST = 256
_ELEMENTS_LEAST = 64
_PAIRS_MOST = 250_000  # beyond, pieces are compared in order: to match each with each takes too long

RAW, PACKED, NODE = 0, 1, 2
"""Kinds of rows: bytes as they are, bytes packed by zlib, names of other fragments."""

Part = bytes | tuple[bytes, bytes]
"""Of a record: literal bytes, or what stands between fragments and their names in a row."""


class Cut(Struct, frozen=True):
    """A body in pieces. `record` says how they make the body; both maps are by name."""

    record: bytes
    contents: Mapping[bytes, bytes]
    nodes: Mapping[bytes, bytes]
    tops: Sequence[bytes]
    """The names that the record holds."""


def cut(body: bytes, *, as_one: bool = False) -> Cut:
    """The pieces of a body; a single one where it is no JSON object or list, or `as_one` is asked for."""
    contents: dict[bytes, bytes] = {}
    nodes: dict[bytes, bytes] = {}
    tops: list[bytes] = []
    parts: list[Part] = []
    for piece in [[body]] if as_one else pieces(body):
        if isinstance(piece, bytes):
            parts.append(piece)
            continue
        keys = []
        for content in piece:
            key = hashlib.sha256(content).digest()
            contents[key] = content
            keys.append(key)
        top = _tops(keys, nodes)
        tops += top
        parts.append((b",", b"".join(top)))
    return Cut(msgspec.msgpack.encode(parts), contents, nodes, tops)


def pieces(body: bytes) -> list[bytes | list[bytes]]:
    """The body as literal bytes and lists of fragments with a comma between them; joined they are the body again."""
    out: list[bytes | list[bytes]] = []
    done = at = 0
    for value in _values(body):
        size = len(value)
        start = _place(body, value, at) if size >= _ELEMENTS_LEAST else -1
        if start < 0:
            continue
        at = start + size
        elements = _elements(body, start, value)
        if elements is None:
            out += [*_rest(body[done:start]), [body[start:at]]]
            done = at
        else:
            out += [*_rest(body[done : start + 1]), elements]
            done = at - 1
    if not out:
        return _rest(body)
    return [*out, *_rest(body[done:])]


def _values(body: bytes) -> list[memoryview]:
    """The values of the body's top-level keys, or the body itself where it is a list; views, as they may be large."""
    try:
        if body[:1] == b"[":
            return [memoryview(body)]
        return [memoryview(value) for value in msgspec.json.decode(body, type=dict[str, Raw]).values()]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []


def _place(body: bytes, value: memoryview, at: int) -> int:
    """Where the value begins. By its own begin first: to look for something so long at once takes long."""
    begin = bytes(value[:_ELEMENTS_LEAST])
    start = body.find(begin, at)
    while start >= 0 and not body.startswith(value, start):
        start = body.find(begin, start + 1)
    return start


def _elements(body: bytes, start: int, value: memoryview) -> list[bytes] | None:
    """The elements of a list that has nothing but commas between them, where they are worth a name each."""
    if body[start : start + 1] != b"[":
        return None
    try:
        found = [bytes(element) for element in msgspec.json.decode(value, type=list[Raw])]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if not found or len(value) < _ELEMENTS_LEAST * len(found):
        return None
    joined = b"[%b]" % b",".join(found)
    return found if len(joined) == len(value) and body.startswith(joined, start) else None


def _rest(between: bytes) -> list[bytes | list[bytes]]:
    if not between:
        return []
    return [between] if len(between) <= _LITERAL_MOST else [[between]]


def _tops(keys: list[bytes], nodes: dict[bytes, bytes]) -> list[bytes]:
    """The fewest names that stand for all these, in order; adds the nodes that the others became."""
    tail: list[bytes] = []
    level = keys
    while len(level) > _TOP_MOST:
        closed: list[bytes] = []
        open_: list[bytes] = []
        for key in level:
            open_.append(key)
            if len(open_) == _NODE_MOST or (len(open_) > 1 and not key[0] & _ENDS_NODE):
                joined = b"".join(open_)
                name = node_key(joined)
                nodes[name] = joined
                closed.append(name)
                open_ = []
        tail = open_ + tail
        level = closed
    return level + tail


def node_key(joined: bytes) -> bytes:
    """The name of a node, which holds these names in a row."""
    return hashlib.sha256(_NODE_MARK + joined).digest()


def split_keys(joined: bytes) -> list[bytes]:
    return [joined[at : at + KEY_BYTES] for at in range(0, len(joined), KEY_BYTES)]


def parts_of_record(record: bytes) -> list[Part]:
    return msgspec.msgpack.decode(record, type=list[bytes | tuple[bytes, bytes]])


def keys_of_record(record: bytes) -> list[bytes]:
    """The names that a record holds itself."""
    return [key for part in parts_of_record(record) if isinstance(part, tuple) for key in split_keys(part[1])]


def put_together(record: bytes, known: Mapping[bytes, tuple[int, bytes]]) -> tuple[list[bytes], int]:
    """The body in pieces (fragments, and what is between them), and how many fragments are not `known`.

    `known` is the kind and the stored bytes by name.
    """
    out: list[bytes] = []
    missing = 0
    for part in parts_of_record(record):
        if isinstance(part, bytes):
            out.append(part)
            continue
        between, joined = part
        is_first = True
        for content in _contents(joined, known):
            if not is_first:
                out.append(between)
            is_first = False
            missing += content is None
            out.append(content or b"")
    return out, missing


def _contents(joined: bytes, known: Mapping[bytes, tuple[int, bytes]]) -> Iterator[bytes | None]:
    for key in split_keys(joined):
        kind, data = known.get(key, (RAW, None))
        if data is None:
            yield None
        elif kind == NODE:
            yield from _contents(data, known)
        else:
            yield zlib.decompress(data) if kind == PACKED else data


def pack(content: bytes) -> tuple[int, bytes]:
    """Kind and bytes of a content's row: packed where that makes it smaller."""
    packed = zlib.compress(content, 6 if len(content) < 64 * 1024 else 1)
    return (PACKED, packed) if len(packed) < len(content) else (RAW, content)


# Two bodies beside each other


class Difference(Struct, frozen=True):
    """A piece that another body has otherwise: its place, what was there, and what is; None where there is nothing."""

    place: str
    before: bytes | None
    after: bytes | None


def named_pieces(body: bytes) -> list[tuple[str, bytes]]:
    """The values of the top-level keys, and of long lists among them the elements: `messages[3]`."""
    out: list[tuple[str, bytes]] = []
    try:
        found = msgspec.json.decode(body, type=dict[str, Raw])
        for key, value in found.items():
            text = bytes(value)
            if text[:1] == b"[" and len(text) > 2:
                elements = msgspec.json.decode(text, type=list[Raw])
                out += [(f"{key}[{i}]", bytes(element)) for i, element in enumerate(elements)]
            else:
                out.append((key, text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return [("", body)]
    return out


def differences(before: bytes, after: bytes) -> list[Difference]:
    """What differs between two bodies, piece by piece, in order."""
    old, new = named_pieces(before), named_pieces(after)
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    most = min(len(old), len(new)) - start
    while end < most and old[-1 - end][1] == new[-1 - end][1] and _key(old[-1 - end]) == _key(new[-1 - end]):
        end += 1
    return [
        Difference((now or was)[0], was[1] if was else None, now[1] if now else None)
        for was, now in _pairs(old[start : len(old) - end], new[start : len(new) - end])
        if was is None or now is None or was[1] != now[1]
    ]


_Named = tuple[str, bytes]


def _pairs(old: list[_Named], new: list[_Named]) -> Iterator[tuple[Any, Any]]:
    """What became what; one that has no counterpart stands beside None."""
    if len(old) * len(new) > _PAIRS_MOST:
        yield from zip_longest(old, new)
        return
    # Names of elements move when one goes: they are told apart by what they hold, and by their list.
    ids = [[(_key(piece), piece[1]) for piece in side] for side in (old, new)]
    for tag, i, i_end, j, j_end in SequenceMatcher(None, ids[0], ids[1], autojunk=False).get_opcodes():
        if tag != "equal":
            yield from zip_longest(old[i:i_end], new[j:j_end])


def first_difference(before: bytes, after: bytes) -> tuple[str, int]:
    """In which piece two bodies first differ, and at which byte."""
    at = next((i for i, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), None)
    found = differences(before, after)
    return found[0].place if found else "", min(len(before), len(after)) if at is None else at


def _key(piece: tuple[str, bytes]) -> str:
    return piece[0].partition("[")[0]
