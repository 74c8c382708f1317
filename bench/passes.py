"""How passes grow with a thread in which every message has something to change, beside one plain pass.

    python -m bench.passes [--messages 250 1000 4000 16000] [--rounds 3] [--shape NAME]

Each shape is a thread of one kind of fault, `everything` of all. What counts is the time a message, which stays the
same where all is linear; `grows` is its last value by its first. Times are of the processor and say little else.
"""

from __future__ import annotations

import argparse
import copy
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from memory.check import check
from memory.messages.convert import to_prompt
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.messages.prompt import Prompt
from memory.messages.stored import StoredMessage
from memory.processors import Switches
from memory.processors.changes import place_changes
from memory.processors.compat.catalogue import FAMILIES
from memory.processors.compat.passes import CATALOGUE, overflow
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.processors.compat.repairs import drop_orphan_item_ids, rename_bad_tool_ids
from memory.profiles import profile_for
from memory.providers.calls import request_for
from memory.providers.wire import Encoded, Settings

TARGETS = (
    ("anthropic", "anthropic-messages", "claude-sonnet-4-5"),
    ("openai", "openai-chat", "gpt-4o"),
    ("openai", "openai-responses", "gpt-5"),
    ("gemini", "gemini-contents", "gemini-2.5-pro"),
    ("bedrock", "bedrock-converse", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("mistral", "openai-chat", "mistral-large-latest"),
    ("zhipu", "openai-chat", "glm-4.7"),
    ("groq", "openai-chat", "openai/gpt-oss-120b"),
    ("vllm", "openai-chat", "Qwen/Qwen3.5-35B"),
)
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAAAAAC4HznGAAAAC0lEQVR4nGNggAAAAAgAAbdYc5UAAAAASUVORK5CYII="
FOREIGN = {"provider": "cerebras", "modelId": "zai-glm-4.7"}


def text(value: str, **options: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **({"providerMetadata": options} if options else {})}


def call(call_id: str, *, name: str = "look.up", state: str = "result") -> dict[str, Any]:
    made: dict[str, Any] = {"state": state, "toolCallId": call_id, "toolName": name, "args": "{broken"}
    if state == "result":
        made["result"] = {"type": "content", "value": [{"type": "text", "text": ""}]}
    return {"type": "tool-invocation", "toolInvocation": made}


def orphan(call_id: str) -> dict[str, Any]:
    return {**call(call_id), "providerMetadata": {"mastra": {"orphanResult": True}}}


def document(name: str) -> dict[str, Any]:
    return {"type": "file", "data": "JVBERi0xLjQK", "mimeType": "application/pdf", "filename": name}


def thought(number: int) -> dict[str, Any]:
    options = {"openai": {"itemId": f"rs_{number}"}, "anthropic": {"signature": "short", "cacheControl": {"type": "x"}}}
    return {"type": "reasoning", "reasoning": "Hm.\ud83d", "details": [], "providerMetadata": options}


def everything(number: int) -> tuple[str, list[dict[str, Any]]]:
    """A message with as many faults as one can have."""
    marks = {"anthropic": {"cacheControl": {"type": "ephemeral"}, "extra": {"x": 1}}, "openai": {"extra": {"x": None}}}
    if number % 4 == 0:
        picture = {"type": "file", "data": PICTURE, "mimeType": "image/jpg"}
        return "user", [text(" "), text("a\x00b\ud83d", **marks), document("a.pdf"), picture]
    if number % 4 == 1:
        odd = {**call(f"functions.f:{number}"), "providerMetadata": marks}
        calls = [odd, call("x" * 70 + str(number), state="call"), call("again")]
        hosted = {**call(f"hosted {number}", name="web_search"), "providerExecuted": True}
        return "assistant", [thought(number), text("\n"), *calls, hosted, text("So. ")]
    if number % 4 == 2:
        return "assistant", [orphan(f"lost.{number}"), text("", openai={"block": {"type": "widget"}})]
    return "system", [text("Be <system-reminder>brief", cerebras={"extra": {"name": "a b"}})]


SHAPES: dict[str, Callable[[int], tuple[str, list[dict[str, Any]]]]] = {
    "everything": everything,
    "ids that come to one": lambda n: ("assistant", [call(f"{chr(0x4E00 + n)}")]),
    "one id again": lambda n: ("assistant", [call("functions.f:0"), text("Yes.")]),
    "names that come to one": lambda n: ("assistant", [call(f"a{n}", name=f"{chr(0x4E00 + n)}")]),
    "calls without results": lambda n: ("assistant", [call(f"a{n}", state="call")]),
    "results without calls": lambda n: ("assistant", [orphan(f"a{n}")]),
    "all calls, then results": lambda n: (
        "assistant",
        [call(f"a{n // 2}", state="call") if n % 2 else orphan(f"a{n}")],
    ),
    "one user speaks": lambda n: ("user", [text(f"And {n}")]),
    "the assistant speaks": lambda n: ("assistant", [text(f"And {n} ")]),
    "the system speaks": lambda n: ("system", [text(f"And {n}")]),
    "documents of one name": lambda n: ("user", [document("a.pdf")]),
    "blank turns": lambda n: (("user", "assistant")[n % 2], [text(" ")]),
    "thoughts alone": lambda n: ("assistant", [thought(n)]),
    "one item id again": lambda n: ("assistant", [text("a", openai={"itemId": "msg_1"})]),
    "cache markers": lambda n: ("user", [text("a", anthropic={"cacheControl": {"type": "ephemeral"}})]),
}


def stored(shape: str, count: int) -> list[StoredMessage]:
    """`count` messages of a shape; calls before results where it is named so."""
    out: list[StoredMessage] = []
    for number in range(count):
        if shape == "all calls, then results":
            half = count // 2
            parts = [call(f"a{number}", state="call") if number < half else orphan(f"a{number - half}")]
            role = "assistant"
        else:
            role, parts = SHAPES[shape](number)
        content: dict[str, Any] = {"format": 2, "parts": parts}
        if role == "assistant":
            content["metadata"] = FOREIGN
        if role == "system":
            role, content["providerMetadata"] = "user", {"openai": {"role": "developer"}}
        out.append({"id": f"m{number}", "role": role, "content": content})
    return out


def rewritten(prompt: Prompt, target: tuple[str, str, str], forced: tuple[str, ...] = ()) -> tuple[Any, ...]:
    provider, protocol, model_id = target
    call = Call(model_id, {}, frozenset(), forced)
    profile = profile_for(ModelRef(provider, model_id), protocol)
    return (*run_steps(CATALOGUE, prompt, profile, Switches(), call=call), call.needs)


def encoded(sent: tuple[Any, ...], target: tuple[str, str, str]) -> Encoded:
    prompt, _, _, names, needs = sent
    return request_for(target[0], target[1], prompt, Settings(target[2], 100), tool_names=names, needs=needs)


def _placed(sent: tuple[Any, ...], request: Encoded, messages: Sequence[StoredMessage]) -> Any:
    changes, places = list(sent[1]), request.places
    return place_changes(changes, stored=list(messages), prompt=sent[0], places=places, families=FAMILIES)


def works(messages: list[StoredMessage], target: tuple[str, str, str]) -> dict[str, Callable[[], Any]]:
    """What is measured of a thread for a target, by name."""
    prompt = to_prompt(messages)
    sent = rewritten(prompt, target)
    request = encoded(sent, target)
    return {
        "passes": lambda: rewritten(prompt, target),
        "request": lambda: encoded(sent, target),
        "places": lambda: _placed(sent, request, messages),
        "overflow": lambda: rewritten(prompt, target, (overflow.FAULT,)),
    }


def shared_works(messages: list[StoredMessage]) -> dict[str, Callable[[], Any]]:
    """The same for what depends on no target."""
    prompt = to_prompt(messages)

    def listed() -> Any:
        made = MessageList()
        made.add(messages, "memory")
        return made.messages

    return {
        "one plain pass": lambda: prompt.map_parts(lambda _message, part: part),
        "to prompt": lambda: to_prompt(messages),
        "list": listed,
        "check": lambda: check("t", messages, ModelRef("anthropic", "claude-sonnet-4-5")),
        "repair ids": lambda: rename_bad_tool_ids(copy.deepcopy(messages)),
        "repair items": lambda: drop_orphan_item_ids(copy.deepcopy(messages)),
    }


def time_of(work: Callable[[], Any], rounds: int) -> float:
    """The median time in ms, without the collector: its share is of all that lives, the other threads too."""
    times = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        started = time.process_time()
        work()
        times.append((time.process_time() - started) * 1000)
        gc.enable()
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, nargs="+", default=[250, 1000, 4000, 16000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=SHAPES, action="append", help="one or more; all by default")
    options = parser.parse_args()
    counts = options.messages
    print(f"{'ms (µs a message)':52}" + "".join(f"{count:>18,}" for count in counts) + f"{'grows':>8}{'/ plain':>9}")
    for shape in options.shape or SHAPES:
        threads = [stored(shape, count) for count in counts]
        print(shape)
        shared = [shared_works(messages) for messages in threads]
        plain = [time_of(each["one plain pass"], options.rounds) for each in shared]
        for name in shared[0]:
            _print(name, counts, [time_of(each[name], options.rounds) for each in shared], plain)
        for target in TARGETS:
            each_of = [works(messages, target) for messages in threads]
            for name in each_of[0]:
                times = [time_of(each[name], options.rounds) for each in each_of]
                _print(f"{name}, {target[0]} {target[1]}", counts, times, plain)


def _print(name: str, counts: Sequence[int], times: Sequence[float], plain: Sequence[float]) -> None:
    each = [ms * 1000 / count for ms, count in zip(times, counts, strict=True)]
    shown = "".join(f"{ms:10.1f} ({us:5.1f})" for ms, us in zip(times, each, strict=True))
    ratio = times[-1] / plain[-1] if plain[-1] else 0.0
    print(f"  {name:50}{shown}{each[-1] / max(each[0], 0.1):8.1f}{ratio:9.1f}", flush=True)


if __name__ == "__main__":
    main()
