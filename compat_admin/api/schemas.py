"""What callers send and get, field by field. A field that is not named here is refused."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec import field as msgspec_field
from pydantic import Field

from memory.queries import MAX_LIMIT, KeyItem, RuleSettingItem, RunItem
from memory.services.keys import TOKEN_S
from memory.services.rules import State

T = TypeVar("T")

Fields = Annotated[
    str,
    Field(
        max_length=1000,
        description="Names of an item's fields, separated by commas: only these are read and given. Leaves bodies out.",
    ),
]
Seq = Annotated[int, Field(ge=0, le=2**31 - 1)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Items of a page.")]

JsonObject = dict[str, Any]
GivenId = Annotated[str, Meta(min_length=1)]
Status = Annotated[int, Meta(ge=100, le=599)]


class Answer(Struct, Generic[T], frozen=True):
    """All there is of something that has no pages."""

    items: list[T]


# Threads and messages


class NewThread(Struct, frozen=True, forbid_unknown_fields=True):
    """A thread to be made. The id is made up where none is given, the resource is then the key's own."""

    resource_id: str = ""
    id: GivenId | None = None
    title: str = ""
    metadata: JsonObject = {}
    agent_id: str | None = None


class ThreadChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields to replace, metadata as a whole."""

    title: str | UnsetType = UNSET
    metadata: JsonObject | UnsetType = UNSET
    agent_id: str | UnsetType | None = UNSET


class ThreadClone(Struct, frozen=True, forbid_unknown_fields=True):
    """How a copy differs from its source. `up_to` is the id of the last message to copy, `last` how many at most."""

    id: GivenId | None = None
    resource_id: str = ""
    title: str | None = None
    metadata: JsonObject = {}
    up_to: str | None = None
    last: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class NewMessages(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages in stored form, or in prompt form: `content` is a text or a list of prompt parts."""

    messages: Annotated[list[JsonObject], Meta(min_length=1)]


class StoredMessage(Struct, frozen=True):
    """A message as it is stored; `content` is the row's text, key by key as it came."""

    id: str
    role: str
    createdAt: str
    threadId: str
    resourceId: str
    type: str
    content: Raw
    seq: int
    version: int


class SavedMessage(Struct, frozen=True):
    """Where a message is stored."""

    id: str
    seq: int
    version: int


class Revert(Struct, frozen=True, forbid_unknown_fields=True):
    """The version whose text a message is to have again."""

    version: Annotated[int, Meta(ge=1, le=2**31 - 1)]


# Agents and providers


class NewAgent(Struct, frozen=True, forbid_unknown_fields=True):
    """An agent to be made. Without any list it gets the default processors, which then stand in its row."""

    name: str
    model: str
    id: GivenId | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    tools: list[JsonObject] | UnsetType = UNSET
    settings: JsonObject | UnsetType = UNSET
    input_processors: list[str | JsonObject] | UnsetType = UNSET
    output_processors: list[str | JsonObject] | UnsetType = UNSET
    error_processors: list[str | JsonObject] | UnsetType = UNSET
    processors: list[str | JsonObject] | UnsetType = UNSET
    max_steps: int | UnsetType = UNSET
    max_processor_retries: int | UnsetType | None = UNSET
    model_max_retries: int | UnsetType = UNSET
    fallback_models: list[str] | UnsetType = UNSET
    capture: Literal["full", "changes", "off"] | UnsetType = UNSET


class AgentChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of an agent to replace."""

    name: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    tools: list[JsonObject] | UnsetType = UNSET
    settings: JsonObject | UnsetType = UNSET
    input_processors: list[str | JsonObject] | UnsetType = UNSET
    output_processors: list[str | JsonObject] | UnsetType = UNSET
    error_processors: list[str | JsonObject] | UnsetType = UNSET
    processors: list[str | JsonObject] | UnsetType = UNSET
    max_steps: int | UnsetType = UNSET
    max_processor_retries: int | UnsetType | None = UNSET
    model_max_retries: int | UnsetType = UNSET
    fallback_models: list[str] | UnsetType = UNSET
    capture: Literal["full", "changes", "off"] | UnsetType = UNSET


class AgentItem(Struct, frozen=True):
    """An agent: model, instructions, tools its callers execute, three processor lists, limits."""

    id: str
    name: str
    model: str
    instructions: str
    tools: list[Any]
    settings: JsonObject
    input_processors: list[Any]
    output_processors: list[Any]
    error_processors: list[Any]
    max_steps: int
    max_processor_retries: int | None
    model_max_retries: int
    fallback_models: list[str]
    capture: str
    created_at: datetime
    updated_at: datetime
    worst_case: str
    """How many provider calls one request can become, in words."""


class NewProvider(Struct, frozen=True, forbid_unknown_fields=True):
    """A connection for a provider. What is not given is as at its vendor.

    `key_ref` is `env:NAME`, `file:/path`, `aws:`, `aws:PROFILE` or `google:`; a key itself is refused.
    """

    id: str
    base_url: str | UnsetType = UNSET
    protocol: str | UnsetType = UNSET
    key_ref: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET


class ProviderChange(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields of a connection to replace, headers as a whole."""

    base_url: str | UnsetType = UNSET
    protocol: str | UnsetType = UNSET
    key_ref: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET


