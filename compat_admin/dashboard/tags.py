"""What every template can use without `{% load %}`: sizes, times, durations, foreign text, JSON, addresses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString, mark_safe

from memory.principal import Principal
from memory.processors.compat.catalogue import RULES

register = template.Library()

_UNITS = ("B", "KB", "MB", "GB", "TB")
# Control characters that browsers swallow, halves of characters, which no page can hold, and those that turn the
# reading order of what follows them round.
_ODD = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202d\u202e\ufffd]")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")


@register.filter
def size(byte_count: float | None) -> str:
    """Bytes for people, in thousands: `612 B`, `2.1 KB`, `18 MB`; empty for None."""
    if byte_count is None:
        return ""
    value, unit = float(byte_count), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = f"{value:.1f}".removesuffix(".0") if unit and value < 99.95 else f"{value:.0f}"
    return f"{digits} {_UNITS[unit]}"


@register.filter
def seconds(value: float | None) -> str:
    """A duration for people: `0.3 s`, `12 s`, `4 min 10 s`, `2 h 5 min`; empty for None."""
    if value is None:
        return ""
    if value < 0.01:
        return f"{value * 1000:.1f} ms" if value else "0 s"
    if value < 9.995:
        return f"{value:.2f}".rstrip("0").rstrip(".") + " s"
    if value < 59.95:
        return f"{value:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


@register.filter
def milliseconds(value: float | None) -> str:
    return "" if value is None else seconds(value / 1000)


@register.filter
def count(value: int | None) -> str:
    """A whole number with its thousands marked."""
    return "" if value is None else f"{value:,}"


@register.filter
def plural(value: int, word: str) -> str:
    """`1 change`, `3 changes`; a word of two forms is given as `reply,replies`."""
    one, _, many = word.partition(",")
    return f"{value:,} {one if value == 1 else many or one + 's'}"


@register.filter
def moment(at: datetime | None, style: str = "minute") -> SafeString:
    """A `<time>` in the operator's zone, UTC in its title. Styles: `minute`, `second`, `ago`, `clock`."""
    if at is None:
        return SafeString("")
    local = timezone.localtime(at)
    if style == "ago":
        shown = _ago(local)
    elif style == "clock":
        shown = f"{local:%H:%M:%S}"
    else:
        year = "" if local.year == timezone.localtime().year else f" {local.year}"
        shown = (
            f"{local.day} {local:%b}{year}, {local:%H:%M:%S}"
            if style == "second"
            else (f"{local.day} {local:%b}{year}, {local:%H:%M}")
        )
    exact = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        f"{exact:%Y-%m-%dT%H:%M:%SZ}",
        f"{exact:%Y-%m-%d %H:%M:%S} UTC",
        shown,
    )


def _ago(local: datetime) -> str:
    passed = (timezone.localtime() - local).total_seconds()
    if passed < 60:
        return "now"
    if passed < 3600:
        return f"{passed // 60:.0f} min"
    if passed < 86_400:
        return f"{passed // 3600:.0f} h"
    if passed < 30 * 86_400:
        return f"{passed // 86_400:.0f} d"
    return f"{local.day} {local:%b %Y}"


@register.filter
def foreign(text: Any) -> SafeString:
    """Text that somebody else wrote, escaped; characters that can't be seen or that turn the line are shown by code."""
    return mark_safe(_ODD.sub(_code, conditional_escape(str(text))))


@register.filter
def code_text(text: str) -> SafeString:
    """Foreign text for between tags, never for an attribute: quotes stay, which JSON is full of."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return mark_safe(_ODD.sub(_code, escaped))


@register.filter
def prose(text: str) -> SafeString:
    """Foreign text as paragraphs, each reading in its own direction."""
    paragraphs = [paragraph for paragraph in _BLANK_LINES.split(text) if paragraph.strip()]
    return format_html_join("", '<p dir="auto">{}</p>', ((foreign(paragraph),) for paragraph in paragraphs))


def _code(match: re.Match[str]) -> str:
    code = f"U+{ord(match[0]):04X}"
    return f'<span class="bad-char" title="{unicodedata.name(match[0], "control character").lower()}">{code}</span>'


@register.filter
def address_path(url: str) -> str:
    """What follows the host in an address."""
    try:
        return urlsplit(url).path or url
    except ValueError:
        return url


@register.filter
def rule_address(rule: str) -> str:
    """The page of a rule; for one of this installation, which has none, the catalogue searched for it."""
    if rule in RULES:
        return reverse("rule", args=[rule])
    return f"{reverse('rules')}?{urlencode({'q': rule})}"


@register.filter
def is_rule(name: str) -> bool:
    """Whether the catalogue has a rule of this name."""
    return name in RULES


@register.filter
def lookup(table: Mapping[str, Any], key: str) -> Any:
    """The value of a key that only the data knows; empty without one."""
    return table.get(key, "")


@register.filter
def may(caller: Principal | None, permission: str) -> bool:
    """Whether the operator who looks at the page may do something; nobody may nothing."""
    return caller is not None and caller.may(permission)
