from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.providers.classify import classify, retry_after_ms

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def error(status: int, body: Any, headers: dict[str, str] | None = None, provider: str = "openai") -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    return classify(provider, status, headers or {}, text, NOW)


def anthropic(kind: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message, **more}, "request_id": "req_1"}


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def google(status: int, message: str, name: str = "RESOURCE_EXHAUSTED", *details: Any) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": name, "details": list(details)}}


PER_DAY = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "RequestsPerDayPerUser"}]}
KEYS = ("error", "message", "code", "status", "type", "detail", "details", "metadata", "raw", "base_resp", "loc", "msg")
IN_45_S = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.837906927s"}

CLASSES: list[tuple[str, int, Any, str, bool]] = [
    # Fatal
    ("wrong key", 401, anthropic("authentication_error", "invalid x-api-key"), "authentication", False),
    ("no right", 403, anthropic("permission_error", "not allowed"), "authentication", False),
    ("no money", 402, {"error": {"message": "Insufficient Balance"}}, "quota", False),
    (
        "quota",
        429,
        openai("You exceeded your current quota, please check your plan", "insufficient_quota"),
        "quota",
        False,
    ),
    ("low credit", 400, anthropic("invalid_request_error", "Your credit balance is too low to access"), "quota", False),
    (
        "spend limit",
        429,
        anthropic("rate_limit_error", "limit", details={"error_code": "enforced_spend_limit_reached"}),
        "quota",
        False,
    ),
    ("bedrock day", 429, {"message": "Too many tokens per day, please wait before trying again."}, "quota", False),
    ("gemini day", 429, google(429, "Quota exceeded", "RESOURCE_EXHAUSTED", PER_DAY), "quota", False),
    ("gemini day, wait", 429, google(429, "Quota", "RESOURCE_EXHAUSTED", PER_DAY, IN_45_S), "quota", True),
    ("moonshot quota", 429, openai("x", None, "exceeded_current_quota_error"), "quota", False),
    ("zhipu balance", 429, {"error": {"code": "1113", "message": "x"}}, "quota", False),
    ("minimax balance", 200, {"base_resp": {"status_code": 1008, "status_msg": "x"}}, "quota", False),
    (
        "filter",
        400,
        openai("The response was filtered due to the prompt triggering Azure OpenAI's content management policy."),
        "content-filter",
        False,
    ),
    ("filter code", 400, openai("x", "content_filter"), "content-filter", False),
    # Too long
    (
        "anthropic long",
        400,
        anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
        "context-length",
        False,
    ),
    ("openai long", 400, openai("too long", "context_length_exceeded"), "context-length", False),
    (
        "gemini long",
        400,
        google(400, "The input token count (9) exceeds the maximum number", "INVALID_ARGUMENT"),
        "context-length",
        False,
    ),
    (
        "body too large",
        413,
        anthropic("request_too_large", "Request exceeds the maximum size"),
        "context-length",
        False,
    ),
    ("html 413", 413, "<html>413</html>", "context-length", False),
    (
        "id too long",
        400,
        openai("maximum context length is 40 tokens: 'messages[2].tool_calls[0].id': string too long"),
        "bad-request",
        False,
    ),
    # Rate
    (
        "openai rate",
        429,
        openai("Rate limit reached on TPM: Limit 10000, Used 8554, Requested 3082.", "rate_limit_exceeded"),
        "rate-limit",
        True,
    ),
    (
        "openai too large",
        429,
        openai("Request too large for gpt-4o on TPM: Limit 30000, Requested 31538.", "rate_limit_exceeded"),
        "rate-limit",
        False,
    ),
    (
        "groq too large",
        413,
        openai("Request too large for model `x` on TPM: Limit 6000, Requested 6294", "rate_limit_exceeded"),
        "rate-limit",
        False,
    ),
    (
        "bedrock throttle",
        429,
        {"__type": "com.amazon#ThrottlingException", "message": "Too many tokens, please wait before trying again."},
        "rate-limit",
        True,
    ),
    (
        "gemini rate",
        429,
        google(429, "You exceeded your current quota, please check your plan", "RESOURCE_EXHAUSTED", IN_45_S),
        "rate-limit",
        True,
    ),
    ("xai", 429, {"code": "Some resource has been exhausted", "error": "slow down"}, "rate-limit", True),
    (
        "xai credits",
        429,
        {"code": "Some resource has been exhausted", "error": "Your team has used all available credits"},
        "quota",
        False,
    ),
    ("xai in a stream", 200, {"code": "Some resource has been exhausted", "error": "slow down"}, "rate-limit", True),
    (
        "qwen in a stream",
        200,
        openai("You have exceeded your current request limit.", "limit_requests"),
        "rate-limit",
        True,
    ),
    ("cohere in a stream", 200, {"message": "Please wait and try again later"}, "rate-limit", True),
    (
        "cohere trial",
        200,
        {"message": "You are using a Trial key, which is limited to 40 API calls / minute."},
        "rate-limit",
        True,
    ),
    ("words of a limit in a fault of the service", 500, {"message": "rate limiter is down"}, "transient", True),
    ("words of a limit in a bad request", 400, openai("no such field: rate_limit", None), "bad-request", False),
    ("rate in 200", 200, {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "rate-limit", True),
    # Overloaded and transient
    ("overloaded", 529, anthropic("overloaded_error", "Overloaded"), "overloaded", True),
    ("overloaded in 200", 200, anthropic("overloaded_error", "Overloaded"), "overloaded", True),
    (
        "cerebras queue",
        429,
        {"message": "high traffic", "type": "too_many_requests_error", "code": "queue_exceeded"},
        "overloaded",
        True,
    ),
    ("api error", 500, anthropic("api_error", "Internal server error"), "transient", True),
    ("html 502", 502, "<html>Bad gateway</html>", "transient", True),
    ("empty 503", 503, "", "transient", True),
    ("timeout", 408, "", "transient", True),
    ("conflict", 409, openai("conflict"), "transient", True),
    ("too early", 425, "", "transient", True),
    ("model error", 424, {"message": "model error"}, "transient", False),
    # The rest
    ("history", 400, anthropic("invalid_request_error", "messages.1: bad"), "bad-request", False),
    ("no model", 404, openai("The model does not exist", "model_not_found"), "bad-request", False),
    (
        "unprocessable",
        422,
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "x"], "msg": "Extra"}]},
        "bad-request",
        False,
    ),
    ("minimax input", 200, {"base_resp": {"status_code": 2013, "status_msg": "x"}}, "bad-request", False),
    ("bedrock validation", 400, {"message": "The model returned the following errors: x"}, "bad-request", False),
    ("cerebras no body", 400, "", "bad-request", False),
]


