"""How each hook of `processors.jsonl` is run. `expect` fields that no checker reads make the case fail."""

import copy
import itertools
import json
import re
import threading
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from memory.errors import InvalidOption, ProviderError, RunCancelled
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.lists import MessageList
from memory.messages.names import model_ref
from memory.messages.prompt import Part, Text, ToolCall, ToolResult, prompt_from_json, prompt_to_json
from memory.messages.stored import tool_invocations
from memory.processors import (
    Chain,
    MemoryStorage,
    MessageHistory,
    ProcessAPIErrorArgs,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ProcessOutputResultArgs,
    ProviderHistoryCompat,
    StreamErrorRetryProcessor,
    Switches,
    ToolCallFilter,
    TurnEnd,
    is_bad_request_error,
    is_retryable_openai_responses_stream_error,
    run_turn,
)
from memory.processors.base import PromptResult
from memory.processors.chain import short_form
from memory.processors.compat.catalogue import rule_ids
from memory.processors.compat.passes import CATALOGUE, REPAIRS
from memory.processors.compat.passes.pairs import NO_RESULT
from memory.processors.compat.processor import run_steps
from memory.processors.config import normalise_lists
from memory.profiles import REFERENCE, profile_for
from memory.providers import wire_module
from tests.vectors.compare import clean_prompt, compare_messages, same
from tests.vectors.descriptors import NOW, build_error, build_message, build_options, only

CLASSES: dict[str, Any] = {
    "MessageHistory": MessageHistory,
    "ProviderHistoryCompat": ProviderHistoryCompat,
    "StreamErrorRetry": StreamErrorRetryProcessor,
    "StreamErrorRetryProcessor": StreamErrorRetryProcessor,
    "ToolCallFilter": ToolCallFilter,
}
Checks = dict[str, Any]


def run_case(case: dict[str, Any]) -> None:
    expect = dict(case["expect"])
    if expect.get("constructorError"):
        only(expect, "constructorError")
        try:
            build(case["processor"], case.get("options", {}))
        except InvalidOption:
            return
        raise AssertionError("building it should have failed")
    checks = HOOKS[(case["processor"], case["hook"])](case)
    for name, wanted in expect.items():
        assert name in checks, f"nobody checks {name}"
        got = checks[name]
        problem = got(wanted) if callable(got) else same(wanted, got)
        assert problem is None, f"{name}: {problem}"


def build(processor: str, options: dict[str, Any], **more: Any) -> Any:
    cls = CLASSES[processor]
    arguments = build_options(options)
    if cls is ProviderHistoryCompat:
        arguments.setdefault("rules", "reference")
    if cls is MessageHistory and more.get("storage") is None:
        more["storage"] = MemoryStorage()
    if cls is StreamErrorRetryProcessor:
        more["clock"] = lambda: NOW
    return cls(**arguments, **more)


def build_list(messages: list[dict[str, Any]], input: dict[str, Any] | None = None) -> MessageList:
    info = (input or {}).get("memoryInfo", {"threadId": "th-1", "resourceId": "res-1"}) or {}
    out = MessageList(thread_id=info.get("threadId"), resource_id=info.get("resourceId"), clock=lambda: NOW)
    for value in copy.deepcopy(messages):
        message, source = build_message(value)
        if source == "system":
            out.add_system(message["content"])
        else:
            out.add([message], source)
    return out


def with_sources(messages: MessageList) -> list[dict[str, Any]]:
    return [{**entry.message, "source": entry.source} for entry in messages.entries]


def prompt_check(prompt: Any) -> Callable[[Any], str | None]:
    value = prompt if isinstance(prompt, list) else prompt_to_json(prompt)
    return lambda wanted: same(clean_prompt(wanted), clean_prompt(value))


# Conversion


def _system(input: dict[str, Any]) -> list[str]:
    texts = MessageList()
    for entry in input.get("system", ()):
        texts.add_system(entry["content"], tag=entry.get("tag", ""))
    return texts.system_texts


def to_prompt_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "system", "messages")
    faithful = to_prompt([build_message(m)[0] for m in input["messages"]], system=_system(input))
    prompt, *_ = run_steps(REPAIRS, faithful, REFERENCE, Switches())
    return {"prompt": prompt_check(prompt)}


