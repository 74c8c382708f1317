"""Bedrock's Converse API: who may call, what it refuses in its own words, its error bodies.

The shape of the body is checked first, then the conversation, then what only some makers' models take. Source: the
AWS API reference, errors reported by client projects, and recorded exchanges; last seen September 2026.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from memory.sandbox.anthropic_models import is_sealed, model_family, own_signature, text_digest
from memory.sandbox.bedrock_blocks import check_request, malformed
from memory.sandbox.openai_chat import bearer
from memory.sandbox.pictures import MOST_PIXELS, picture_of, too_long
from memory.sandbox.wire import BadJson, Refused, words

_MAKERS = words(
    "ai21 amazon anthropic cohere deepseek google luma meta minimax mistral moonshot moonshotai nvidia openai qwen "
    "stability twelvelabs writer xai zai"
)
_MODEL = re.compile(r"(?:(?:us|eu|apac|jp|au|ca|us-gov|global)\.)?([a-z0-9]+)\.[a-z0-9.-]+(?::\d+)?(?::\d+k)?")
_ARN = re.compile(r"arn:aws[a-z-]*:(?:bedrock|sagemaker):[a-z0-9-]*:\d*:.+")
_SEALED_BY = ("anthropic", "openai", "xai")
_CACHE_POINTS = 4


def authorise(headers: Mapping[str, str]) -> None:
    """Any key is right, and any signature; raises Refused with 403 without one."""
    if not bearer(headers) and not headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 "):
        raise failure(403)


def error_body(refused: Refused, request_id: str) -> dict[str, Any]:
    return {"message": refused.message}


_FAILURES = {
    403: ("AccessDeniedException", "User is not authorized to perform: bedrock:InvokeModel"),
    404: ("ResourceNotFoundException", "Could not resolve the foundation model from the provided model identifier."),
    408: ("ModelTimeoutException", "Model has timed out in processing the request. Try your request again."),
    413: ("ValidationException", "Input is too long for requested model."),
    424: ("ModelErrorException", "The model returned an error. Try your request again."),
    429: ("ThrottlingException", "Too many requests, please wait before trying again."),
    500: ("InternalServerException", "The system encountered an unexpected error during processing. Try again."),
    503: ("ServiceUnavailableException", "Bedrock is unable to process your request."),
}


def failure(status: int) -> Refused:
    """What the vendor says with this status when nothing is wrong with the conversation."""
    other = "ValidationException" if status < 500 else "InternalServerException"
    kind, message = _FAILURES.get(403 if status == 401 else status, (other, "Error"))
    return Refused(message, status=status, kind=kind)


def bad_json(error: BadJson) -> Refused:
    return Refused(f"Malformed input request: {error.reason}", kind="SerializationException")


def maker(model_id: str) -> str:
    """Who made a model: `anthropic` for `us.anthropic.claude-…`; empty for an ARN, which says nothing about it."""
    named = _MODEL.fullmatch(model_id)
    return named[1] if named else ""


def check(body: Any) -> None:
    """Nothing when the vendor would answer this request body (`modelId` from the path); else raises Refused."""
    try:
        _check(body)
    except Refused as refused:
        if refused.kind == "invalid_request_error":
            refused.kind = "ValidationException"
        raise


def _check(body: Any) -> None:
    if not isinstance(body, dict):
        raise malformed("#", "expected type: JSONObject")
    model_id = str(body.get("modelId"))
    if not _ARN.fullmatch(model_id) and maker(model_id) not in _MAKERS:
        raise Refused("The provided model identifier is invalid.")
    check_request(body)
    messages = body["messages"]
    _check_roles(messages)
    _check_texts(messages)
    _check_pairs(messages)
    if "toolConfig" not in body and any("toolUse" in b or "toolResult" in b for _, _, b in _blocks(messages)):
        raise Refused("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
    _check_documents(messages)
    _check_media(messages, maker(model_id))
    _check_reasoning(messages, model_id)
    if maker(model_id) == "anthropic":
        _check_cache_points(body)
        _check_pictures(messages)


def _blocks(messages: list[dict[str, Any]]) -> Iterator[tuple[int, int, dict[str, Any]]]:
    for index, message in enumerate(messages):
        for at, block in enumerate(message["content"]):
            yield index, at, block


def _check_roles(messages: list[dict[str, Any]]) -> None:
    if messages[0]["role"] != "user":
        raise Refused(
            "A conversation must start with a user message. Try again with a conversation that starts with a user"
            " message."
        )
    for before, after in pairwise(messages):
        if before["role"] == after["role"]:
            raise Refused(
                "A conversation must alternate between user and assistant roles. Make sure the conversation alternates"
                " between user and assistant roles and try again."
            )


def _check_texts(messages: list[dict[str, Any]]) -> None:
    for index, at, block in _blocks(messages):
        if "text" not in block or block["text"].strip():
            continue
        content = messages[index]["content"]
        around = content[at - 1 : at + 2] if at else []
        # Accepted, as recorded: a line break that parts a document from a cache point.
        if block["text"] == "\n" and len(around) == 3 and "document" in around[0] and "cachePoint" in around[2]:
            continue
        raise Refused(
            f"The text field in the ContentBlock object at messages.{index}.content.{at} is blank. Add text to the text"
            " field, and try again."
        )


def _called(message: dict[str, Any]) -> list[str]:
    """Ids of the calls in a message that the caller has to answer."""
    uses = (block["toolUse"] for block in message["content"] if "toolUse" in block)
    return [use["toolUseId"] for use in uses if use.get("type") != "server_tool_use"]


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """Each turn's calls are answered in the next message, and nothing else is."""
    for index, message in enumerate(messages):
        called = _called(message) if message["role"] == "assistant" else []
        if twice := sorted({call_id for call_id in called if called.count(call_id) > 1}):
            raise Refused(f"The toolUse blocks at messages.{index}.content contain duplicate Ids: {', '.join(twice)}")
        if message["role"] == "user":
            asked = _called(messages[index - 1]) if index else []
            given = [block["toolResult"]["toolUseId"] for block in message["content"] if "toolResult" in block]
            if len(given) > len(asked):
                raise Refused(
                    f"The number of toolResult blocks at messages.{index}.content exceeds the number of toolUse blocks"
                    " of previous turn."
                )
            _check_answered(asked, given, index)
    _check_answered(_called(messages[-1]) if messages[-1]["role"] == "assistant" else [], [], len(messages))


