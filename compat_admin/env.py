"""Typed values from the environment. Whatever is odd is refused at start, with the variable's name and what is allowed.

An empty variable counts as absent. A secret may stand in a file named by `<NAME>_FILE`, and its value is never shown.
"""

import math
import os
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})

# What libpq may be told in the URL's query; the rest of a connection is said by the URL itself.
POSTGRESQL_OPTIONS = frozenset(
    {
        "application_name",
        "connect_timeout",
        "options",
        "sslcert",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "target_session_attrs",
    }
)


class SettingRefused(Exception):
    """An environment variable that can't be used; the text is one sentence that names it."""


@dataclass(frozen=True, kw_only=True)
class DatabaseUrl:
    """Where the rows are. `name` is a file's absolute path for SQLite, a database's name for PostgreSQL."""

    is_sqlite: bool
    name: str
    user: str = ""
    password: str = field(default="", repr=False)
    host: str = ""
    port: int | None = None
    options: dict[str, str] = field(default_factory=dict)


def text(name: str, default: str = "", *, choices: Collection[str] = ()) -> str:
    """The variable's text, without blanks round it."""
    value = _read(name)
    if value is None:
        return default
    if choices and value not in choices:
        raise _refused(name, value, "one of " + ", ".join(choices))
    return value


def secret(name: str, *, min_length: int = 1) -> str | None:
    """The variable's text or that of the file `<NAME>_FILE` names; None if neither is set."""
    value = _read_secret(name)
    if value is not None and len(value) < min_length:
        raise SettingRefused(f"{name} is too short: {min_length} characters or more are needed.")
    return value


def integer(name: str, default: int, *, minimum: int | None = None, maximum: int | None = None) -> int:
    value = _read(name)
    if value is None:
        return default
    allowed = "a whole number" + _range(minimum, maximum)
    try:
        number = int(value)
    except ValueError:
        raise _refused(name, value, allowed) from None
    if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
        raise _refused(name, value, allowed)
    return number


def seconds(name: str, default: float, *, minimum: float, maximum: float) -> float:
    """A span of time in seconds, fractions allowed."""
    value = _read(name)
    if value is None:
        return default
    allowed = "seconds" + _range(minimum, maximum)
    try:
        number = float(value)
    except ValueError:
        raise _refused(name, value, allowed) from None
    if not math.isfinite(number) or not minimum <= number <= maximum:
        raise _refused(name, value, allowed)
    return number


def boolean(name: str, default: bool) -> bool:
    value = _read(name)
    if value is None:
        return default
    if value.lower() in TRUE:
        return True
    if value.lower() in FALSE:
        return False
    raise _refused(name, value, "true or false")


def words(name: str, default: Collection[str] = ()) -> list[str]:
    """The comma-separated entries, without blanks round them and without empty ones."""
    value = _read(name)
    if value is None:
        return list(default)
    return [word.strip() for word in value.split(",") if word.strip()]


def hosts(name: str, default: Collection[str]) -> list[str]:
    """Host names as Django's `ALLOWED_HOSTS` takes them."""
    found = words(name, default)
    for host in found:
        if "/" in host or any(character.isspace() for character in host):
            raise _refused(name, host, "host names without scheme or path, separated by commas")
    return found


def origins(name: str) -> list[str]:
    """Origins such as `https://admin.example.com`."""
    found = words(name)
    for origin in found:
        parts = urlsplit(origin)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path or parts.query or parts.fragment:
            raise _refused(name, origin, "origins such as https://admin.example.com, separated by commas")
    return found


def dotted_paths(name: str) -> list[str]:
    """Python names such as `package.module.Name`; whether they can be imported is seen when they are used."""
    found = words(name)
    for path in found:
        if "." not in path or not all(part.isidentifier() for part in path.split(".")):
            raise _refused(name, path, "Python names such as package.module.Name, separated by commas")
    return found


def http_url(name: str, default: str = "") -> str:
    """An http(s) address without a slash at its end; it may not hold a user or a password."""
    value = _read(name)
    if value is None:
        return default
    try:
        parts = urlsplit(value)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or "@" in value:
        raise SettingRefused(f"{name} must be an http or https address without user and password.")
    return value.rstrip("/")


