"""Claude on Bedrock by the invoke API: Anthropic's protocol, the model in the path, a stream in Amazon's frames."""

import base64
from collections.abc import Iterator
from typing import Any

from memory.sandbox import anthropic, anthropic_reply
from memory.sandbox.eventstream import event
from memory.sandbox.wire import Refused, to_json


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body (`model` from the path); else raises Refused."""
    if not isinstance(body, dict) or not isinstance(body.get("anthropic_version"), str):
        raise Refused("anthropic_version: Field required", kind="ValidationException")
    if "stream" in body:
        raise Refused("stream: Extra inputs are not permitted", kind="ValidationException")
    try:
        anthropic.check(
            {key: value for key, value in body.items() if key not in ("anthropic_version", "anthropic_beta")}
        )
    except Refused as refused:
        refused.kind = "ValidationException"
        raise


def events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    """Each of Anthropic's events in a frame, its JSON as base64."""
    for sent in anthropic_reply.events(body, raw):
        data = sent.partition(b"data: ")[2].strip()
        yield event("chunk", to_json({"bytes": base64.b64encode(data).decode()}))
