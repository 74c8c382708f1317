"""What all tests share: their settings, their options, the recorded traffic and the browser."""

import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]

ROOT = Path(__file__).resolve().parent.parent
IN_CI = bool(os.environ.get("CI"))
INSTALL_BROWSER = "apt-get install chromium, or set CHROMIUM to a Chromium or Chrome program"
# A test that asks for one of these, directly or through another fixture, uses rows.
DATABASE_FIXTURES = {
    "db",
    "django_db_reset_sequences",
    "django_db_serialized_rollback",
    "live_server",
    "transactional_db",
}

# This module is loaded before Django's settings are, so they see these values. A worker process of pytest-xdist
# inherits the first process' database; pytest-django gives each worker a name of its own in it.
_own_folder: str | None = None
if "DATABASE_URL" not in os.environ:
    _own_folder = tempfile.mkdtemp(prefix="compat-admin-tests-")
    os.environ["DATABASE_URL"] = f"sqlite:///{_own_folder}/rows.sqlite3"
for _name in [name for name in os.environ if name.startswith(("COMPAT_ADMIN_", "CELERY_"))]:
    del os.environ[_name]
os.environ.update(
    DJANGO_SETTINGS_MODULE="compat_admin.settings",
    # Playwright keeps an event loop in the test's thread, where Django would refuse to touch rows.
    DJANGO_ALLOW_ASYNC_UNSAFE="true",
    COMPAT_ADMIN_SECRET_KEY="only for the tests, where nothing is secret",
    COMPAT_ADMIN_ALLOWED_HOSTS="testserver,localhost,127.0.0.1",
    COMPAT_ADMIN_HTTPS="false",
    # Threads of a test would keep the pool's connections, and its database could not be dropped.
    COMPAT_ADMIN_DATABASE_POOL_SIZE="0",
)

hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if IN_CI else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compat-admin")
    group.addoption(
        "--vectors", action="append", default=[], metavar="FILE", help="case file instead of the built-in ones"
    )
    group.addoption("--recordings", metavar="DIR", help="recorded provider traffic, else ../shared/recordings")
    group.addoption("--all", action="store_true", help="every recorded line where a sample is the default")
    group.addoption("--only-db", action="store_true", help="only tests that use the database")


def pytest_configure(config: pytest.Config) -> None:
    from django.conf import settings

    # The real hashers are slow by design, and tests make many users.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _own_folder is not None:
        shutil.rmtree(_own_folder, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--only-db"):
        config.hook.pytest_deselected(items=[item for item in items if not uses_database(item)])
        items[:] = [item for item in items if uses_database(item)]


def uses_database(item: pytest.Item) -> bool:
    fixtures = DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return bool(fixtures) or item.get_closest_marker("django_db") is not None


@pytest.fixture(scope="session")
def recordings_dir(pytestconfig: pytest.Config) -> Path:
    """The folder of recorded provider traffic, one JSON Lines file a provider."""
    named = pytestconfig.getoption("--recordings")
    # Relative to the caller's folder, as a shell completes it.
    folder = pytestconfig.invocation_params.dir / named if named else ROOT.parent / "shared" / "recordings"
    if not folder.is_dir():
        if IN_CI or named:
            pytest.fail(f"There are no recordings in {folder}.")
        pytest.skip(f"There are no recordings in {folder}; --recordings DIR names another folder.")
    return folder.resolve()


@pytest.fixture
def debug_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """All that the site would log with `COMPAT_ADMIN_LOG_LEVEL=DEBUG`."""
    from compat_admin.logs import configuration

    for name, settings in configuration("DEBUG")["loggers"].items():
        monkeypatch.setattr(logging.getLogger(name), "level", logging.getLevelName(settings["level"]))
    caplog.set_level(logging.DEBUG)  # also makes loggers forget what they had found to be off
    return caplog


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any], playwright: Any) -> dict[str, Any]:
    """How pytest-playwright starts its browser: the system's Chromium, else the one playwright has installed."""
    program = find_chromium()
    if program is None and not Path(playwright.chromium.executable_path).exists():
        if IN_CI:
            pytest.fail(f"There is no browser: {INSTALL_BROWSER}.")
        pytest.skip(f"There is no browser: {INSTALL_BROWSER}.")
    arguments = ["--disable-dev-shm-usage", "--disable-gpu"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium's sandbox refuses root.
    launch = {**browser_type_launch_args, "args": arguments}
    return launch if program is None else {**launch, "executable_path": program}


def find_chromium() -> str | None:
    """A Chromium or Chrome program: `$CHROMIUM`, else the first one found."""
    if named := os.environ.get("CHROMIUM"):
        return named
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    if sys.platform == "darwin":
        names = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", *names)
    return next(filter(None, map(shutil.which, names)), None)