class TestClass:
    @pytest.mark.parametrize(
        ("status", "body", "error_class", "is_retryable"), [row[1:] for row in CLASSES], ids=[row[0] for row in CLASSES]
    )
    def test_follows_the_order_of_decision(self, status: int, body: Any, error_class: str, is_retryable: bool) -> None:
        found = error(status, body)
        assert (found.error_class, found.is_retryable) == (error_class, is_retryable)

    def test_a_rate_code_inside_another_status_counts_as_429(self) -> None:
        assert error(400, openai("x", "rate_limit_exceeded")).status_code == 429

    def test_the_inner_status_counts(self) -> None:
        body = {"error": {"message": "Provider returned error", "code": 502}}
        assert (error(200, body).status_code, error(200, body).is_retryable) == (502, True)

    def test_the_provider_may_forbid_another_try(self) -> None:
        assert not error(500, openai("x"), {"X-Should-Retry": "false"}).is_retryable
        assert not error(400, openai("x"), {"x-should-retry": "true"}).is_retryable


class TestUnwrap:
    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (anthropic("e", "inner"), "inner"),
            ([{"error": {"message": "inner"}}], "inner"),
            ({"error": "inner"}, "inner"),
            ({"error": "Bad Request", "message": "inner"}, "inner"),
            ({"object": "error", "message": "inner", "code": 400}, "inner"),
            ({"message": json.dumps(anthropic("e", "inner"))}, "inner"),
            (
                {
                    "error": {
                        "message": "litellm.BadRequestError: AnthropicException - "
                        + json.dumps(anthropic("e", "inner"))
                    }
                },
                "inner",
            ),
            (
                {
                    "error": {
                        "message": f"AnthropicException - {json.dumps(anthropic('e', chr(39) + 'inner')).encode()!r}"
                    }
                },
                "'inner",
            ),
            ({"error": {"message": "x " + json.dumps(json.dumps({"error": {"message": "inner"}}))}}, "inner"),
            ({"error": {"message": "Provider returned error", "metadata": {"raw": "inner"}}}, "inner"),
            (
                {"error": {"message": "Provider returned error", "metadata": {"raw": json.dumps(openai("inner"))}}},
                "inner",
            ),
            ({"responseBody": json.dumps(openai("inner"))}, "inner"),
            ({"detail": "inner"}, "inner"),
            ({"detail": [{"loc": ["body", "messages", 6], "msg": "inner"}]}, "body.messages.6: inner"),
            ({"detail": [{"loc": "body", "msg": "inner"}]}, "body: inner"),
            ({"detail": [{"loc": True, "msg": "inner"}]}, "inner"),
            ({"base_resp": {"status_code": 2013, "status_msg": "inner"}}, "inner"),
            (
                {
                    "type": "response.failed",
                    "response": {"status": "failed", "error": {"code": "c", "message": "inner"}},
                },
                "inner",
            ),
            ("just text", "just text"),
            ("", "openai answered 400 without a body"),
            ("<html><body>secret</body></html>", "openai answered 400 with an HTML page"),
        ],
    )
    def test_finds_the_inner_message(self, body: Any, message: str) -> None:
        assert error(400, body).message == message

    def test_keeps_a_message_that_only_quotes_json(self) -> None:
        message = 'parameters did not match: {"name": "x", "arguments": {"message": "hello"}}'
        assert error(400, openai(message)).message == message

    def test_gives_code_request_id_and_what_was_said(self) -> None:
        body = anthropic("invalid_request_error", "x")
        found = error(400, body, {"Set-Cookie": "a=b", "X-Thing": "1"}, "anthropic")
        assert (found.error_code, found.request_id, found.data) == ("invalid_request_error", "req_1", body)
        assert found.response_headers == {"x-thing": "1"}
        assert found.response_body == json.dumps(body)
        assert error(400, body, {"request-id": "req_2"}).request_id == "req_2"

    def test_a_deep_body_is_no_trouble(self) -> None:
        assert error(400, "[" * 100_000).error_class == "bad-request"
        assert error(400, '{"error":' * 500 + '"x"' + "}" * 500).error_class == "bad-request"

    @given(st.text(max_size=200), st.integers(100, 599))
    def test_any_body_has_a_class(self, body: str, status: int) -> None:
        assert classify("openai", status, {}, body, NOW).message

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(KEYS),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=20,
        )
    )
    def test_any_json_has_a_class(self, body: Any) -> None:
        assert classify("openai", 400, {}, json.dumps(body), NOW).error_class


