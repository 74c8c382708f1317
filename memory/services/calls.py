"""One agent's call of one model: which processors, which settings, which bytes; the same for preview and run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import msgspec
from django.conf import settings as django_settings
from django.utils.module_loading import import_string
from msgspec import Struct
from msgspec.structs import replace

from memory.errors import InvalidInput, ProviderError
from memory.messages.halves import read_mended
from memory.messages.names import ModelRef, model_ref
from memory.messages.prompt import Part, ToolCall
from memory.models import Agent
from memory.processors import Chain, HistoryStorage, PromptResult, Switches
from memory.processors.base import model_text
from memory.processors.chain import StepSettings
from memory.processors.compat.catalogue import rule_ids
from memory.processors.config import build_lists, default_lists
from memory.providers import wire_module
from memory.providers.calls import request_for
from memory.providers.http import Client, Connection, Exchange, Stream
from memory.providers.wire import Chunk, Encoded, Finished, Reply, Settings, Tool, Usage
from memory.services.connections import connection_for
from memory.services.rules import switches_for


def own_processors() -> dict[str, type]:
    """Processor classes of this installation, by id."""
    classes = [import_string(path) for path in django_settings.COMPAT_ADMIN_PROCESSORS]
    return {cls.id: cls for cls in classes}


def chain_for(
    agent: Agent | None,
    *,
    provider: str,
    storage: HistoryStorage,
    thread_id: str | None,
    resource_id: str | None,
    rules: Mapping[str, str] | None = None,
    state: dict[str, dict[str, Any]] | None = None,
    counts: dict[str, int] | None = None,
    read_only: bool = False,
) -> Chain:
    """An agent's processors, ready for one run; without an agent the default ones.

    `rules` overrules switches for this call, by rule id or family. Raises InvalidInput for a name nobody knows.
    """
    lists = default_lists()
    if agent is not None:
        lists = {
            "input_processors": agent.input_processors,
            "output_processors": agent.output_processors,
            "error_processors": agent.error_processors,
        }
    memory: dict[str, Any] = {"memoryConfig": {"readOnly": read_only}}
    if thread_id is not None:
        memory |= {"thread": {"id": thread_id}, "resourceId": resource_id}
    switches = Switches(switches_for(provider, agent.id if agent else None))
    built = build_lists(lists, storage=storage, extra=own_processors())
    return Chain(
        input=built["input"],
        output=built["output"],
        error=built["error"],
        request_context={"MastraMemory": memory},
        switches=switches.with_states(_states(rules or {})),
        state=state,
        counts=counts,
    )


def _states(rules: Mapping[str, str]) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, state in rules.items():
        if state not in ("on", "off", "report"):
            raise InvalidInput("expected on, off or report", field=f"rules.{name}")
        out.update(dict.fromkeys(rule_ids(name), state))
    return out


# Settings


class _GivenSettings(Struct, forbid_unknown_fields=True):
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: list[str] = []
    extra: dict[str, Any] = {}


def settings_for(
    model: ModelRef,
    *given: Mapping[str, Any] | None,
    tools: Any = None,
    tool_choice: Any = None,
) -> Settings:
    """Settings of a call; later ones of `given` win. Raises InvalidInput naming the field."""
    merged: dict[str, Any] = {}
    for values in given:
        if values is not None and not isinstance(values, Mapping):
            raise InvalidInput("expected an object", field="settings")
        merged |= values or {}
    try:
        checked = msgspec.convert(merged, _GivenSettings)
    except msgspec.ValidationError as error:
        raise InvalidInput(str(error), field="settings") from error
    return Settings(
        model_id=model.model_id,
        max_tokens=checked.max_tokens,
        temperature=checked.temperature,
        top_p=checked.top_p,
        stop=tuple(checked.stop),
        tools=tools_from(tools),
        tool_choice=_tool_choice(tool_choice),
        extra=checked.extra,
    )


def tools_from(values: Any) -> tuple[Tool, ...]:
    """Declared tools from their data form `{name, description?, parameters?}`. Raises InvalidInput with the place."""
    if values is None:
        return ()
    if not isinstance(values, list | tuple):
        raise InvalidInput("expected a list of tools", field="tools")
    out = []
    for i, value in enumerate(values):
        if isinstance(value, Tool):
            out.append(value)
            continue
        try:
            tool = msgspec.convert(value, Tool)
        except msgspec.ValidationError as error:
            raise InvalidInput(str(error), field=f"tools[{i}]") from error
        if not tool.name and tool.raw is None:
            raise InvalidInput("a tool needs a name", field=f"tools[{i}].name")
        out.append(tool)
    return tuple(out)


def _tool_choice(value: Any) -> Any:
    if value in (None, "auto", "none", "required"):
        return value
    if isinstance(value, Mapping) and value.get("type") == "tool" and isinstance(value.get("toolName"), str):
        return dict(value)
    message = 'expected auto, none, required or {"type": "tool", "toolName": …}'
    raise InvalidInput(message, field="tool_choice")


# The model behind a connection


OnChunk = Callable[[Chunk], None]
OnOpen = Callable[[Stream], None]


class Outbound(Struct, frozen=True):
    """A request as it goes out; `renamed` maps sent tool names back to the declared ones."""

    encoded: Encoded
    body: bytes
    renamed: Mapping[str, str]


class Answer(Struct, frozen=True):
    """A reply with the exchange it came in."""

    parts: tuple[Part, ...]
    finish_reason: str
    usage: Usage
    response_id: str
    model_id: str
    exchange: Exchange


class ProviderModel:
    """A model that is called over a connection.

    `client` is needed for sending only. With `is_streamed` it asks for streamed answers.
    """

    def __init__(
        self,
        connection: Connection,
        ref: ModelRef,
        settings: Settings,
        client: Client | None = None,
        *,
        is_streamed: bool = False,
    ) -> None:
        self.connection, self.ref, self.settings = connection, ref, settings
        self.is_streamed = is_streamed
        self.protocol = connection.protocol
        self._wire = wire_module(connection.protocol)
        self._client = client

    @property
    def tool_names(self) -> Sequence[str]:
        return [tool.name for tool in self.settings.tools if tool.raw is None]

    @property
    def call_settings(self) -> Mapping[str, Any]:
        """Further keys of the request, which rules about the whole request look at."""
        return self.settings.extra

    def for_step(self, asked: StepSettings) -> Self:
        """This model as a step hook wants it for one call. What the hook left alone stays.

        Model settings are those of an agent, provider options further keys of the request under the provider's id.
        Raises InvalidInput for a model without a connection, and for settings that can't be.
        """
        ref = asked.model if isinstance(asked.model, ModelRef) else model_ref(model_text(asked.model))
        connection = self.connection
        if ref != self.ref:
            connection = connection_for(ref.provider, with_key=self._client is not None, model_id=ref.model_id)
        kept = self.settings
        base: dict[str, Any] = {"max_tokens": kept.max_tokens, "temperature": kept.temperature, "top_p": kept.top_p}
        base |= {"stop": list(kept.stop), "extra": dict(kept.extra)}
        settings = settings_for(ref, base, asked.model_settings, tools=asked.tools or kept.tools)
        if asked.active_tools is not None:
            active = tuple(tool for tool in settings.tools if tool.name in asked.active_tools)
            settings = replace(settings, tools=active)
        choice = kept.tool_choice if asked.tool_choice is None else _tool_choice(asked.tool_choice)
        own = asked.provider_options.get(ref.provider)
        extra = {**settings.extra, **own} if isinstance(own, Mapping) else settings.extra
        settings = replace(settings, tool_choice=choice, extra=extra)
        return type(self)(connection, ref, settings, self._client, is_streamed=self.is_streamed)

    def encode(self, result: PromptResult) -> Outbound:
        """The exact bytes for a prompt, with tools declared under the names the history has them."""
        provider, names = self.ref.provider, result.tool_names
        encoded = request_for(
            provider, self.protocol, result.prompt, self.settings, tool_names=names, needs=result.needs
        )
        if self.is_streamed:
            encoded = self._wire.as_stream(encoded, provider=provider)
        return Outbound(encoded, encoded.body, {new: old for old, new in names.items()})

    def send(self, request: Outbound, *, on_chunk: OnChunk | None = None, on_open: OnOpen | None = None) -> Answer:
        """The answer. `on_chunk` gets each piece of a streamed one, `on_open` what can cancel the call.

        Raises ProviderError.
        """
        if self._client is None:
            raise RuntimeError("this model is for looking only")
        stream = self._client.stream(self.connection, request.encoded)
        if on_open is not None:
            on_open(stream)
        with stream as answer:
            is_stream = (
                self.is_streamed and answer.status == 200 and "json" not in answer.headers.get("content-type", "")
            )
            if not is_stream:
                return self.read(answer.exchange(), request)
            came = Exchange(answer.status, answer.headers, b"", answer.started_at, time.time())
            return self.read_stream(answer, came, request, on_chunk=on_chunk)

    def read_stream(
        self, pieces: Iterable[bytes], came: Exchange, request: Outbound, *, on_chunk: OnChunk | None = None
    ) -> Answer:
        """The answer in a stream, whose head is that of `came`. Raises ProviderError, with what had come so far."""
        kept: list[bytes] = []
        try:
            for chunk in self._wire.decode_stream(_kept(pieces, kept), provider=self.ref.provider):
                if isinstance(chunk, Finished):
                    came = Exchange(came.status, came.headers, b"".join(kept), came.started_at, time.time())
                    return _answer(chunk.reply, came, request.renamed)
                if on_chunk is not None:
                    on_chunk(chunk)
        except ProviderError as error:
            error.received = b"".join(kept)
            raise
        raise RuntimeError("a stream ends with its reply or an error")

    def stream_of(self, events: Iterable[Mapping[str, Any]]) -> bytes:
        """The bytes of a stream, for `read_stream`, from events that somebody has read. Raises InvalidInput."""
        return self._wire.stream_of(events)

    def read(self, exchange: Exchange, request: Outbound) -> Answer:
        """The answer in an exchange. Raises ProviderError, also for one that can't be read."""
        if exchange.status >= 400:
            raise self.error_in(exchange)
        try:
            body = read_mended(exchange.body)
        except InvalidInput as error:
            raise self._unreadable(exchange, str(error)) from error
        if not isinstance(body, Mapping):
            raise self._unreadable(exchange, "not an object")
        if body.get("error") and not any(key in body for key in ("content", "choices")):
            raise self.error_in(exchange)
        try:
            reply = self._wire.decode_reply(body, provider=self.ref.provider)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._unreadable(exchange, f"{type(error).__name__}: {error}") from error
        return _answer(reply, exchange, request.renamed)

    def error_in(self, exchange: Exchange) -> ProviderError:
        """What an exchange says instead of an answer."""
        return self._wire.decode_error(exchange.status, exchange.headers, exchange.text, provider=self.ref.provider)

    def _unreadable(self, exchange: Exchange, what: str) -> ProviderError:
        return ProviderError(
            f"{self.ref.provider} answered with something that can't be read ({what})",
            status=exchange.status,
            error_class="transient",
            is_retryable=True,
            response_headers=exchange.headers,
            response_body=exchange.text,
        )


def _kept(pieces: Iterable[bytes], kept: list[bytes]) -> Iterator[bytes]:
    """The pieces as they come, each put on the list."""
    for piece in pieces:
        kept.append(piece)
        yield piece


def _answer(reply: Reply, exchange: Exchange, renamed: Mapping[str, str]) -> Answer:
    parts = tuple(
        replace(part, name=renamed[part.name]) if isinstance(part, ToolCall) and part.name in renamed else part
        for part in reply.parts
    )
    return Answer(parts, reply.finish_reason, reply.usage, reply.response_id, reply.model_id, exchange)
