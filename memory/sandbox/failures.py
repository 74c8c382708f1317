"""Failures by name, as each vendor words them: what a script asks for with `failure`.

Every provider has those of `COMMON` that it does not word itself. Source: the vendors' error references and errors
reported by client projects; last seen September 2026.
"""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.sandbox.eventstream import frame
from memory.sandbox.vendors import Vendor
from memory.sandbox.wire import Refused, string_of, to_json


class Failure(Struct, frozen=True):
    """What comes in place of an answer.

    A body that is text is sent as it is, none means the vendor's own for `refused` or for the status. `kind` is the
    vendor's name for the error.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = {}
    refused: Refused | None = None
    kind: str = ""


_PAGE = "<html><head><title>{0}</title></head><body><h1>{0}</h1></body></html>"

COMMON: dict[str, Failure] = {
    "request-timeout": Failure(408, ""),
    "conflict": Failure(409),
    "too-early": Failure(425, ""),
    "bad-gateway": Failure(502, _PAGE.format("502 Bad Gateway")),
    "unavailable": Failure(503, "", {"retry-after": "2"}),
    "gateway-timeout": Failure(504, _PAGE.format("504 Gateway Time-out")),
    "wrong-key": Failure(401),
    "forbidden": Failure(403),
    "no-credit": Failure(402, {"error": {"message": "Insufficient Balance", "type": "billing_error"}}),
    "rate-limit": Failure(429),
    "server-error": Failure(500),
}
"""What any vendor may answer; an empty text is no body at all."""


def _said(status: int, message: str, headers: Mapping[str, str] | None = None, **own: Any) -> Failure:
    return Failure(status, headers=headers or {}, refused=Refused(message, status=status, **own))


def _google(status: int, kind: str, message: str, *details: dict[str, Any]) -> Failure:
    return Failure(status, {"error": {"code": status, "message": message, "status": kind, "details": [*details]}})


_PER_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}],
}
_RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.429760048s"}
_GEMINI = {
    "rate-limit": _google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota. Please retry in 36.4s.", _RETRY),
    "quota": _google(
        429,
        "RESOURCE_EXHAUSTED",
        "Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit 'Gemini 2.5 Pro Requests per day per user"
        " per tier'",
        _PER_DAY,
    ),
    "quota-with-wait": _google(
        429, "RESOURCE_EXHAUSTED", "Quota exceeded. Please retry in 36.429760048s.", _PER_DAY, _RETRY
    ),
    "overloaded": Failure(503),
    "deadline": Failure(504),
    "overflow": _google(
        400,
        "INVALID_ARGUMENT",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    ),
}
_OPENAI_SERVER = "The server had an error while processing your request. Sorry about that!"
_OPENAI = {
    "rate-limit": _said(
        429,
        "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 10000, Used 8554, Requested"
        " 3082. Please try again in 9.816s.",
        {"retry-after-ms": "9816", "retry-after": "10", "x-ratelimit-reset-tokens": "9.816s"},
        kind="tokens",
        code="rate_limit_exceeded",
    ),
    "request-too-large": _said(
        429,
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 31538.",
        kind="tokens",
        code="rate_limit_exceeded",
    ),
    "quota": _said(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        kind="insufficient_quota",
        code="insufficient_quota",
    ),
    "server-error": _said(500, _OPENAI_SERVER, {"x-should-retry": "true"}, kind="server_error", code="server_error"),
    "overloaded": _said(
        503, "The engine is currently overloaded, please try again later", kind="server_error", code="server_error"
    ),
    "overflow": _said(
        400,
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        param="messages",
        code="context_length_exceeded",
    ),
}
_FAILURES: dict[str, dict[str, Failure]] = {
    "anthropic": {
        "rate-limit": Failure(
            429, headers={"retry-after": "7", "anthropic-ratelimit-requests-reset": "2026-03-01T12:00:07Z"}
        ),
        "quota": Failure(
            429,
            {
                "type": "error",
                "error": {
                    "type": "rate_limit_error",
                    "message": "You have reached your specified API usage limits.",
                    "details": {"error_code": "enforced_spend_limit_reached"},
                },
            },
        ),
        "no-credit": _said(400, "Your credit balance is too low to access the Anthropic API"),
        "overloaded": Failure(529),
        "too-large": Failure(413),
        "overflow": _said(400, "prompt is too long: 213462 tokens > 200000 maximum"),
    },
    "openai": _OPENAI,
    "azure": _OPENAI
    | {
        "rate-limit": _said(
            429,
            "Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current pricing"
            " tier. Please retry after 6 seconds.",
            {"retry-after-ms": "6000", "retry-after": "6"},
            kind="",
            code="429",
        ),
        "content-filter": _said(
            400,
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please"
            " modify your prompt and retry.",
            kind="",
            param="prompt",
            code="content_filter",
        ),
    },
    "bedrock": {
        "rate-limit": Failure(429),
        "token-rate-limit": _said(429, "Too many tokens, please wait before trying again.", kind="ThrottlingException"),
        "quota": _said(429, "Too many tokens per day, please wait before trying again.", kind="ThrottlingException"),
        "model-error": Failure(424),
        "overloaded": Failure(503),
        "not-ready": _said(503, "The model is not ready for inference.", kind="ModelNotReadyException"),
        "wrapped": _said(
            400,
            "The model returned the following errors: messages.1: `tool_use` ids must be unique",
            kind="ValidationException",
        ),
        "overflow": _said(400, "Input is too long for requested model.", kind="ValidationException"),
    },
    "gemini": _GEMINI,
    "vertex": _GEMINI | {"rate-limit": Failure(429)},
    "mistral": {
        "rate-limit": Failure(429),
        "capacity": _said(429, "Service tier capacity exceeded for this model.", kind="rate_limited", code="1300"),
        "overflow": _said(
            400,
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            kind="invalid_request_prompt",
            code="3051",
        ),
    },
    "groq": {
        "rate-limit": _said(
            429,
            "Rate limit reached for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on"
            " tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s.",
            {
                "retry-after": "5",
                "x-ratelimit-reset-requests": "2m59.56s",
                "x-ratelimit-reset-tokens": "7.66s",
                "x-ratelimit-remaining-requests": "14370",
                "x-ratelimit-remaining-tokens": "0",
            },
            kind="tokens",
            code="rate_limit_exceeded",
        ),
        "request-too-large": _said(
            413,
            "Request too large for model `llama-3.1-8b-instant` in organization `org_x` service tier `on_demand` on"
            " tokens per minute (TPM): Limit 6000, Requested 6294, please reduce your message size and try again.",
            kind="tokens",
            code="rate_limit_exceeded",
        ),
        "tool-use": _said(
            400,
            "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
            code="tool_use_failed",
        ),
        "overflow": _said(
            400, "Please reduce the length of the messages or completion.", code="context_length_exceeded"
        ),
    },
    "cerebras": {
        "overloaded": Failure(429, headers={"x-ratelimit-reset-requests-day": "33011.38"}),
        "no-body": Failure(400, ""),
    },
    "deepseek": {
        "no-credit": Failure(402),
        "overloaded": Failure(503),
        "overflow": _OPENAI["overflow"],
    },
    "xai": {
        "no-credit": _said(
            429,
            "Your team has either used all available credits or reached its monthly spending limit.",
            code="Some resource has been exhausted",
        ),
        "overflow": _said(400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    },
    "cohere": {"overloaded": Failure(503)},
    "moonshot": {
        "overloaded": _said(
            429, "The engine is currently overloaded, please try again later", kind="engine_overloaded_error"
        ),
        "quota": _said(
            429,
            "You exceeded your current token quota, please check your account balance",
            kind="exceeded_current_quota_error",
        ),
        "overflow": _said(400, "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"),
    },
    "qwen": {
        "overflow": _said(
            400,
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]",
            code="invalid_parameter_error",
        ),
    },
    "zhipu": {
        "rate-limit": Failure(429),
        "frequency": _said(429, "High frequency usage of this API, please reduce frequency", code="1303"),
        "overloaded": _said(429, "The API has triggered rate limiting. Please try again later", code="1305"),
        "no-credit": _said(429, "Your account is in arrears, please recharge and try again", code="1113"),
        "overflow": _said(400, "Prompt exceeds max length", code="1261"),
    },
    "minimax": {
        "rate-limit": Failure(200, {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}),
        "no-credit": Failure(200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
        "bad-input": Failure(200, {"base_resp": {"status_code": 2013, "status_msg": "invalid params"}}),
        "overflow": _said(400, "invalid params, context window exceeds limit (2013)", kind="bad_request_error"),
    },
    "together": {
        "overflow": _said(400, "The input (263000 tokens) is longer than the model's context length (262144 tokens)."),
    },
    "openrouter": {
        "rate-limit": Failure(
            429,
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 429,
                    "metadata": {
                        "raw": "z-ai/glm is temporarily rate-limited upstream. Please retry shortly",
                        "provider_name": "BaseTen",
                    },
                }
            },
        ),
        "upstream": Failure(502, {"error": {"message": "Provider returned error", "code": 502}}),
        "upstream-in-body": Failure(200, {"error": {"message": "Provider returned error", "code": 502}}),
        "wrapped": Failure(
            400,
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 400,
                    "metadata": {
                        "raw": to_json(
                            {
                                "type": "error",
                                "error": {
                                    "type": "invalid_request_error",
                                    "message": "messages.1.content.0: Invalid `signature` in `thinking` block",
                                },
                            }
                        ).decode(),
                        "provider_name": "Anthropic",
                    },
                }
            },
        ),
        "no-credit": Failure(402),
        "overflow": _OPENAI["overflow"],
    },
    "ollama": {
        "overflow": _said(400, "prompt too long; exceeded max context length by 12 tokens"),
    },
    "vllm": {
        "overflow": _said(
            400,
            "This model's maximum context length is 131072 tokens. However, you requested 128000 output tokens and your"
            " prompt contains at least 3073 input tokens",
            kind="BadRequestError",
        ),
    },
}


def names(provider: str) -> frozenset[str]:
    """The failures a provider can show."""
    return frozenset(COMMON).union(_FAILURES.get(provider, {}))


def told(provider: str, name: str, vendor: Vendor, request_id: str) -> Failure:
    """A failure with its body: JSON, or text to be sent as it is."""
    failure = _FAILURES.get(provider, {}).get(name) or COMMON[name]
    refused = failure.refused or vendor.failure(failure.status)
    body = vendor.error_body(refused, request_id) if failure.body is None else failure.body
    return replace(failure, body=body, kind=refused.kind)


def in_stream(vendor: Vendor, failure: Failure) -> bytes:
    """The failure as it comes in the middle of a stream; nothing where its body is no JSON: the stream just ends."""
    return _EVENTS[vendor.errors](failure) if isinstance(failure.body, dict | list) else b""


def _named(name: str, data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), to_json(data))


def _bare(data: Any) -> bytes:
    return b"data: " + to_json(data) + b"\n\n"


def _error(body: Any) -> dict[str, Any]:
    """The part of an error body that names the error."""
    found = body[0] if isinstance(body, list) else body
    inner = found.get("error")
    return inner if isinstance(inner, dict) else found


def _message(body: Any) -> str:
    found = _error(body)
    return string_of(found, "message") or string_of(found, "error")


def _openrouter(failure: Failure) -> bytes:
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    error = {**_error(failure.body), "code": _error(failure.body).get("code") or failure.status}
    return _bare({"object": "chat.completion.chunk", "choices": [choice], "error": error})


def _responses(failure: Failure) -> bytes:
    """A failed response for a fault of the service, a bare event for a limit or a fault of the caller."""
    error = _error(failure.body)
    code = error.get("code") or error.get("type") or "server_error"
    if failure.status >= 500:
        response = {"status": "failed", "error": {"code": code, "message": _message(failure.body)}, "output": []}
        return _named("response.failed", {"type": "response.failed", "sequence_number": 99, "response": response})
    said = {"code": code, "message": _message(failure.body), "param": error.get("param")}
    return _named("error", {"type": "error", "sequence_number": 99, **said})


def _frame(failure: Failure) -> bytes:
    name = (failure.kind or "InternalServerException").removesuffix("Error")
    headers = {
        ":exception-type": name[:1].lower() + name[1:],
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, to_json({"message": _message(failure.body)}))


def _cohere(failure: Failure) -> bytes:
    delta = {"finish_reason": "ERROR", "error": _message(failure.body)}
    return _named("message-end", {"type": "message-end", "delta": delta})


_EVENTS: dict[str, Callable[[Failure], bytes]] = {
    "anthropic": lambda failure: _named("error", failure.body),
    "chat": lambda failure: _bare(failure.body),
    "openrouter": _openrouter,
    "responses": _responses,
    "gemini": lambda failure: _bare(failure.body),
    "frames": _frame,
    "cohere": _cohere,
}