class TestWait:
    @pytest.mark.parametrize(
        ("headers", "message", "wanted"),
        [
            ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1500.0),
            ({"retry-after": "20"}, "", 20_000.0),
            ({"retry-after": "1.5"}, "", 1500.0),
            ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, "", 30_000.0),
            ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, "", 0.0),
            ({"retry-after": "soon"}, "", None),
            ({"retry-after": "-5"}, "", None),
            ({"x-ratelimit-reset-requests": "2m59.56s"}, "", 179_560.0),
            ({"x-ratelimit-reset-tokens": "20ms"}, "", 20.0),
            ({"x-ratelimit-reset-tokens-minute": "12.5"}, "", 12_500.0),
            ({"x-ratelimit-reset": str(int(NOW.timestamp() * 1000) + 4000)}, "", 4000.0),
            (
                {"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "500"},
                "try again in 9.816s.",
                9816.0,
            ),
            (
                {
                    "x-ratelimit-reset-tokens": "1s",
                    "x-ratelimit-remaining-tokens": "0",
                    "x-ratelimit-reset-requests": "6m0s",
                    "x-ratelimit-remaining-requests": "9",
                },
                "",
                1000.0,
            ),
            (
                {
                    "anthropic-ratelimit-tokens-reset": "2026-03-01T12:00:10Z",
                    "anthropic-ratelimit-tokens-remaining": "0",
                },
                "",
                10_000.0,
            ),
            ({}, "Please try again in 4.77s. Need more?", 4770.0),
            ({}, "Please retry in 36.429760048s.", 36_429.760048),
            ({}, "Please retry after 6 seconds.", 6000.0),
            ({}, "Please try again in 1m30s", 90_000.0),
            ({}, "Please try again in 5 models", None),
            ({}, "Please try again soon", None),
        ],
    )
    def test_is_found_where_the_provider_put_it(
        self, headers: dict[str, str], message: str, wanted: float | None
    ) -> None:
        found = retry_after_ms(headers, "", message, NOW)
        assert found == (None if wanted is None else pytest.approx(wanted))

    def test_of_google_keeps_its_fraction(self) -> None:
        found = error(429, google(429, "x", "RESOURCE_EXHAUSTED", IN_45_S))
        assert found.retry_after_ms == pytest.approx(45_837.906927)

    def test_says_nothing_where_no_other_try_helps(self) -> None:
        assert error(400, openai("x"), {"retry-after": "20"}).retry_after_ms is None