# Keys

KeyKind = Literal["key", "token"]
Scope = Literal["read", "write", "run", "admin"]


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key to be made. Without a resource it may act for any, without an expiry it lasts until it is revoked."""

    name: str
    scopes: list[Scope]
    resource_id: str = ""
    expires_in_s: int | None = None


class NewToken(Struct, frozen=True, forbid_unknown_fields=True):
    """A token to be made: for a resource, by default the key's own, with all of its scopes that a token can have."""

    resource_id: str = ""
    scopes: list[Literal["read", "write", "run"]] | None = None
    expires_in_s: int = TOKEN_S
    name: str = ""


class MadeKey(KeyItem, frozen=True):
    """A new key with its text, which can't be had again."""

    key: str


# Rules


class RuleItem(Struct, frozen=True):
    """A rule. `state` is what counts where no provider or agent has a switch of its own."""

    id: str
    family: str
    provider: str
    title: str
    acts: str
    confidence: str
    why: str
    default: str
    state: str
    switches: list[RuleSettingItem]


class RuleChange(Struct, frozen=True, forbid_unknown_fields=True):
    """A state for everybody, or for a provider or an agent; `default` takes the switch away."""

    state: State | Literal["default"]
    provider: str | None = None
    agent_id: str | None = None


# Previews and runs


class Imported(Struct, frozen=True, forbid_unknown_fields=True):
    """A provider's own request body."""

    format: str
    body: JsonObject


class PreviewWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """A history, from a stored thread or given here, and the provider and model it is to be written for."""

    provider: str
    model: str
    thread_id: str | None = None
    messages: list[JsonObject] | Imported | None = None
    format: str | None = None
    body: JsonObject | None = None
    """With `format`: a provider's own request body, as in `messages`."""
    agent_id: str | None = None
    settings: JsonObject | None = None
    rules: dict[str, State] | None = None


class PreviewedRequest(Struct, frozen=True):
    """The call as it would be made, without its key."""

    method: str
    url: str
    headers: dict[str, str]
    body: Raw
    size_bytes: int


class PreviewedChange(Struct, frozen=True):
    """A change by a rule; `stored` and `sent` are JSON pointers into the stored messages and the request's body."""

    number: int
    rule: str
    family: str
    severity: str
    stored: str | None
    sent: str | None
    message_id: str
    before: Any
    after: Any
    reason: str
    loss: str


class PreviewedFinding(Struct, frozen=True):
    """A change that was not made, because its rule only reports."""

    rule: str
    place: str
    severity: str
    reason: str
    would_do: str


class PreviewAnswer(Struct, frozen=True):
    """What a call would send, and every change to get there."""

    provider: str
    model: str
    protocol: str
    prompt: list[JsonObject]
    request: PreviewedRequest
    changes: list[PreviewedChange]
    findings: list[PreviewedFinding]


class CheckWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """A history, from a stored thread or given here, and who is to take it: a provider and model, or an agent's."""

    provider: str | None = None
    model: str | None = None
    agent_id: str | None = None
    thread_id: str | None = None
    messages: list[JsonObject] | Imported | None = None


class CheckFinding(Struct, frozen=True):
    """One fault of the history for the target, and what mending it would lose.

    `message` counts from 1 and 0 is the request as a whole; `place` is a JSON pointer into the stored messages.
    """

    rule: str
    family: str
    severity: str
    loss: str
    message: int
    message_id: str
    role: str
    place: str
    reason: str


class CheckAnswer(Struct, frozen=True):
    """What the target would refuse of the history as it is; `breaks` says whether it would refuse any of it."""

    provider: str
    model: str
    protocol: str
    breaks: bool
    findings: list[CheckFinding]


class GenerateWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """A turn: a text or messages, in stored or prompt form. `background` answers at once and runs later.

    `when_busy`: while the thread has a run that is not over, `refuse` (409) or `queue` behind it.
    """

    messages: str | list[JsonObject]
    thread_id: str | None = None
    resource_id: str | None = None
    model: str | None = None
    settings: JsonObject | None = None
    tools: list[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    background: bool = False
    when_busy: Literal["refuse", "queue"] = "refuse"


class PrepareWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """A turn whose calls its caller makes itself; with `stream` the request asks for a streamed reply."""

    messages: str | list[JsonObject]
    thread_id: str | None = None
    resource_id: str | None = None
    model: str | None = None
    settings: JsonObject | None = None
    tools: list[JsonObject] | None = None
    tool_choice: str | JsonObject | None = None
    stream: bool = False


class ReplyReport(Struct, frozen=True, forbid_unknown_fields=True):
    """What came back from a provider: exactly one of its JSON, the text of its stream, the events that the vendor's
    client made of the stream, and messages.

    `attempt` is the number of the call it answers; without it the open one. `headers` are the reply's.
    """

    reply: JsonObject | None = None
    stream: str | None = None
    events: list[JsonObject] | None = None
    messages: list[JsonObject] | None = None
    status: Status = 200
    headers: dict[str, str] = {}
    attempt: int | None = None


class ErrorReport(Struct, frozen=True, forbid_unknown_fields=True):
    """What came instead of a reply. Without a status no answer came, and `body` says why, such as `ECONNRESET`."""

    status: Status | None = None
    headers: dict[str, str] = {}
    body: str | JsonObject | list[Any] | None = None
    attempt: int | None = None


class PreparedAnswer(Struct, frozen=True):
    """A run whose call its caller makes itself, and the request to send."""

    run_id: str
    thread_id: str
    prepared: PreviewAnswer


class CalledTool(Struct, frozen=True):
    """A tool call that the caller is asked to execute."""

    id: str
    name: str
    arguments: Any


class GenerateAnswer(Struct, frozen=True):
    """A finished turn."""

    run_id: str
    thread_id: str | None
    status: str
    text: str
    finish_reason: str
    tool_calls: list[CalledTool]
    usage: JsonObject
    attempt_count: int
    message_ids: list[str]


class ReportAnswer(Struct, frozen=True):
    """What to do after a report: with `retry` send `request` after `delay_ms`; else the run is over.

    `attempt` is the number of the call that is open then. `result` is there when the turn was answered.
    """

    run_id: str
    status: str
    retry: bool
    delay_ms: float
    reason: str
    attempt: int
    request: PreviewedRequest | UnsetType = UNSET
    changes: list[PreviewedChange] | UnsetType = UNSET
    result: GenerateAnswer | UnsetType = UNSET


class QueuedRun(Struct, frozen=True):
    """A turn that will be run. Its address is in the header `Location`."""

    run_id: str
    thread_id: str | None
    status: Literal["queued"]


class CancelledRun(Struct, frozen=True):
    """A run that ends: `status` is what it is now, `cancelled` once the process that has it has noticed."""

    run_id: str
    status: str


class SentRequest(Struct, frozen=True):
    """What an attempt sent; `body` holds the very bytes, null where none were kept. `problem` says why, where these are
    not the bytes of the hash."""

    headers: JsonObject
    body: Raw
    size_bytes: int
    sha256: str
    problem: str


class SeenResponse(Struct, frozen=True):
    """What came back; a `body` that is no JSON comes as a text."""

    headers: JsonObject
    body: Raw
    size_bytes: int


class AttemptAnswer(Struct, frozen=True):
    """One call to a provider and what was decided after it. Times ending in `_ms` are milliseconds."""

    number: int
    provider: str
    protocol: str
    model_id: str
    url: str
    request: SentRequest
    changes: Raw
    findings: Raw
    status: int | None
    response: SeenResponse
    provider_request_id: str
    error_class: str
    error_message: str
    decision: str
    reason: str
    asked_by: str
    matched: str
    delay_wanted_ms: float | None
    delay_granted_ms: float | None
    slept_ms: float | None
    usage: JsonObject
    started_at: datetime
    finished_at: datetime | None


class RunAnswer(RunItem, frozen=True):
    """A run with its input and its attempts in order. `removed_at`: when its bodies and events were removed."""

    input: Raw
    settings: Raw
    message_ids: list[str]
    rules_hash: str
    removed_at: datetime | None
    attempts: list[AttemptAnswer]


# Errors explained


class ErrorPasted(Struct, frozen=True, forbid_unknown_fields=True):
    """A provider's error as it came, and whose decision is asked for: an agent's, about a thread's next request.

    `times` is how often the same error has come in a row.
    """

    provider: str
    status: int
    model: str = ""
    headers: dict[str, str] = {}
    body: str | JsonObject | list[Any] = ""
    agent_id: str | None = None
    thread_id: str | None = None
    times: int = 1


class ErrorSeen(Struct, frozen=True):
    """The error as we understand it. `class` is one of the ten that runs tell apart."""

    error_class: str = msgspec_field(name="class")
    message: str
    code: str
    status: int | None
    request_id: str
    is_retryable: bool
    retry_after_ms: float | None


class RuleNamed(Struct, frozen=True):
    """A rule that knows the error by its words, and its switch here."""

    id: str
    title: str
    family: str
    state: str


class DecisionSeen(Struct, frozen=True):
    """What a run would do: `delay_ms` is granted, `wanted_ms` what the provider asked for."""

    retry: bool
    delay_ms: float | None
    wanted_ms: float | None
    reason: str
    asked_by: str
    matched: str


class ErrorExplained(Struct, frozen=True):
    """An error, who knows it, what is decided, and the changes of the refused and of the next request."""

    error: ErrorSeen
    rules: list[RuleNamed]
    decision: DecisionSeen
    changes_before: list[PreviewedChange]
    changes: list[PreviewedChange]
    findings: list[PreviewedFinding]


class RunBundle(Struct, frozen=True):
    """A run as one file, described in docs/bundles.md. `missing` says in words what was not to be had."""

    format: Literal["compat-admin-run"]
    version: int
    made_at: datetime
    run: JsonObject
    agent: JsonObject | None
    rules: dict[str, dict[str, str]]
    messages: list[JsonObject]
    attempts: list[JsonObject]
    missing: list[str]