def proxy_url(name: str) -> str:
    """An HTTP proxy, `http://user:password@host:port`. Not shown when refused: it may hold a password."""
    value = _read_secret(name)
    if value is None:
        return ""
    try:
        parts = urlsplit(value)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise SettingRefused(f"{name} must be the http or https address of a proxy.")
    return value


def certificates(name: str) -> str:
    """The path of a file with trusted certificates in PEM form."""
    value = _read(name)
    if value is None:
        return ""
    try:
        ssl.create_default_context(cafile=value)
    except OSError:  # also what the ssl module raises for a file that holds no certificate
        raise _refused(name, value, "a file with certificates in PEM form that can be read") from None
    return str(Path(value).absolute())


def broker_url(name: str, default: str) -> str:
    """Celery's broker. Not shown when refused: it may hold a password."""
    value = _read_secret(name)
    if value is None:
        return default
    schemes = ("memory", "redis", "rediss", "amqp", "amqps", "sentinel")
    if "://" not in value or value.split("://", 1)[0] not in schemes:
        raise SettingRefused(f"{name} must begin with one of {', '.join(scheme + '://' for scheme in schemes)}.")
    return value


def database_url(name: str, default: str) -> DatabaseUrl:
    """`sqlite:///relative`, `sqlite:////absolute` or `postgresql://user:password@host:port/name?sslmode=require`.

    A relative SQLite path starts at the current folder. Not shown when refused: it may hold a password.
    """
    value = _read_secret(name) or default
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise SettingRefused(f"{name} is not an address: its host or port can't be read.") from None
    match parts.scheme:
        case "sqlite":
            return _sqlite(name, value)
        case "postgresql" | "postgres":
            database = unquote(parts.path.removeprefix("/"))
            if not database or "/" in database:
                raise SettingRefused(f"{name} must name one database: postgresql://user:password@host:port/name.")
            options = dict(parse_qsl(parts.query, keep_blank_values=True))
            if unknown := sorted(options.keys() - POSTGRESQL_OPTIONS):
                allowed = ", ".join(sorted(POSTGRESQL_OPTIONS))
                raise SettingRefused(f"{name} has the unknown option {unknown[0]!r}; allowed are {allowed}.")
            return DatabaseUrl(
                is_sqlite=False,
                name=database,
                user=unquote(parts.username or ""),
                password=unquote(parts.password or ""),
                host=unquote(parts.hostname or ""),
                port=port,
                options=options,
            )
        case _:
            raise SettingRefused(f"{name} must begin with sqlite:/// or postgresql://.")


def _sqlite(name: str, value: str) -> DatabaseUrl:
    path = unquote(value.removeprefix("sqlite:///"))
    if not value.startswith("sqlite:///") or not path or "?" in value:
        raise SettingRefused(f"{name} must name a file: sqlite:///relative/path or sqlite:////absolute/path.")
    if path == ":memory:" or path.endswith("/"):
        raise SettingRefused(f"{name} must name a file: each thread would see an empty database of its own in memory.")
    return DatabaseUrl(is_sqlite=True, name=str(Path(path).absolute()))


def _read(name: str) -> str | None:
    value = os.environ.get(name, "").strip()
    return value or None


def _read_secret(name: str) -> str | None:
    value, path = _read(name), _read(f"{name}_FILE")
    if value is not None and path is not None:
        raise SettingRefused(f"{name} and {name}_FILE are both set; only one of them may be.")
    if path is None:
        return value
    try:
        content = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingRefused(f"{name}_FILE names {path!r}, which can't be read: {type(error).__name__}.") from None
    if not content:
        raise SettingRefused(f"{name}_FILE names {path!r}, which is empty.")
    return content


def _refused(name: str, value: str, allowed: str) -> SettingRefused:
    return SettingRefused(f"{name} is {value!r}, but must be {allowed}.")


def _range(minimum: float | None, maximum: float | None) -> str:
    match minimum, maximum:
        case None, None:
            return ""
        case _, None:
            return f" of {minimum} or more"
        case None, _:
            return f" of at most {maximum}"
        case _:
            return f" from {minimum} to {maximum}"
