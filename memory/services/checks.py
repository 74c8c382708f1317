"""What a target would refuse of a stored thread, or of messages that are given: told without a call or a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.access import Principal, agent_for, thread_for
from memory.check import Finding, check
from memory.errors import InvalidInput
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.messages.stored import StoredMessage
from memory.models import Agent
from memory.services.calls import settings_for, tools_from
from memory.services.connections import connection_for, target_model
from memory.services.preview import checked_messages, decoded_body
from memory.store import DjangoStorage


class Checked(Struct, frozen=True):
    """The findings for a target, in the order of the messages."""

    provider: str
    model: str
    protocol: str
    findings: Sequence[Finding]


def check_history(
    caller: Principal,
    *,
    thread_id: str | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    imported: tuple[str, Mapping[str, Any]] | None = None,
    provider: str | None = None,
    model: str | None = None,
    agent_id: str | None = None,
) -> Checked:
    """What the target would refuse of a stored thread, of messages, or of a request body of some protocol.

    The target is a provider and model, else an agent's. An agent brings its instructions, tools and settings, in place
    of those that came with the history. Raises InvalidInput, NotFound.
    """
    if sum(source is not None for source in (thread_id, messages, imported)) != 1:
        raise InvalidInput("give exactly one of thread_id and messages", field="thread_id", code="one_source")
    agent = agent_for(caller, agent_id) if agent_id else None
    ref = _target(provider, model, agent)
    protocol = connection_for(ref.provider, with_key=False).protocol
    name, system, settings = "", list[str](), settings_for(ref)
    if thread_id is not None:
        thread = thread_for(caller, thread_id)
        name, system = thread.id, list(thread.imported.get("system") or [])
        settings = replace(settings, tools=tools_from(thread.imported.get("tools")))
        stored = DjangoStorage().load_messages(thread.id, None, last=None)
    elif imported is not None:
        system, read, stored = decoded_body(imported)
        settings = replace(settings, tools=read.tools, extra=read.extra if imported[0] == protocol else {})
    else:
        stored = _listed(messages or [])
    if agent is not None:
        system = [agent.instructions] if agent.instructions else []
        settings = settings_for(ref, agent.settings, tools=agent.tools)
    names = [tool.name for tool in settings.tools if tool.raw is None]
    found = check(name, stored, ref, system=system, protocol=protocol, tool_names=names, settings=settings.extra)
    return Checked(ref.provider, ref.model_id, protocol, found)


def _target(provider: str | None, model: str | None, agent: Agent | None) -> ModelRef:
    if provider is None and model is None and agent is not None:
        return target_model(agent.model)
    if provider is None or model is None:
        missing = "provider" if provider is None else "model"
        raise InvalidInput("give a provider and a model, or an agent_id", field=missing)
    return target_model(f"{provider}/{model}")


def _listed(messages: Sequence[Mapping[str, Any]]) -> list[StoredMessage]:
    listed = MessageList()
    listed.add(checked_messages(messages), "memory")
    return listed.messages
