"""What would be sent: the whole pipeline without the call. Nothing is called, nothing is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.access import Principal, agent_for, thread_for
from memory.errors import EncodingError, InvalidInput
from memory.messages.from_prompt import from_prompt
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.messages.prompt import prompt_to_json
from memory.messages.stored import StoredMessage, check_content
from memory.models import Agent
from memory.processors import Chain, MemoryStorage, PromptResult
from memory.processors.calls import Call
from memory.processors.chain import StepSettings
from memory.processors.changes import Finding, Placed, place_changes
from memory.processors.compat.catalogue import FAMILIES
from memory.providers import wire_module
from memory.providers.http import headers_for, url_for
from memory.providers.wire import Encoded, Settings, Tool
from memory.services.calls import ProviderModel, chain_for, settings_for, tools_from
from memory.services.connections import connection_for, target_model
from memory.store import DjangoStorage


class PreviewedRequest(Struct, frozen=True):
    """The request as it would go out; headers without the key."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    size_bytes: int


class Preview(Struct, frozen=True, kw_only=True):
    """Stored beside sent. `landed` names the wire messages that each stored message became, by its id."""

    provider: str
    model: str
    protocol: str
    prompt: list[dict[str, Any]]
    request: PreviewedRequest
    changes: Sequence[Placed]
    findings: Sequence[Finding]
    messages: Sequence[StoredMessage]
    landed: Mapping[str, Sequence[str]]
    system_texts: Sequence[str]


def preview(
    caller: Principal,
    *,
    thread_id: str | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    imported: tuple[str, Mapping[str, Any]] | None = None,
    provider: str,
    model: str,
    agent_id: str | None = None,
    settings: Mapping[str, Any] | None = None,
    rules: Mapping[str, str] | None = None,
    last: int | None = None,
) -> Preview:
    """The request that an agent (none: the default processors) would make of a history for a target.

    The history is a stored thread, a list of messages, or a request body of some protocol: exactly one of them.
    `last` shortens it to its newest messages. Raises InvalidInput, NotFound.
    """
    if sum(source is not None for source in (thread_id, messages, imported)) != 1:
        message = "give exactly one of thread_id, messages, or format with body"
        raise InvalidInput(message, field="thread_id", code="one_source")
    ref = target_model(f"{provider}/{model}")
    agent = agent_for(caller, agent_id) if agent_id else None
    connection = connection_for(ref.provider, with_key=False)
    read: Settings | None = None
    read_from = ("", "")
    listed = MessageList()
    storage: Any = MemoryStorage()
    if thread_id is not None:
        thread = thread_for(caller, thread_id)
        listed = MessageList(thread_id=thread.id, resource_id=thread.resource_id)
        storage = _Window(DjangoStorage(), last)
        given = thread.imported if agent is None else None
        system, read, read_from = _as_imported(given)
    elif imported is not None:
        read_from = (imported[0], "")
        system, read, stored = decoded_body(imported)
        listed.add(stored[-last:] if last else stored, "memory")
    else:
        system = []
        listed.add(checked_messages(messages or []), "memory")
    if agent is not None:
        system = [agent.instructions] if agent.instructions else []
    for text in system:
        listed.add_system(text)
    chain = chain_for(
        agent,
        provider=ref.provider,
        storage=storage,
        thread_id=listed.thread_id,
        resource_id=listed.resource_id,
        rules=rules,
        read_only=True,
    )
    if read is not None and (read_from[0] != connection.protocol or read_from[1] not in ("", ref.provider)):
        read = _portable(read)
    return show(chain, listed, ProviderModel(connection, ref, _settings(ref, agent, read, settings)))


def show(chain: Chain, listed: MessageList, target: ProviderModel) -> Preview:
    """The request of a run's first call, with the processors' hooks asked as a run asks them.

    Raises InvalidInput (cannot_encode) when the protocol has no place for something in it.
    """
    ref, connection = target.ref, target.connection
    chain.process_input(listed)
    settings = StepSettings(model=ref)
    chain.process_input_step(listed, settings, step_number=0)
    if settings != StepSettings(model=ref):
        target = target.for_step(settings)
        ref, connection = target.ref, target.connection
    result = chain.process_llm_request(
        listed.to_prompt(),
        listed,
        model=ref,
        protocol=connection.protocol,
        tool_names=target.tool_names,
        call_settings=target.call_settings,
    )
    try:
        encoded = target.encode(result).encoded
    except EncodingError as error:
        raise InvalidInput(str(error), field="messages", code="cannot_encode") from error
    return _shown(target, result, encoded, listed)


def shown_call(call: Call, listed: MessageList) -> Preview:
    """The call of a run, as a preview shows one."""
    assert isinstance(call.model, ProviderModel)
    return _shown(call.model, call.result, call.request.encoded, listed)


