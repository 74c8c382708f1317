"""The way from the environment to a running site: settings, middleware, health, `run.py`, and what may import what."""

import logging
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import certifi
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path
from hatchling.build import build_wheel

from compat_admin import env, logs
from compat_admin.health import healthz, readyz
from compat_admin.middleware import CONTENT_SECURITY_POLICY
from tests.e2e.processes import environment

ROOT = Path(__file__).resolve().parent.parent
CORE = ("errors", "hosts", "imports", "messages", "processors", "profiles", "providers")


def show(request: HttpRequest) -> HttpResponse:
    """What the middleware put on the request, and who it says the user is."""
    logging.getLogger("tests.show").warning("seen")
    found = [name for name in ("session", "user", "htmx", "_messages") if hasattr(request, name)]
    return HttpResponse(" ".join([*found, str(getattr(request, "user", ""))]).strip())


urlpatterns = [
    path("api/show", show),
    path("show", show),
    path("healthz", healthz),
    path("readyz", readyz),
    path("", include("compat_admin.dashboard.urls")),
]


def settings_in(**variables: str) -> subprocess.CompletedProcess[str]:
    """How loading the settings ends where only `variables` are set."""
    base = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME", "SYSTEMROOT"}}
    return subprocess.run(
        [sys.executable, "-c", "import compat_admin.settings as s; print(s.DATABASES['default']['NAME'], s.DEBUG)"],
        cwd=ROOT,
        env=base | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


_ASKED_OFTEN = """
import django
django.setup()
from django.db import connection
with connection.cursor() as cursor:
    for number in range(9):
        cursor.execute("SELECT %s::int + 1", [number])
        assert cursor.fetchone() == (number + 1,)
    cursor.execute("SELECT count(*) FROM pg_prepared_statements")
    print(cursor.fetchone()[0])
"""


@pytest.mark.django_db
@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite has no server that could keep statements")
@pytest.mark.parametrize(("value", "kept"), [("true", "1"), ("false", "0")])
def test_postgresql_keeps_statements_where_it_is_asked_to(value: str, kept: str) -> None:
    settings = environment(COMPAT_ADMIN_DATABASE_PREPARE=value, DJANGO_SETTINGS_MODULE="compat_admin.settings")
    ran = subprocess.run(
        [sys.executable, "-c", _ASKED_OFTEN], cwd=ROOT, env=settings, capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout.strip(), ran.stderr) == (kept, "")


class TestEnvironment:
    @pytest.mark.parametrize(
        ("read", "value", "sentence"),
        [
            (lambda: env.boolean("X", False), "maybe", "X is 'maybe', but must be true or false."),
            (
                lambda: env.integer("X", 1, minimum=0, maximum=9),
                "10",
                "X is '10', but must be a whole number from 0 to 9.",
            ),
            (lambda: env.integer("X", 1, minimum=0), "-1", "X is '-1', but must be a whole number of 0 or more."),
            (lambda: env.integer("X", 1), "1.5", "X is '1.5', but must be a whole number."),
            (
                lambda: env.seconds("X", 1, minimum=1, maximum=60),
                "nan",
                "X is 'nan', but must be seconds from 1 to 60.",
            ),
            (lambda: env.seconds("X", 1, minimum=1, maximum=60), "5m", "X is '5m', but must be seconds from 1 to 60."),
            (lambda: env.text("X", choices=("a", "b")), "c", "X is 'c', but must be one of a, b."),
            (
                lambda: env.hosts("X", []),
                "a.example,https://b.example",
                "X is 'https://b.example', but must be host names without scheme or path, separated by commas.",
            ),
            (
                lambda: env.origins("X"),
                "b.example",
                "X is 'b.example', but must be origins such as https://admin.example.com, separated by commas.",
            ),
            (
                lambda: env.dotted_paths("X"),
                "pkg.my-mod.Name",
                "X is 'pkg.my-mod.Name', but must be Python names such as package.module.Name, separated by commas.",
            ),
        ],
    )
    def test_refuses_an_odd_value_and_says_what_is_allowed(self, monkeypatch, read, value, sentence):
        monkeypatch.setenv("X", value)
        with pytest.raises(env.SettingRefused) as refused:
            read()
        assert str(refused.value) == sentence

    def test_takes_an_empty_variable_as_absent(self, monkeypatch):
        monkeypatch.setenv("X", " ")
        assert env.integer("X", 7) == 7
        assert env.boolean("X", True) is True
        assert env.secret("X") is None

    def test_reads_good_values(self, monkeypatch):
        monkeypatch.setenv("X", " Yes ")
        assert env.boolean("X", False) is True
        monkeypatch.setenv("X", "0.5")
        assert env.seconds("X", 1, minimum=0, maximum=1) == 0.5
        monkeypatch.setenv("X", "a, b,,")
        assert env.words("X") == ["a", "b"]
        monkeypatch.setenv("X", "http://127.0.0.1:9000/")
        assert env.http_url("X") == "http://127.0.0.1:9000"

    def test_reads_a_proxy_and_refuses_others_without_showing_them(self, monkeypatch):
        assert env.proxy_url("X") == ""
        monkeypatch.setenv("X", "http://user:hush@proxy.example:3128")
        assert env.proxy_url("X") == "http://user:hush@proxy.example:3128"
        for value in ("socks9://user:hush@proxy.example", "user:hush@proxy.example:3128", "http://hush:0"):
            monkeypatch.setenv("X", value)
            with pytest.raises(env.SettingRefused, match=r"^X must be the http or https address") as refused:
                env.proxy_url("X")
            assert "hush" not in str(refused.value)

    def test_reads_a_file_of_certificates(self, monkeypatch, tmp_path):
        assert env.certificates("X") == ""
        monkeypatch.setenv("X", certifi.where())
        assert env.certificates("X") == certifi.where()
        file = tmp_path / "none.pem"
        for content in (None, "", "no certificate"):
            if content is not None:
                file.write_text(content)
            monkeypatch.setenv("X", str(file))
            with pytest.raises(env.SettingRefused, match="in PEM form"):
                env.certificates("X")

    def test_reads_a_secret_from_a_file(self, monkeypatch, tmp_path):
        file = tmp_path / "key"
        file.write_text("from the file\n")
        monkeypatch.setenv("X_FILE", str(file))
        assert env.secret("X") == "from the file"

    @pytest.mark.parametrize("content", [None, ""])
    def test_refuses_a_secret_file_without_a_secret(self, monkeypatch, tmp_path, content):
        file = tmp_path / "key"
        if content is not None:
            file.write_text(content)
        monkeypatch.setenv("X_FILE", str(file))
        with pytest.raises(env.SettingRefused, match="X_FILE"):
            env.secret("X")

    def test_refuses_a_secret_given_twice(self, monkeypatch):
        monkeypatch.setenv("X", "one")
        monkeypatch.setenv("X_FILE", "/two")
        with pytest.raises(env.SettingRefused, match="X and X_FILE are both set"):
            env.secret("X")


class TestDatabaseUrl:
    def test_reads_every_part_of_a_postgresql_address(self, monkeypatch):
        monkeypatch.setenv("X", "postgresql://a%40b:p%2Fw@db.example:6432/rows?sslmode=require")
        found = env.database_url("X", "")
        assert (found.user, found.password, found.host, found.port) == ("a@b", "p/w", "db.example", 6432)
        assert (found.name, found.options, found.is_sqlite) == ("rows", {"sslmode": "require"}, False)
        assert "p/w" not in repr(found)

    def test_starts_a_relative_file_at_the_current_folder(self, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("X", "sqlite:///a%20b.sqlite3")
        assert env.database_url("X", "").name == str(tmp_path / "a b.sqlite3")
        monkeypatch.setenv("X", "sqlite:////var/rows.sqlite3")
        assert env.database_url("X", "").name == "/var/rows.sqlite3"

    @pytest.mark.parametrize(
        "value",
        [
            "mysql://app:hush@db/rows",
            "postgresql://app:hush@db",
            "postgresql://app:hush@db:port/rows",
            "postgresql://app:hush@db:5432/rows?pool=hush",
            "postgresql://app:hush@[db/rows",
            "sqlite:///:memory:",
            "sqlite://hush",
            "sqlite:///",
            "hush",
        ],
    )
    def test_refuses_others_without_showing_them(self, monkeypatch, value):
        monkeypatch.setenv("X", value)
        with pytest.raises(env.SettingRefused, match=r"^X ") as refused:
            env.database_url("X", "")
        assert "hush" not in str(refused.value)

    def test_refuses_an_unknown_broker_without_showing_it(self, monkeypatch):
        monkeypatch.setenv("X", "kafka://user:hush@host")
        with pytest.raises(env.SettingRefused, match=r"^X must begin with .*redis://") as refused:
            env.broker_url("X", "")
        assert "hush" not in str(refused.value)


class TestSettings:
    def test_ask_for_a_secret_key(self):
        ended = settings_in()
        assert ended.returncode != 0
        assert "COMPAT_ADMIN_SECRET_KEY is not set" in ended.stderr

    def test_refuse_a_short_key_without_showing_it(self):
        ended = settings_in(COMPAT_ADMIN_SECRET_KEY="tooshort")
        assert "COMPAT_ADMIN_SECRET_KEY is too short" in ended.stderr
        assert "'tooshort'" not in ended.stderr

    def test_need_nothing_else(self):
        ended = settings_in(COMPAT_ADMIN_SECRET_KEY="k" * 32)
        assert ended.stdout.split() == [str(ROOT / "compat-admin.sqlite3"), "False"], ended.stderr

    def test_manage_py_ends_with_one_sentence(self):
        base = {name: value for name, value in os.environ.items() if not name.startswith("COMPAT_ADMIN_")}
        ended = subprocess.run(
            [sys.executable, ROOT / "manage.py", "check"],
            env=base | {"COMPAT_ADMIN_DEBUG": "perhaps"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ended.returncode == 1
        assert ended.stderr == "COMPAT_ADMIN_DEBUG is 'perhaps', but must be true or false.\n"


@pytest.mark.urls(__name__)
class TestMiddleware:
    def test_gives_pages_a_session_and_the_api_none(self, client, db):
        assert client.get("/show").content == b"session user htmx _messages AnonymousUser"
        assert client.get("/api/show").content == b""

    def test_checks_the_csrf_token_of_pages_only(self):
        strict = Client(enforce_csrf_checks=True)
        assert strict.post("/show").status_code == 403
        assert strict.post("/api/show").status_code == 200

    def test_knows_who_is_logged_in_on_pages_only(self, client, db):
        client.force_login(User.objects.create_user("operator"))
        page, api = client.get("/show"), client.get("/api/show")
        assert page.content.endswith(b" operator")
        assert page.headers["Vary"] == "Cookie"
        assert api.content == b""
        assert "Vary" not in api.headers

    @pytest.mark.parametrize("place", ["/show", "/api/show", "/absent"])
    def test_protects_every_response(self, client, db, place):
        headers = client.get(place).headers
        assert headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"

    def test_keeps_a_sane_request_id(self, client):
        assert client.get("/api/show", headers={"X-Request-ID": "abc-1.2_Z"}).headers["X-Request-ID"] == "abc-1.2_Z"

    @pytest.mark.parametrize("given", ["", "a b", "x" * 101, "é", "a\tb", "a;b"])
    def test_makes_a_request_id_where_none_is_sane(self, client, given):
        first, second = (client.get("/api/show", headers={"X-Request-ID": given}).headers["X-Request-ID"] for _ in "12")
        assert len(first) == 32
        assert first not in {given, second}

    def test_puts_the_request_id_on_log_lines(self, client, caplog):
        caplog.handler.addFilter(logs.RequestIdFilter())
        client.get("/api/show", headers={"X-Request-ID": "mine"})
        client.get("/api/absent", headers={"X-Request-ID": "lost"})
        logging.getLogger("tests.show").warning("outside")
        seen = {record.getMessage(): record.request_id for record in caplog.records}
        assert seen == {"seen": "mine", "Not Found: /api/absent": "lost", "outside": "-"}


@pytest.mark.urls(__name__)
class TestHealth:
    def test_healthz_needs_no_database(self, client):
        assert client.get("/healthz").status_code == 200

    def test_readyz_is_fine_on_a_migrated_database(self, client, db):
        assert client.get("/readyz").status_code == 200

    def test_readyz_counts_what_is_not_applied(self, client, db):
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
        response = client.get("/readyz")
        assert response.status_code == 503
        assert response.content == b"1 migrations are not applied: run `manage.py migrate`.\n"

    def test_readyz_says_that_the_database_is_away(self, client, transactional_db, monkeypatch):
        connection.close()
        with monkeypatch.context() as patch:
            patch.setitem(connection.settings_dict, "NAME", "absent/rows")
            response = client.get("/readyz")
        connection.close()
        assert response.status_code == 503
        assert response.content == b"The database can't be reached.\n"


class TestRunPy:
    @pytest.mark.parametrize("arguments", [[], ["dance"], ["check", "extra"]])
    def test_shows_its_usage(self, arguments):
        ended = subprocess.run(
            [sys.executable, ROOT / "run.py", *arguments], capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == 2
        assert "python3 run.py demo [--port N] [--data DIR]" in ended.stderr

    def test_needs_no_package_and_no_new_syntax(self):
        # -S: without site-packages; feature_version: as an old Python reads it.
        program = "import ast, sys; ast.parse(open(sys.argv[1]).read(), feature_version=(3, 4)); import run"
        ended = subprocess.run(
            [sys.executable, "-S", "-c", program, ROOT / "run.py"], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == 0, ended.stderr

    def test_pins_every_requirement_by_name_only(self):
        lines = (ROOT / "requirements.lock").read_text().splitlines()
        pins = [line.split(" ; ")[0] for line in lines]
        assert len(pins) > 50
        assert [pin for pin in pins if pin.count("==") != 1 or "/" in pin or "@" in pin] == []


class TestDemoSettings:
    def test_keep_to_the_demos_folder(self, tmp_path):
        data = tmp_path / "100% mine?"
        program = (
            "import manage, sys; manage.prepare_demo(sys.argv[1:]);"
            "import compat_admin.settings as s;"
            "print(s.DATABASES['default']['NAME'], s.CELERY_BROKER_URL, s.DEBUG, sep='\\n')"
        )
        variables = {
            "DATABASE_URL": "postgresql://app@production/rows",
            "CELERY_BROKER_URL": "redis://production",
            "COMPAT_ADMIN_SECRET_KEY": "k" * 40,
        }
        keys = set()
        for _ in "12":
            ended = subprocess.run(
                [sys.executable, "-c", program, "--port", "8001", "--data", data],
                cwd=ROOT,
                env=os.environ | variables,
                capture_output=True,
                text=True,
                timeout=60,
            )
            found = ended.stdout.splitlines()
            assert found == [str(data / "demo.sqlite3"), "memory://localhost", "False"], ended.stderr
            keys.add((data / "secret-key").read_text())
        assert len(keys) == 1
        assert (data / "secret-key").stat().st_mode & 0o077 == 0


class TestCore:
    def test_loads_without_django_ninja_and_celery(self):
        program = """
import importlib, pkgutil, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"django", "ninja", "celery", "kombu"}:
            raise ImportError("the core asked for " + name)

sys.meta_path.insert(0, Blocker())
for root in sys.argv[1:]:
    module = importlib.import_module("memory." + root)
    print(module.__name__)
    for found in pkgutil.walk_packages(getattr(module, "__path__", []), module.__name__ + ".", onerror=print):
        importlib.import_module(found.name)
        print(found.name)
"""
        ended = subprocess.run(
            [sys.executable, "-c", program, *CORE], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert ended.returncode == 0, ended.stderr
        files = [file for root in CORE for file in (ROOT / "memory" / root).rglob("*.py")]
        files += [ROOT / "memory" / f"{root}.py" for root in CORE if (ROOT / "memory" / f"{root}.py").exists()]
        names = {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files}
        assert set(ended.stdout.split()) == names


class TestWheel:
    def test_holds_both_packages_with_pages_and_no_tests(self, tmp_path):
        here = Path.cwd()
        os.chdir(ROOT)
        try:
            wheel = build_wheel(str(tmp_path))
        finally:
            os.chdir(here)
        names = zipfile.ZipFile(tmp_path / wheel).namelist()
        tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
        assert tops == {"compat_admin", "memory"}
        for folder in ("templates", "static"):
            expected = {str(file.relative_to(ROOT)) for file in (ROOT / folder).rglob("*") if file.is_file()}
            packed = {
                name.removeprefix("compat_admin/") for name in names if name.startswith(f"compat_admin/{folder}/")
            }
            assert packed == expected
