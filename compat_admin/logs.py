"""Log lines that carry the request they belong to."""

import logging
from contextvars import ContextVar
from typing import Any

# Set by the request-id middleware for the time of a request; "-" outside of one.
request_id: ContextVar[str] = ContextVar("request_id", default="-")


class RequestIdFilter(logging.Filter):
    """Gives every record a `request_id`."""

    def filter(self, record: logging.LogRecord) -> bool:
        # Django logs a response with status 400 or more when the middleware is through; its record carries the request.
        request = getattr(record, "request", None)
        record.request_id = getattr(request, "request_id", request_id.get())
        return True


_TALKATIVE = ("celery.beat", "celery.worker.strategy", "celery.app.trace")


def configuration(level: str) -> dict[str, Any]:
    """Django's `LOGGING`: one plain line a record on standard error, `level` and up."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"request_id": {"()": RequestIdFilter}},
        "formatters": {"plain": {"format": "{asctime} {levelname} {name} [{request_id}] {message}", "style": "{"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "filters": ["request_id"], "formatter": "plain"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django's own handlers print only in DEBUG or mail administrators; the root's serve both cases.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            # They log the address of every call, and some providers take their key in it.
            "httpx": {"level": "WARNING"},
            "httpcore": {"level": "WARNING"},
            # At DEBUG these write out what they sign, encode or fetch: keys and tokens among it.
            **{name: {"level": "WARNING"} for name in ("botocore", "google", "h2", "hpack", "urllib3")},
            # Three lines a task, and sweeps come every two seconds.
            **({} if level == "DEBUG" else {name: {"level": "WARNING"} for name in _TALKATIVE}),
        },
    }
