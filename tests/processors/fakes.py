"""What the loop calls and tells, as ordinary objects: a model by script, a ledger in a list, a clock that stands."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from memory.errors import ProviderError
from memory.messages.prompt import Part, Prompt, Text, ToolCall, prompt_to_json
from memory.processors import Chain, MessageList, ModelRef, PromptResult, Turn, run_turn
from memory.processors.calls import AttemptRecord
from tests.messages.build import NOW, make_list, user

BAD_ID = "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
ORPHAN_ITEM = "Item 'msg_7' of type 'message' was provided without its required 'reasoning' item: 'rs_7'."


class Request(msgspec.Struct):
    body: bytes
    prompt: Prompt


class Usage(msgspec.Struct, frozen=True):
    output_tokens: int = 1


class Reply(msgspec.Struct):
    parts: tuple[Part, ...]
    finish_reason: str = "stop"
    usage: Usage = Usage()


class ScriptedModel:
    """Raises or answers what its script says, call by call; after it `fine`."""

    protocol = "openai-chat"
    tool_names: tuple[str, ...] = ()
    call_settings: dict[str, Any] = {}
    call_settings: dict[str, Any] = {}

    def __init__(self, *script: Any, ref: Any = None, before: Callable[[], None] = lambda: None) -> None:
        self.script, self.before = list(script), before
        self.ref = ref or ModelRef("openai", "gpt-5")
        self.prompts: list[list[dict[str, Any]]] = []

    def encode(self, result: PromptResult) -> Request:
        plain = [{k: v for k, v in m.items() if k != "id"} for m in prompt_to_json(result.prompt)]
        return Request(repr(plain).encode(), result.prompt)

    def send(self, request: Request) -> Reply:
        self.prompts.append(prompt_to_json(request.prompt))
        self.before()
        answer = self.script.pop(0) if self.script else "fine"
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str):
            return Reply((Text(answer),))
        return Reply(tuple(answer), "tool-calls" if any(isinstance(p, ToolCall) for p in answer) else "stop")


class Ledger:
    def __init__(self) -> None:
        self.attempts: list[AttemptRecord] = []
        self.events: list[str] = []

    def opened(self, call: Any) -> None:
        return

    def attempt(self, record: AttemptRecord) -> None:
        self.attempts.append(record)
        self.events.append(record.decision)

    def waited(self, number: int, slept_ms: float) -> None:
        self.events.append("waited")

    def replied(self, message: dict[str, Any], reply: Any) -> None:
        self.events.append("replied")


class Run:
    """One turn with everything around it, remembered."""

    def __init__(self, *script: Any, cancel_in_wait: bool = False, model: Any = None) -> None:
        self.model = model or ScriptedModel(*script)
        self.ledger, self.signal, self.waits = Ledger(), threading.Event(), list[float]()
        self.messages = make_list(("input", user("u1")))
        self.cancel_in_wait = cancel_in_wait

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self.cancel_in_wait

    def __call__(self, chain: Chain, *, messages: MessageList | None = None, **options: Any) -> Turn:
        self.messages = messages or self.messages
        options.setdefault("clock", lambda: NOW)
        return run_turn(
            chain, self.messages, self.model, wait=self.wait, recorder=self.ledger, abort_signal=self.signal, **options
        )

    @property
    def decisions(self) -> list[str]:
        return [record.decision for record in self.ledger.attempts]


class Asks:
    """An error processor that asks for a retry every time, or answers what it is told."""

    name = "asks"

    def __init__(self, answer: Any = None, *, id: str = "asks") -> None:
        self.id, self.answer = id, {"retry": True} if answer is None else answer
        self.counts: list[int] = []

    def process_api_error(self, args: Any) -> Any:
        self.counts.append(args.retry_count)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Hooks:
    """A processor with the hooks it is given."""

    name = "hooks"

    def __init__(self, id: str = "own", **hooks: Any) -> None:
        self.id = id
        for name, hook in hooks.items():
            setattr(self, name, hook)


def failure(status: int = 503, message: str = "overloaded", **fields: Any) -> ProviderError:
    return ProviderError(message, status=status, **fields)
