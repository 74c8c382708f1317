"""Fetch and check in one step: what is absent and what belongs to another resource raise the same NotFound."""

from __future__ import annotations

from memory.errors import Forbidden, NotFound
from memory.models import Agent, Run, Thread
from memory.principal import FELT_BY_ALL, PERMISSIONS, can_be_looked_up
from memory.principal import Principal as Principal
from memory.statements import load_row


def operator(username: str, role: str = "") -> Principal:
    """The principal of a dashboard user, or of a command; without a role it has no permission."""
    return Principal(username, role=role)


def require(caller: Principal, permission: str) -> None:
    """Raises Forbidden when neither the caller's key nor its role grants the permission."""
    if caller.may(permission):
        return
    if caller.key_id is None:
        what = PERMISSIONS.get(permission, "open this")
        held = f"your role, {caller.role}, does not let you" if caller.role else "you have no role that lets you"
        raise Forbidden(f"{held} {what}; an admin can change that")
    if permission == "token":
        why = "a token makes no further tokens" if caller.is_token else "this key has none of the scopes of tokens"
        raise Forbidden(why)
    if permission in FELT_BY_ALL and caller.resource_id:
        raise Forbidden("this would be felt by all, and this key is for one resource: it can't have the scope 'admin'")
    raise Forbidden(f"this key lacks the scope {permission!r}")


def thread_for(caller: Principal, thread_id: str) -> Thread:
    """The thread, if the caller may act for its resource. Raises NotFound."""
    thread = load_row(Thread, thread_id) if can_be_looked_up(thread_id) else None
    if thread is None or not caller.may_act_for(thread.resource_id):
        raise NotFound("no such thread")
    return thread


def run_for(caller: Principal, run_id: str) -> Run:
    """The run, if the caller may act for its resource. Raises NotFound."""
    run = load_row(Run, run_id) if can_be_looked_up(run_id) else None
    if run is None or not caller.may_act_for(run.resource_id):
        raise NotFound("no such run")
    return run


def agent_for(caller: Principal, agent_id: str) -> Agent:
    """The agent; agents belong to no resource, so every caller sees them all. Raises NotFound."""
    agent = load_row(Agent, agent_id) if can_be_looked_up(agent_id) else None
    if agent is None:
        raise NotFound("no such agent")
    return agent


def hide_content(caller: Principal, thread: Thread) -> Thread:
    """The thread as the caller may see it: without permission to read, without title, metadata's values, error's words.

    For showing only: it must not be saved.
    """
    if not caller.may("read"):
        thread.title, thread.last_error = "", thread.last_error.partition(":")[0]
        thread.metadata = dict.fromkeys(thread.metadata, "…")
    return thread