def _shown(target: ProviderModel, result: PromptResult, encoded: Encoded, listed: MessageList) -> Preview:
    ref, connection, body = target.ref, target.connection, encoded.body
    return Preview(
        provider=ref.provider,
        model=ref.model_id,
        protocol=connection.protocol,
        prompt=prompt_to_json(result.prompt),
        request=PreviewedRequest(
            "POST", url_for(connection, encoded), headers_for(connection, with_key=False), body, len(body)
        ),
        changes=placed(result, listed.messages, encoded),
        findings=list(result.findings),
        messages=listed.messages,
        landed=_landed(result, encoded),
        system_texts=listed.system_texts,
    )


def placed(result: PromptResult, stored: Sequence[StoredMessage], encoded: Encoded) -> list[Placed]:
    """The changes of a prompt with their numbers and places."""
    return place_changes(
        list(result.changes), stored=list(stored), prompt=result.prompt, places=encoded.places, families=FAMILIES
    )


def _landed(result: PromptResult, encoded: Encoded) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for i, message in enumerate(result.prompt.messages):
        pointers = [pointer for j in range(-1, len(message.parts)) if (pointer := encoded.places.get((i, j)))]
        for pointer in pointers:
            whole = "/".join(pointer.split("/")[:3])
            if whole not in out.setdefault(message.id, []):
                out[message.id].append(whole)
    return out


class _Window:
    """A storage that gives at most the newest `last` messages."""

    def __init__(self, storage: DjangoStorage, last: int | None) -> None:
        self._storage, self._last = storage, last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def load_messages(self, thread_id: str, resource_id: str | None, *, last: int | None) -> list[StoredMessage]:
        limits = [limit for limit in (last, self._last) if limit is not None]
        return self._storage.load_messages(thread_id, resource_id, last=min(limits) if limits else None)


def checked_messages(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The messages, each with an id. Raises InvalidInput with every place that does not fit."""
    errors = []
    out = []
    for i, message in enumerate(messages):
        place = f"messages[{i}]"
        if isinstance(message, Mapping) and isinstance(message.get("content"), Mapping):
            errors += check_content(message["content"], f"{place}.content")
        out.append({"id": f"m{i + 1}", **message} if isinstance(message, Mapping) else message)
    if errors:
        raise InvalidInput("some messages can't be read", errors=tuple(errors))
    return out


def decoded_body(imported: tuple[str, Mapping[str, Any]]) -> tuple[list[str], Settings, list[StoredMessage]]:
    """System texts, settings and stored messages of a provider's own request body. Raises InvalidInput."""
    protocol, body = imported
    if not isinstance(body, Mapping):
        raise InvalidInput("expected a request body", field="body")
    try:
        wire = wire_module(protocol)
    except InvalidInput as error:
        raise InvalidInput(str(error), field="format", code=error.code) from error
    read = wire.decode_request(body, provider="")
    system = [message.text for message in read.prompt.messages if message.role == "system"]
    stored = from_prompt(read.prompt)
    return system, read.settings, [{"id": f"m{i + 1}", **message} for i, message in enumerate(stored)]


def _as_imported(given: Mapping[str, Any] | None) -> tuple[list[str], Settings | None, tuple[str, str]]:
    """System texts and settings that came with an imported thread, and from which protocol and provider."""
    if not given:
        return [], None, ("", "")
    read = Settings(tools=tools_from(given.get("tools")))
    return list(given.get("system") or []), read, (str(given.get("protocol")), str(given.get("provider")))


def _portable(read: Settings) -> Settings:
    """What another protocol can take over: no tools that a provider runs itself, no keys of the protocol's own."""
    tools = tuple(Tool(tool.name, tool.description, tool.parameters) for tool in read.tools if tool.raw is None)
    choice = read.tool_choice
    if isinstance(choice, Mapping) and choice.get("toolName") not in {tool.name for tool in tools}:
        choice = None
    return replace(read, tools=tools, tool_choice=choice, extra={})


def _settings(ref: ModelRef, agent: Agent | None, read: Settings | None, given: Mapping[str, Any] | None) -> Settings:
    values = dict(given or {})
    tools, choice = values.pop("tools", None), values.pop("tool_choice", None)
    if agent is not None:
        return settings_for(ref, agent.settings, values, tools=tools or agent.tools, tool_choice=choice)
    if read is None:
        return settings_for(ref, values, tools=tools, tool_choice=choice)
    base = {
        name: value for name in ("max_tokens", "temperature", "top_p") if (value := getattr(read, name)) is not None
    }
    base |= {"stop": list(read.stop), "extra": dict(read.extra)}
    if tools is None:
        tools, choice = read.tools, choice or read.tool_choice
    return settings_for(ref, base, values, tools=tools, tool_choice=choice)