def faithful_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "system", "messages")
    return {"prompt": prompt_check(to_prompt([build_message(m)[0] for m in input["messages"]], system=_system(input)))}


def prepare_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "model", "protocol", "messages", "requests", "switches")
    stored = [build_message(m)[0] for m in copy.deepcopy(input["messages"])]
    before = copy.deepcopy(stored)
    model = model_ref(input["model"])
    profile = profile_for(model, input.get("protocol", ""))
    states = _switched(input.get("switches", ()))
    prompts, changes, findings = [], [], []
    for count in input.get("requests") or [len(stored)]:
        faithful = to_prompt(stored[:count])
        prompt, made, found, _ = run_steps(CATALOGUE, faithful, profile, Switches(states))
        again, *_ = run_steps(CATALOGUE, prompt, profile, Switches(states))
        assert again is prompt or states, "running the passes on their own result changes it"
        prompts.append(prompt)
        changes += [change.rule for change in made]
        findings += [finding.rule for finding in found]
    ids = [[_id_of(p) for m in prompt.messages for p in m.parts if _id_of(p) is not None] for prompt in prompts]
    recorded = {
        invocation["toolCallId"]
        for message in stored
        for invocation in tool_invocations(message["content"])
        if "result" in invocation or "errorText" in invocation or invocation["state"] == "output-denied"
    }
    results = [p for m in prompts[-1].messages for p in m.parts if isinstance(p, ToolResult)]
    json_prompts = [clean_prompt(prompt_to_json(prompt)) for prompt in prompts]
    return {
        "toolCallIdsPerPrompt": ids,
        "prefixKept": all(b[: len(a)] == a for a, b in itertools.pairwise(json_prompts)),
        "unchanged": json_prompts[-1] == clean_prompt(prompt_to_json(to_prompt(stored))),
        "changes": lambda wanted: same(sorted(wanted), sorted(set(changes))),
        "findings": lambda wanted: same(sorted(wanted), sorted(set(findings))),
        "syntheticResults": [r.call_id for r in results if r.output.value == NO_RESULT and r.call_id not in recorded],
        "storedUnchanged": stored == before,
        "idsMatch": lambda pattern: None if all(re.fullmatch(pattern, i) for p in ids for i in p) else f"{ids}",
        "distinctCallIds": [
            len({p.id for m in prompt.messages for p in m.parts if isinstance(p, ToolCall)}) for prompt in prompts
        ],
        "keptIds": lambda wanted: None if set(wanted) <= set(ids[-1]) else f"{ids[-1]}",
    }


def _id_of(part: Part) -> str | None:
    return part.id if isinstance(part, ToolCall) else part.call_id if isinstance(part, ToolResult) else None


def _switched(switches: Any) -> dict[str, str]:
    """The states that count: agent beats provider beats global."""
    states: dict[str, str] = {}
    for scope in ("global", "provider", "agent"):
        for switch in switches:
            if only(switch, "rule", "state", "scope")["scope"] == scope:
                states.update(dict.fromkeys(rule_ids(switch["rule"]), switch["state"]))
    return states


def to_stored_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "prompt")
    stored = from_prompt(prompt_from_json(input["prompt"]))
    flat = [{"role": message["role"], "parts": message["content"]["parts"]} for message in stored]
    return {"messages": lambda wanted: compare_messages(wanted, flat)}


def round_trip_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "prompt")
    given = prompt_from_json(input["prompt"])
    system = [message.text for message in given.messages if message.role == "system"]
    return {"prompt": prompt_check(to_prompt(from_prompt(given), system=system))}


# The list


def list_add_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "messages", "memoryInfo")
    problem: str | None = None
    messages = build_list([], input)
    try:
        for value in input["messages"]:
            message, source = build_message(copy.deepcopy(value))
            messages.add([message], source)
    except Exception as error:  # noqa: BLE001 - the case says whether one is expected
        problem = f"{getattr(error, 'code', '')} {error}"
    return {
        "messages": lambda wanted: compare_messages(wanted, with_sources(messages)),
        "error": lambda wanted: _contains(wanted, problem),
    }


