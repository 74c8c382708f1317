#!/usr/bin/env python3
"""Sets the project up and runs it, with nothing but a Python 3 on the machine.

python3 run.py demo [--port N] [--data DIR]   the dashboard with demo data on this machine
python3 run.py test [pytest arguments]        the tests; without arguments all, on SQLite and PostgreSQL
python3 run.py check                          formatting, types, imports and templates

The first use makes .venv with Python 3.11 or newer (or with uv) and installs into it; later ones see that it is done.
"""

# This file is read by whatever Python 3 is there, so its syntax stays old: no f-strings, no annotations.
import hashlib
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
WINDOWS = os.name == "nt"
BIN = os.path.join(VENV, "Scripts" if WINDOWS else "bin")
PYTHON = os.path.join(BIN, "python.exe" if WINDOWS else "python")
LOCK = os.path.join(ROOT, "requirements.lock")
NO_PYTHON = (
    "Compat Admin needs Python 3.11 or newer with its venv module, or uv."
    " Debian and Ubuntu: apt-get install python3-venv; macOS: brew install python."
)


def main(arguments):
    commands = {"demo": demo, "test": test, "check": check}
    if not arguments or arguments[0] not in commands:
        sys.stderr.write(__doc__)
        return 2
    return commands[arguments[0]](arguments[1:])


def demo(arguments):
    set_up("")
    return become([PYTHON, os.path.join(ROOT, "manage.py"), "demo"] + arguments)


def test(arguments):
    set_up("dev")
    # The tests make a database of their own; one that the shell names is not theirs to touch.
    for name in ("DATABASE_URL", "DATABASE_URL_FILE"):
        os.environ.pop(name, None)
    pytest = [PYTHON, "-m", "pytest"]
    if arguments:
        return become(pytest + arguments)
    everything = pytest + ["-q", "-n", "2", "--dist", "loadfile"]
    say("tests on SQLite")
    on_sqlite = subprocess.call(everything, cwd=ROOT)
    say("tests that use the database, on PostgreSQL")
    on_postgres = subprocess.call([PYTHON, "-m", "tests.pgrun"] + everything + ["--only-db"], cwd=ROOT)
    return on_sqlite or on_postgres


def check(arguments):
    if arguments:
        sys.stderr.write(__doc__)
        return 2
    set_up("dev")
    tools = [
        ("ruff check", [PYTHON, "-m", "ruff", "check", "."]),
        ("ruff format", [PYTHON, "-m", "ruff", "format", "--check", "."]),
        ("mypy", [PYTHON, "-m", "mypy", "memory", "compat_admin"]),
        ("lint-imports", [os.path.join(BIN, "lint-imports")]),
        ("djlint", [PYTHON, "-m", "djlint", "--lint", "--quiet", "templates"]),
    ]
    # mypy's Django plugin loads the settings, and they ask for a key unless this is a developer's machine.
    environment = dict(os.environ, COMPAT_ADMIN_DEBUG="true")
    failed = []
    for name, command in tools:
        say(name)
        if subprocess.call(command, cwd=ROOT, env=environment) != 0:
            failed.append(name)
    say("failed: " + ", ".join(failed) if failed else "all checks passed")
    return 1 if failed else 0


def set_up(extra):
    """Leave .venv with the project installed: `extra` is "dev" for the tools too, else empty."""
    if any(read(stamp(done)) == fingerprint(done) for done in {extra, "dev"}):
        return
    uv = shutil.which("uv")
    try:
        if not is_python(PYTHON, "sys"):
            make_venv(uv)
        install = [uv, "pip", "install", "-q", "--python", PYTHON] if uv else [PYTHON, "-m", "pip", "install", "-q"]
        target = ROOT + ("[%s]" % extra if extra else "")
        say("installing into .venv")
        subprocess.check_call(install + ["-e", target, "-c", LOCK], cwd=ROOT)
    except subprocess.CalledProcessError as error:
        sys.exit("Set-up failed: %s ended with code %s." % (" ".join(error.cmd), error.returncode))
    with open(stamp(extra), "w") as file:
        file.write(fingerprint(extra))


def make_venv(uv):
    python = find_python()
    if python is None and uv is None:
        sys.exit(NO_PYTHON)
    say("making .venv with " + (python or "uv"))
    if uv:
        subprocess.check_call([uv, "venv", "-q", "--clear", "--python", python or ">=3.11", VENV])
    else:
        subprocess.check_call([python, "-m", "venv", "--clear", VENV])


def find_python():
    """The first Python that is new enough and can make a venv, or None."""
    versions = os.path.join(os.path.expanduser("~"), ".pyenv", "versions")
    pyenv = sorted(os.listdir(versions), reverse=True) if os.path.isdir(versions) else []
    named = [sys.executable, "python3.13", "python3.12", "python3.11", "python3", "/usr/bin/python3"]
    candidates = named + [os.path.join(versions, version, "bin", "python") for version in pyenv]
    # A Debian Python without python3-venv has the venv module, but not what the module needs.
    return next((python for python in candidates if python and is_python(python, "sys, venv, ensurepip")), None)


def is_python(command, modules):
    """Whether `command` runs, is Python 3.11 or newer and has `modules`."""
    test = "import %s; sys.exit(sys.version_info < (3, 11))" % modules
    try:
        return subprocess.call([command, "-c", test], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def stamp(extra):
    return os.path.join(VENV, "installed-" + (extra or "main"))


def fingerprint(extra):
    """What an installation depends on: the folder too, since a moved .venv points at the old one."""
    files = [os.path.join(ROOT, "pyproject.toml"), LOCK]
    text = "\n".join([ROOT, extra] + [read(file) for file in files])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8")
    except (IOError, OSError):
        return ""


def become(command):
    """Run `command` in this process' place, so that signals and the exit code are its own."""
    if WINDOWS:
        return subprocess.call(command)
    sys.stdout.flush()
    os.execv(command[0], command)


def say(text):
    sys.stderr.write("run.py: %s\n" % text)
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
