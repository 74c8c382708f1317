"""What a processor is: an object with an id, a name and any of five hooks.

    process_input(args)          before the first call; edits the list. Asked again, with the same state, where a run
                                 is taken up after a wait or a report
    process_input_step(args)     before every call
    process_llm_request(args)    the converted prompt, just before the call; for this call only
    process_output_result(args)  once, after the run
    process_api_error(args)      after a failed call; may ask for another one

Hooks are plain functions that take one frozen Struct. None means "nothing to say". Source: the processor
specification's section 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from msgspec import Struct, field

from memory.errors import Tripwire
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.messages.prompt import Prompt
from memory.messages.stored import StoredMessage
from memory.processors.changes import Change, Finding

HOOKS = ("process_input", "process_input_step", "process_llm_request", "process_output_result", "process_api_error")
INPUT_HOOKS = HOOKS[:3]


class AbortSignal(Protocol):
    """Set when the run was cancelled; a `threading.Event` is one."""

    def is_set(self) -> bool: ...


def abort(reason: str = "stopped", *, retry: bool = False, metadata: Mapping[str, Any] | None = None) -> NoReturn:
    """End the run from inside a hook. `retry` and `metadata` travel with the Tripwire."""
    raise Tripwire(reason, retry=retry, metadata=metadata)


class Switches:
    """Which rules are `on`, `off` or only `report`. Without an entry a rule has its default state."""

    def __init__(self, states: Mapping[str, str] | None = None) -> None:
        self._states = dict(states or {})

    def state(self, rule: str, default: str = "on") -> str:
        return self._states.get(rule, default)

    def with_states(self, states: Mapping[str, str]) -> Switches:
        """These switches, overruled by others for one call."""
        return Switches({**self._states, **states})

    def as_dict(self) -> dict[str, str]:
        return dict(self._states)


class Args(Struct, frozen=True, kw_only=True):
    """What every hook gets. `state` is the processor's own dict, alive for the whole run."""

    message_list: MessageList = field(default_factory=MessageList)
    state: dict[str, Any] = field(default_factory=dict)
    request_context: Mapping[str, Any] = {}
    retry_count: int = 0
    abort: Callable[..., NoReturn] = abort
    tracing: Any = None


class ProcessInputArgs(Args, frozen=True, kw_only=True):
    messages: list[StoredMessage]
    system_messages: list[str] = []


class ProcessInputStepArgs(Args, frozen=True, kw_only=True):
    """`messages` are all messages of the list, `step_number` counts from 0."""

    messages: list[StoredMessage]
    step_number: int = 0
    steps: Sequence[Any] = ()
    model: Any = None
    tools: Sequence[Any] = ()
    tool_choice: Any = None
    active_tools: Sequence[str] | None = None
    provider_options: Mapping[str, Any] = {}
    model_settings: Mapping[str, Any] = {}


class ProcessLLMRequestArgs(Args, frozen=True, kw_only=True):
    """`prompt` is a Prompt or its JSON form; the hook answers in the same kind."""

    prompt: Prompt | list[dict[str, Any]]
    model: Any = None
    protocol: str = ""
    step_number: int = 0
    steps: Sequence[Any] = ()
    tool_names: Sequence[str] = ()
    """Names of the declared tools."""
    call_settings: Mapping[str, Any] = {}
    """Further settings of the call, in the protocol's spelling: what rules about the whole request look at."""
    switches: Switches = field(default_factory=Switches)


class TurnEnd(Struct, frozen=True, kw_only=True):
    """How a run ended, for output hooks: `finish_reason` is `error` for a failed one."""

    text: str = ""
    finish_reason: str = "stop"
    usage: Mapping[str, int] = {}
    steps: Sequence[Any] = ()


class ProcessOutputResultArgs(Args, frozen=True, kw_only=True):
    messages: list[StoredMessage]
    result: TurnEnd | None = None


class ProcessAPIErrorArgs(Args, frozen=True, kw_only=True):
    """`rule_counts`, given by the run loop, counts granted repairs per rule; without it `retry_count` decides."""

    error: Any
    messages: list[StoredMessage] = []
    model: Any = None
    protocol: str = ""
    tool_names: Sequence[str] = ()
    call_settings: Mapping[str, Any] = {}
    step_number: int = 0
    steps: Sequence[Any] = ()
    message_id: str = ""
    abort_signal: AbortSignal | None = None
    rule_counts: Mapping[str, int] | None = None
    switches: Switches = field(default_factory=Switches)


class PromptResult(Struct, frozen=True, kw_only=True):
    """A prompt for this call, with what was changed and what rules in state `report` would have changed.

    `tool_names` maps declared and called names to the ones that are sent, where they differ. `response` is a reply
    kept from before: it is taken, and no call is made. `needs` is what the call as a whole needs because of a rule:
    `declare_tools` (names), `without` (keys of the request), `thinking` (`off`).
    """

    prompt: Any
    changes: Sequence[Change] = ()
    findings: Sequence[Finding] = ()
    tool_names: Mapping[str, str] = {}
    needs: Mapping[str, Any] = {}
    response: Any = None


class Repair(Struct, frozen=True, kw_only=True):
    """A lasting repair: the changed messages as they should be stored."""

    rule: str
    reason: str
    messages: Sequence[StoredMessage]


class Retry(Struct, frozen=True, kw_only=True):
    """A processor asks for another attempt after `delay_ms`. Deciding only: the run loop does the waiting.

    `wanted_ms` is the wait the provider asked for before any cap. `allows_same_body`: send even an identical body
    again after a 4xx, because the operator's matcher or unknown-error policy asked for it.
    """

    delay_ms: float = 0
    reason: str = ""
    matched: str = ""
    wanted_ms: float | None = None
    allows_same_body: bool = False
    repair: Repair | None = None
    rule: str = ""


class PromptView(list[StoredMessage]):
    """An array a hook returns that is for the model's eyes only: the list, and so the store, keeps what it has."""


class Processor(Protocol):
    """The least every processor has; hooks are looked up by name."""

    id: str
    name: str


def has_hook(processor: Any, *names: str) -> bool:
    return any(callable(getattr(processor, name, None)) for name in names)


def model_text(model: Any) -> str:
    """A model in text form, for step markers and pages."""
    if isinstance(model, ModelRef):
        return str(model)
    if isinstance(model, Mapping):
        return f"{model.get('provider', '')}/{model.get('modelId', '')}".strip("/")
    return model if isinstance(model, str) else ""