def _check_answered(asked: list[str], given: list[str], index: int) -> None:
    if missing := [call_id for call_id in asked if call_id not in given]:
        raise Refused(
            f"Expected toolResult blocks at messages.{index}.content for the following Ids: {', '.join(missing)}"
        )


def _check_documents(messages: list[dict[str, Any]]) -> None:
    for message in messages:
        documents = [block["document"] for block in message["content"] if "document" in block]
        if documents and not any("text" in block for block in message["content"]):
            raise Refused("A text block must be included when using documents.")
    names = [block["document"]["name"] for _, _, block in _blocks(messages) if "document" in block]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Refused(f"The document names of a request must differ: {', '.join(twice)}")


def _check_media(messages: list[dict[str, Any]], made_by: str) -> None:
    """Files that lie in S3: Claude takes none, Nova none inside a result."""
    for index, at, block in _blocks(messages):
        result = block.get("toolResult")
        inner = result["content"] if result else ()
        if made_by == "anthropic" and any(map(_is_in_s3, (block, *inner))):
            raise Refused("This model doesn't support the s3Uri field. Remove s3Uri and try again.")
        if made_by == "amazon" and any(map(_is_in_s3, inner)):
            raise malformed(f"#/messages/{index}/content/{at}", "extraneous key [toolResult] is not permitted")


def _is_in_s3(block: dict[str, Any]) -> bool:
    media = (block.get(kind) for kind in ("image", "document", "video", "audio"))
    return any(isinstance(value, dict) and "s3Location" in value["source"] for value in media)


def _check_reasoning(messages: list[dict[str, Any]], model_id: str) -> None:
    made_by = maker(model_id)
    for index, at, block in _blocks(messages):
        reasoning = block.get("reasoningContent")
        if reasoning is None or not made_by:
            continue
        if "redactedContent" in reasoning:
            if made_by not in _SEALED_BY:
                raise _unsupported("reasoningContent.redactedContent")
            continue
        thought = reasoning["reasoningText"]
        if made_by != "anthropic":
            if "signature" in thought:
                raise _unsupported("reasoningContent.reasoningText.signature")
            continue
        if not _is_signed(thought, model_id):
            raise Refused(
                "The model returned the following errors: "
                f"messages.{index}.content.{at}: Invalid `signature` in `thinking` block"
            )


def _is_signed(thought: dict[str, Any], model_id: str) -> bool:
    signature = thought.get("signature") or ""
    own = own_signature(signature)
    if own is None:
        return is_sealed(signature)
    return own == (text_digest(model_family(model_id)), text_digest(thought["text"]))


def _unsupported(field: str) -> Refused:
    return Refused(f"This model doesn't support the {field} field. Remove {field} and try again.")


def _check_cache_points(body: dict[str, Any]) -> None:
    tools = (body.get("toolConfig") or {}).get("tools") or []
    marked = [*(body.get("system") or []), *tools, *(block for _, _, block in _blocks(body["messages"]))]
    count = sum("cachePoint" in block for block in marked)
    if count > _CACHE_POINTS:
        raise Refused(
            "The model returned the following errors: A maximum of "
            f"{_CACHE_POINTS} blocks with cache_control may be provided. Found {count}."
        )


def _check_pictures(messages: list[dict[str, Any]]) -> None:
    """What Claude says of a picture that is not what its format says, or too long on a side."""
    found = [
        (f"messages.{index}.content.{at}", image)
        for index, at, block in _blocks(messages)
        for inner in (block, *block.get("toolResult", {}).get("content", ()))
        if (image := inner.get("image")) is not None and isinstance(image["source"].get("bytes"), str)
    ]
    for place, image in found:
        shown, named = picture_of(image["source"]["bytes"]), f"image/{image['format']}"
        if shown is None:
            continue
        said = f"The model returned the following errors: {place}.image.source.base64.data: "
        if shown.media_type != named:
            raise Refused(
                f"{said}The image was specified using the {named} media type, but the image appears to be a"
                f" {shown.media_type} image"
            )
        if limit := too_long(shown, len(found)):
            of_many = " for many-image requests" if limit < MOST_PIXELS else ""
            raise Refused(
                f"{said}At least one of the image dimensions exceed max allowed size{of_many}: {limit} pixels"
            )
