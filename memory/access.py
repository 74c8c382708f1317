"""Fetch and check in one step: what is absent and what belongs to another resource raise the same NotFound."""

from __future__ import annotations

from memory.errors import Forbidden, NotFound
from memory.models import Agent, Run, Thread
from memory.principal import Principal as Principal
from memory.principal import can_be_looked_up
from memory.statements import load_row


def operator(username: str) -> Principal:
    """The principal of a dashboard user."""
    return Principal(username, is_operator=True)


def require(caller: Principal, scope: str) -> None:
    """Raises Forbidden when the caller's key lacks the scope."""
    if not caller.has_scope(scope):
        raise Forbidden(f"this key lacks the scope {scope!r}")


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