def _contains(wanted: Any, problem: str | None) -> str | None:
    if wanted is None or wanted is False:
        return None if problem is None else f"raised {problem}"
    if problem is None:
        return "nothing was raised"
    return None if wanted is True or wanted in problem else f"expected {wanted!r} in {problem!r}"


# History


class RecordingStorage(MemoryStorage):
    """A memory storage that remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[str, Any] | None = None
        self.saved: list[dict[str, Any]] | None = None
        self.created: dict[str, Any] | None = None
        self.read_error = self.save_error = ""

    def load_messages(self, thread_id: str, resource_id: str | None, *, last: int | None) -> list[dict[str, Any]]:
        self.read = {"threadId": thread_id, "resourceId": resource_id, "last": last}
        if self.read_error:
            raise RuntimeError(self.read_error)
        return super().load_messages(thread_id, resource_id, last=last)

    def save_messages(self, thread_id: str, resource_id: str | None, messages: Any) -> None:
        self.saved = list(messages)
        if self.save_error:
            raise RuntimeError(self.save_error)
        super().save_messages(thread_id, resource_id, messages)

    def create_thread(self, thread: dict[str, Any]) -> None:
        self.created = dict(thread)
        super().create_thread(thread)


def _storage(input: dict[str, Any]) -> RecordingStorage:
    storage = RecordingStorage()
    context = input.get("requestContext") or {}
    thread_id = (context.get("thread") or {}).get("id") or "th-1"
    resource_id = context.get("resourceId") or "res-1"
    stored = [build_message(message)[0] for message in copy.deepcopy(input.get("stored") or [])]
    if stored:
        row = {"id": thread_id, "resourceId": resource_id, "title": "", "metadata": {}, "updatedAt": ""}
        MemoryStorage.create_thread(storage, row)
        for message in stored:
            message.setdefault("threadId", thread_id)
            message.setdefault("resourceId", resource_id)
            MemoryStorage.save_messages(storage, thread_id, None, [message])
    if input.get("thread"):
        MemoryStorage.create_thread(storage, {"updatedAt": "", **input["thread"]})
    storage.read_error, storage.save_error = input.get("storageError", ""), input.get("saveError", "")
    return storage


def _context(input: dict[str, Any]) -> dict[str, Any]:
    return {"MastraMemory": input["requestContext"]} if input.get("requestContext") is not None else {}


def history_input_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "requestContext", "stored", "messages", "storageError", "memoryInfo", "thread")
    storage = _storage(input)
    processor = build("MessageHistory", case.get("options", {}), storage=storage)
    messages = build_list(input["messages"], input)
    problem: str | None = None
    try:
        args = ProcessInputArgs(
            messages=messages.tagged("input"), message_list=messages, request_context=_context(input)
        )
        assert processor.process_input(args) is messages
    except Exception as error:  # noqa: BLE001 - the case says whether one is expected
        problem = str(error)
    return {
        "storageRead": storage.read,
        "messages": lambda wanted: compare_messages(wanted, with_sources(messages)),
        "messageIds": [message["id"] for message in messages.messages],
        "error": lambda wanted: _contains(wanted, problem),
    }


def history_output_case(case: dict[str, Any]) -> Checks:
    input = only(
        case["input"], "requestContext", "stored", "messages", "thread", "result", "saveError", "memoryInfo"
    )  # fmt: skip
    storage = _storage(input)
    before = {key: dict(value) for key, value in storage.threads.items()}
    processor = build("MessageHistory", case.get("options", {}), storage=storage)
    messages = build_list(input["messages"], input)
    result = input.get("result") or {}
    end = TurnEnd(
        finish_reason=result.get("finishReason") or result.get("reason") or "stop", text=result.get("text", "")
    )
    problem: str | None = None
    try:
        args = ProcessOutputResultArgs(
            messages=messages.messages, message_list=messages, result=end, request_context=_context(input)
        )
        assert processor.process_output_result(args) is messages
    except Exception as error:  # noqa: BLE001 - the case says whether one is expected
        problem = str(error)

    def saved(wanted: Any) -> str | None:
        if wanted is None or storage.saved is None:
            return same(wanted, storage.saved)
        owners = ("threadId", "resourceId")
        shown = [
            {key: value for key, value in message.items() if key not in owners or key in want}
            for message, want in zip(storage.saved, [*wanted, *({} for _ in storage.saved)], strict=False)
        ]
        return compare_messages(wanted, shown)

    def touched(wanted: bool) -> str | None:
        rows = [row for key, row in storage.threads.items() if key in before]
        moved = any(row["updatedAt"] != before[row["id"]]["updatedAt"] for row in rows)
        kept = all(
            row.get(key) == before[row["id"]].get(key) for row in rows for key in ("title", "metadata", "resourceId")
        )
        return same(wanted, moved and kept) or (None if kept else "the thread's title or metadata changed")

    def created(wanted: Any) -> str | None:
        if wanted is None or storage.created is None:
            return same(wanted, storage.created)
        return same(wanted, {key: storage.created.get(key) for key in wanted})

    return {
        "saved": saved,
        "savedThreadIds": [message["threadId"] for message in storage.saved or ()],
        "savedResourceIds": [message["resourceId"] for message in storage.saved or ()],
        "threadCreated": created,
        "threadTouched": touched,
        "error": lambda wanted: _contains(wanted, problem),
    }


# Compat


def compat_prompt_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "prompt", "model", "messages", "memoryInfo")
    processor = build("ProviderHistoryCompat", case.get("options", {}))
    given = copy.deepcopy(input["prompt"])
    messages = build_list(input.get("messages") or [], input)
    args = ProcessLLMRequestArgs(prompt=given, model=input.get("model"), message_list=messages)
    answer = processor.process_llm_request(args)
    assert same(input["prompt"], given) is None, "the prompt passed in was changed"
    return {"changed": answer is not None, "prompt": prompt_check(answer.prompt if answer else given)}


def compat_error_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "error", "messages", "retryCount", "memoryInfo")
    processor = build("ProviderHistoryCompat", case.get("options", {}))
    messages = build_list(input.get("messages") or [], input)
    args = ProcessAPIErrorArgs(
        error=build_error(input["error"]),
        messages=messages.messages,
        message_list=messages,
        retry_count=input.get("retryCount", 0),
    )
    answer = processor.process_api_error(args)
    ids = []
    for message in messages.messages:
        content = message["content"]
        ids += [p["toolInvocation"]["toolCallId"] for p in content.get("parts") or () if "toolInvocation" in p]
        ids += [entry["toolCallId"] for entry in content.get("toolInvocations") or ()]
    return {
        "retry": answer is not None,
        "messages": lambda wanted: compare_messages(wanted, messages.messages),
        "toolInvocationIds": ids,
    }


# Retry


def retry_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "error", "retryCount", "aborted")
    processor = build("StreamErrorRetry", case.get("options", {}))
    signal = threading.Event()
    if input.get("aborted") == "before":
        signal.set()
    args = ProcessAPIErrorArgs(
        error=build_error(input["error"]), retry_count=input.get("retryCount", 0), abort_signal=signal
    )
    problem: str | None = None
    answer = None
    try:
        answer = processor.process_api_error(args)
    except Exception as error:  # noqa: BLE001 - the case says whether one is expected
        problem = str(error)
    delay = answer.delay_ms if answer and not signal.is_set() else 0
    return {
        "retry": answer is not None,
        "delayMs": delay,
        "throws": lambda wanted: _contains(wanted, problem),
        **({} if problem is None else {"retry": lambda wanted: f"raised {problem}"}),
    }


def openai_matcher_case(case: dict[str, Any]) -> Checks:
    return {"retryable": is_retryable_openai_responses_stream_error(build_error(only(case["input"], "error")["error"]))}


def bad_request_case(case: dict[str, Any]) -> Checks:
    return {"matches": is_bad_request_error(build_error(only(case["input"], "error")["error"]))}


# Tool filter


def filter_input_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "messages")
    processor = build("ToolCallFilter", case.get("options", {}))
    messages = build_list(input["messages"])
    answer = processor.process_input(
        ProcessInputArgs(messages=messages.tagged("input"), message_list=messages, state={})
    )
    return {"messages": lambda wanted: compare_messages(wanted, list(answer))}


def filter_step_case(case: dict[str, Any]) -> Checks:
    processor, state = build("ToolCallFilter", case.get("options", {})), dict[str, Any]()
    answers = []
    for number, call in enumerate(only(case["input"], "calls")["calls"]):
        messages = build_list(only(call, "messages")["messages"])
        args = ProcessInputStepArgs(messages=messages.messages, message_list=messages, step_number=number, state=state)
        answers.append((processor.process_input_step(args), messages))
    return {"calls": lambda wanted: _calls(wanted, answers, "messages")}


def filter_prompt_case(case: dict[str, Any]) -> Checks:
    processor, state = build("ToolCallFilter", case.get("options", {})), dict[str, Any]()
    answers = []
    for call in only(case["input"], "calls")["calls"]:
        given = copy.deepcopy(only(call, "prompt")["prompt"])
        answer = processor.process_llm_request(ProcessLLMRequestArgs(prompt=given, state=state))
        assert same(call["prompt"], given) is None, "the prompt passed in was changed"
        answers.append((answer, given))
    return {"calls": lambda wanted: _calls(wanted, answers, "prompt")}


def _calls(wanted: list[dict[str, Any]], answers: list[Any], kind: str) -> str | None:
    if len(wanted) != len(answers):
        return f"{len(wanted)} calls, made {len(answers)}"
    for i, (want, (answer, given)) in enumerate(zip(wanted, answers, strict=True)):
        only(want, "unchanged", kind)
        if want.get("unchanged"):
            problem = None if answer is None else f"answered {answer!r}"
        elif kind == "messages":
            problem = compare_messages(want["messages"], list(answer) if answer is not None else given.messages)
        else:
            problem = same(clean_prompt(want["prompt"]), clean_prompt(answer.prompt if answer else given))
        if problem:
            return f"call {i}: {problem}"
    return None


def filter_runner_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "messages")
    storage = RecordingStorage()
    processor = build("ToolCallFilter", case.get("options", {}))
    history = MessageHistory(storage=storage)
    chain = Chain(input=[processor], output=[history])
    messages = build_list(input["messages"])
    chain.process_input(messages)
    prompt = chain.process_llm_request(messages.to_prompt(), messages, model=None).prompt
    tool_parts = sum(
        part["type"] in ("tool-call", "tool-result")
        for message in prompt_to_json(prompt)
        if isinstance(message["content"], list)
        for part in message["content"]
    )
    chain.process_output_result(messages, TurnEnd())
    return {
        "prompt": prompt_check(prompt),
        "promptToolParts": tool_parts,
        "rememberedAfter": lambda wanted: compare_messages(wanted, messages.tagged("memory")),
        "savedIds": [message["id"] for message in storage.saved or ()],
    }


# The loop


class FakeRequest(Struct):
    body: bytes
    prompt: list[dict[str, Any]]


class FakeReply(Struct):
    parts: tuple[Part, ...]
    finish_reason: str = "stop"


class FakeModel:
    """Fails as told, then answers `fine`."""

    protocol = ""
    tool_names: tuple[str, ...] = ()
    call_settings: dict[str, Any] = {}

    def __init__(self, ref: Any, errors: list[Any] | None, always: Any) -> None:
        self.ref, self.errors, self.always = ref, list(errors or ()), always
        self.prompts: list[list[dict[str, Any]]] = []

    def encode(self, result: PromptResult) -> FakeRequest:
        prompt = prompt_to_json(result.prompt)
        return FakeRequest(repr(clean_prompt(prompt)).encode(), prompt)

    def send(self, request: FakeRequest) -> FakeReply:
        self.prompts.append(request.prompt)
        error = self.errors.pop(0) if self.errors else self.always
        if error is not None:
            raise error
        return FakeReply((Text("fine"),))


class FakeProcessor:
    """A processor of a case: hooks as told, counting its error hook."""

    def __init__(self, value: dict[str, Any], order: list[str]) -> None:
        only(value, "id", "retry", "processAPIError", "throws", "hasHook", "hooks", "name")
        self.id, self.name = value["id"], value.get("name", value["id"])
        self.order = order
        hooks = value.get("hooks", [] if value.get("hasHook") is False else ["processAPIError"])
        answer = {"retry": value["retry"]} if "retry" in value else (value.get("processAPIError") or {}).get("returns")

        def error_hook(_: Any) -> Any:
            order.append(self.id)
            if throws := value.get("throws", (value.get("processAPIError") or {}).get("throws")):
                raise RuntimeError(throws if isinstance(throws, str) else "blew up")
            return answer

        for hook in hooks:
            match hook:
                case "processAPIError":
                    self.process_api_error = error_hook
                case "processInput":
                    self.process_input = lambda _: None
                case "processInputStep":
                    self.process_input_step = lambda _: None
                case "processLLMRequest":
                    self.process_llm_request = lambda _: None
                case "processOutputResult":
                    self.process_output_result = lambda _: None
                case _:
                    raise AssertionError(f"unknown hook {hook}")


IDS = {
    "message-history": "MessageHistory",
    "provider-history-compat": "ProviderHistoryCompat",
    "stream-error-retry-processor": "StreamErrorRetryProcessor",
    "tool-call-filter": "ToolCallFilter",
}


class Lists:
    """The three lists of a case as objects, and the order in which fakes were asked."""

    def __init__(self, input: dict[str, Any], storage: MemoryStorage | None = None) -> None:
        self.order: list[str] = []
        self._made: dict[str, Any] = {}
        self._storage = storage or MemoryStorage()
        if "processors" in input:
            self.input, self.output, self.error = short_form([self._one(p) for p in input["processors"]])
        else:
            self.input = [self._one(p) for p in input.get("inputProcessors", ())]
            self.output = [self._one(p) for p in input.get("outputProcessors", ())]
            self.error = [self._one(p) for p in input.get("errorProcessors", ())]

    def _one(self, value: Any) -> Any:
        if isinstance(value, str):
            value = {"type": IDS[value]}
        if "ref" in value:
            return self._made[only(value, "ref")["ref"]]
        if "type" in value:
            only(value, "type", "options")
            more = {"storage": self._storage} if value["type"] == "MessageHistory" else {}
            return build(value["type"], value.get("options", {}), **more)
        made = FakeProcessor(value, self.order)
        self._made[value["id"]] = made
        return made

    def chain(self, **more: Any) -> Chain:
        return Chain(input=self.input, output=self.output, error=self.error, **more)


def pipeline_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "inputProcessors", "outputProcessors", "errorProcessors")
    lists = Lists(input)
    asked = lists.chain().process_api_error(ProviderError("failed", status=503), MessageList())
    return {"order": lists.order, "retry": asked is not None}


LOOP_KEYS = [
    "inputProcessors",
    "outputProcessors",
    "errorProcessors",
    "processors",
    "maxProcessorRetries",
    "model",
    "messages",
    "modelErrors",
    "error",
    "errorSequence",
    "abortAfterMs",
    "stored",
]


def loop_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], *LOOP_KEYS)
    storage = _storage(input)
    lists = Lists(input, storage)
    errors: list[Any] = []
    always: Any = None
    if "errorSequence" in input:
        errors = [build_error(value) if value else None for value in input["errorSequence"]]
    elif "modelErrors" in input:
        if input["modelErrors"] == "always":
            always = build_error(input["error"])
        else:
            errors = [build_error(input["error"]) for _ in range(input["modelErrors"])]
    model = FakeModel(input.get("model", "openai/gpt-4o"), errors, always)
    messages = MessageList(thread_id="th-1", resource_id="res-1", clock=lambda: NOW)
    messages.add(copy.deepcopy(input.get("messages") or "hello"), "input")
    signal = threading.Event()
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if "abortAfterMs" in input and seconds * 1000 >= input["abortAfterMs"]:
            signal.set()
        return signal.is_set()

    outcome, text, problem = "text", "", ""
    try:
        turn = run_turn(
            lists.chain(),
            messages,
            model,
            wait=wait,
            abort_signal=signal,
            max_processor_retries=input.get("maxProcessorRetries"),
            clock=lambda: NOW,
        )
        text = turn.text
    except RunCancelled:
        outcome = "abort"
    except Exception as error:  # noqa: BLE001 - the case says whether one is expected
        outcome, problem = "error", str(error)
    ids = [[_call_id(p) for m in prompt for p in _parts(m) if _call_id(p)] for prompt in model.prompts]
    last = model.prompts[-1] if model.prompts else []
    stored = storage.load_messages("th-1", None, last=None) if storage.threads else []
    return {
        "modelCalls": len(model.prompts),
        "hookCalls": len(lists.order),
        "outcome": outcome,
        "text": text,
        "message": lambda wanted: _contains(wanted, problem or None),
        "toolCallIdsPerPrompt": ids,
        "assistantPartTypes": [[p["type"] for p in _parts(m)] for m in last if m["role"] == "assistant"],
        "storedToolCallIdsAfter": [
            part["toolInvocation"]["toolCallId"]
            for message in stored
            for part in message["content"].get("parts") or ()
            if "toolInvocation" in part
        ],
    }


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    return message["content"] if isinstance(message["content"], list) else []


def _call_id(part: dict[str, Any]) -> str | None:
    return part.get("toolCallId") if part["type"] in ("tool-call", "tool-result") else None


def decode_error_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "protocol", "provider", "status", "headers", "body")
    body = input["body"] if isinstance(input["body"], str) else json.dumps(input["body"])
    module = wire_module(input["protocol"])
    error = module.decode_error(input["status"], input["headers"], body, provider=input["provider"])
    return {"isRetryable": error.is_retryable, "retryAfterMs": error.retry_after_ms}


# Building


def constructor_case(case: dict[str, Any]) -> Checks:
    made = build(case["processor"], case.get("options", {}))
    return {"id": made.id, "name": made.name}


def agent_case(case: dict[str, Any]) -> Checks:
    input = only(case["input"], "inputProcessors", "outputProcessors", "errorProcessors", "processors")
    values = {
        key: [
            {"id": _stored_id(value)} if not isinstance(value, dict) or "type" in value else value for value in entries
        ]
        for key, entries in input.items()
    }
    lists = normalise_lists(values)
    compat = [e for entries in lists.values() for e in entries if e["id"] == "provider-history-compat"]
    return {
        "inputProcessors": [entry["id"] for entry in lists["input_processors"]],
        "outputProcessors": [entry["id"] for entry in lists["output_processors"]],
        "errorProcessors": [entry["id"] for entry in lists["error_processors"]],
        "compatRules": compat[0]["options"].get("rules") if compat else None,
    }


def _stored_id(value: Any) -> str:
    if isinstance(value, str):
        return value
    return next(stored for stored, name in IDS.items() if name == value["type"])


HOOKS: dict[tuple[str, str], Callable[[dict[str, Any]], Checks]] = {
    ("Agent", "create"): agent_case,
    ("AgentLoop", "repair-then-reload"): loop_case,
    ("AgentLoop", "run"): loop_case,
    ("ErrorPipeline", "runProcessAPIError"): pipeline_case,
    ("MessageHistory", "constructor"): constructor_case,
    ("MessageHistory", "processInput"): history_input_case,
    ("MessageHistory", "processOutputResult"): history_output_case,
    ("MessageList", "add"): list_add_case,
    ("PromptConversion", "prepare"): prepare_case,
    ("PromptConversion", "roundTrip"): round_trip_case,
    ("PromptConversion", "toPrompt"): to_prompt_case,
    ("PromptConversion", "toPromptFaithful"): faithful_case,
    ("PromptConversion", "toStored"): to_stored_case,
    ("ProviderHistoryCompat", "constructor"): constructor_case,
    ("ProviderHistoryCompat", "processAPIError"): compat_error_case,
    ("ProviderHistoryCompat", "processLLMRequest"): compat_prompt_case,
    ("StreamErrorRetry", "constructor"): constructor_case,
    ("StreamErrorRetry", "isBadRequestError"): bad_request_case,
    ("StreamErrorRetry", "isRetryableOpenAIResponsesStreamError"): openai_matcher_case,
    ("StreamErrorRetry", "processAPIError"): retry_case,
    ("ProviderError", "decodeError"): decode_error_case,
    ("ToolCallFilter", "constructor"): constructor_case,
    ("ToolCallFilter", "processInput"): filter_input_case,
    ("ToolCallFilter", "processInputStep"): filter_step_case,
    ("ToolCallFilter", "processLLMRequest"): filter_prompt_case,
    ("ToolCallFilter", "runner-input-then-persist"): filter_runner_case,
    ("ToolCallFilter", "runner-input-then-prompt"): filter_runner_case,
}
