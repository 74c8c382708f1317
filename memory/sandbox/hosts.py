"""What a host refuses that is known by its facts alone, in the words of a host whose own are not known."""

import re
from itertools import pairwise
from typing import Any

from memory.hosts import Host
from memory.sandbox.chat_shape import Fault, Shape, bracketed, gap, walk
from memory.sandbox.wire import Refused, words

_ROLES = ("system", "user", "assistant", "tool")
_REASONING = words("reasoning reasoning_content reasoning_details")


def check(body: Any, host: Host) -> None:
    """Nothing when the host would answer this request body; raises Refused where it would not."""
    try:
        walk(body, _shape(host))
        _check_conversation(body["messages"], host)
    except Fault as fault:
        wanted = {"role": ", ".join(_ROLES), "key": "no such key"}.get(fault.kind, fault.wanted)
        place = bracketed(fault.place) or "body"
        raise Refused(f"Input validation error at {place}: expected {wanted}", status=host.refuses_with) from None


def _shape(host: Host) -> Shape:
    user = words("text image_url") if host.images else words("text")
    parts = {role: user if role == "user" else words("text") for role in host.list_roles}
    return Shape(roles=_ROLES, parts=parts)


def _check_conversation(messages: list[dict[str, Any]], host: Host) -> None:
    found = gap(messages)
    if found:
        raise Fault("pair", ("messages", found.index), None, wanted="one result right behind each call, and no other")
    for index, message in enumerate(messages):
        for at, call in enumerate(message.get("tool_calls") or []):
            place = ("messages", index, "tool_calls", at, "id")
            is_long = bool(host.tool_id_longest) and len(call["id"]) > host.tool_id_longest
            if not call["id"] or is_long or (host.tool_id_refused and re.search(host.tool_id_refused, call["id"])):
                raise Fault("id", place, call["id"], wanted="an id of this host's form")
        for key in _REASONING - {host.reasoning}:
            if key in message:
                raise Fault("key", ("messages", index, key), None)
    roles = [message["role"] for message in messages]
    turns = [role for role in roles if role != "system"]
    if host.system_first and "system" in roles[len(roles) - len(turns) :]:
        raise Fault("order", ("messages",), None, wanted="system messages at the beginning only")
    if host.roles_alternate and any(_is_twice(before, after) for before, after in pairwise(turns)):
        raise Fault("order", ("messages",), None, wanted="roles that alternate")
    if host.user_last and roles[-1] not in ("user", "tool"):
        raise Fault("order", ("messages",), None, wanted="the user at the end")


def _is_twice(before: str, after: str) -> bool:
    """Results of calls are one turn of the user, who does not speak again right behind them."""
    return before == after != "tool" or (before, after) == ("tool", "user")
