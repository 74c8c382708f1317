"""Django's settings, all from the environment. Nothing but COMPAT_ADMIN_SECRET_KEY has to be set.

The variables stand where they are read; `env` refuses odd values with the variable's name.
"""

from pathlib import Path
from typing import Any

from compat_admin import env, logs

PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    """Templates and static files: inside the package when installed from a wheel, beside it in a checkout."""
    packaged = PACKAGE / name
    return packaged if packaged.is_dir() else PACKAGE.parent / name


# The site

DEBUG = env.boolean("COMPAT_ADMIN_DEBUG", False)

_secret_key = env.secret("COMPAT_ADMIN_SECRET_KEY", min_length=32)
if _secret_key is None and not DEBUG:
    raise env.SettingRefused(
        "COMPAT_ADMIN_SECRET_KEY is not set: give it 32 or more random characters, or name a file with them in"
        " COMPAT_ADMIN_SECRET_KEY_FILE. It signs sessions, so every process needs the same one."
    )
SECRET_KEY = _secret_key or "only for COMPAT_ADMIN_DEBUG on a developer's machine"

ALLOWED_HOSTS = env.hosts("COMPAT_ADMIN_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.origins("COMPAT_ADMIN_CSRF_TRUSTED_ORIGINS")

ROOT_URLCONF = "compat_admin.urls"
WSGI_APPLICATION = "compat_admin.wsgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "ninja",  # Serves the files of /api/docs from here; without it that page loads them from a CDN.
    "memory.apps.MemoryConfig",
]

# The classes named Page… do nothing under /api.
MIDDLEWARE = [
    "compat_admin.middleware.RequestId",
    "django.middleware.security.SecurityMiddleware",
    "compat_admin.middleware.ContentSecurityPolicy",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.common.CommonMiddleware",
    "compat_admin.middleware.PageSession",
    "compat_admin.middleware.PageCsrf",
    "compat_admin.middleware.PageAuthentication",
    "compat_admin.middleware.PageMessages",
    "compat_admin.middleware.PageHtmx",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [_folder("templates")],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Static files are served straight from the packages, unless COMPAT_ADMIN_STATIC_ROOT names a folder for
# `collectstatic`: then under names with a hash, which browsers keep for good.

STATIC_URL = "/static/"
STATICFILES_DIRS = [_folder("static")]
STATIC_ROOT = env.text("COMPAT_ADMIN_STATIC_ROOT") or None
WHITENOISE_USE_FINDERS = STATIC_ROOT is None
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if STATIC_ROOT and not DEBUG
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# Rows

_database_url = env.database_url("DATABASE_URL", "sqlite:///compat-admin.sqlite3")
# Connections a process may hold; 0 keeps none. The server must allow that many for each process, Celery's included.
_pool_size = env.integer("COMPAT_ADMIN_DATABASE_POOL_SIZE", 8, minimum=0, maximum=1000)
# Not unless it is asked for: a pooler that gives each transaction another connection would mix the statements up.
_prepares = env.boolean("COMPAT_ADMIN_DATABASE_PREPARE", False)


def _database() -> dict[str, Any]:
    if _database_url.is_sqlite:
        return {
            "ENGINE": "compat_admin.sqlite",
            "NAME": _database_url.name,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 5,  # seconds a writer waits for another one
                "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
            },
            # A file: tables in memory are locked for a second thread, however long it waits.
            "TEST": {"NAME": f"{_database_url.name}-test"},
        }
    options: dict[str, Any] = dict(_database_url.options)
    if _prepares:
        # What a connection executes for the fifth time is parsed and planned for the last time.
        options |= {"server_side_binding": True, "prepare_threshold": 5}
    if _pool_size:
        # Who finds all in use waits in a queue: when hundreds of runs are started at once, for many seconds.
        options["pool"] = {"min_size": min(2, _pool_size), "max_size": _pool_size, "timeout": 60}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database_url.name,
        "USER": _database_url.user,
        "PASSWORD": _database_url.password,
        "HOST": _database_url.host,
        "PORT": _database_url.port or "",
        "OPTIONS": options,
    }


DATABASES = {"default": _database()}

# Who comes in

LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

# Whether operators reach the site by https. Off, cookies also travel over http: for one's own machine.
HTTPS = env.boolean("COMPAT_ADMIN_HTTPS", not DEBUG)
# Only behind a proxy that sets X-Forwarded-Proto itself: else any client could claim https.
if env.boolean("COMPAT_ADMIN_TRUST_X_FORWARDED_PROTO", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
# Names of their own: cookies know no port, and other sites run on this host.
SESSION_COOKIE_NAME = "compat_admin_session"
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_NAME = "compat_admin_csrf"
CSRF_COOKIE_SECURE = HTTPS
CSRF_COOKIE_HTTPONLY = True
SILENCED_SYSTEM_CHECKS = [
    "security.W002",  # The policy's frame-ancestors does what the X-Frame-Options middleware would.
    "security.W003",  # The CSRF middleware is there, as PageCsrf.
    "security.W008",  # The redirect to https is the proxy's.
]

# Tasks

CELERY_BROKER_URL = env.broker_url("CELERY_BROKER_URL", "memory://localhost")
# Redis hands a task out again when it was not confirmed for this long. That may come while it is still at work: rows
# say who has what, so a task that comes twice does nothing twice, and a lease, not this, finds work that was lost.
_longest_task_s = env.integer("COMPAT_ADMIN_LONGEST_TASK_S", 3600, minimum=60, maximum=86_400)
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {}
if CELERY_BROKER_URL.startswith("memory:"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {"polling_interval": 0.02}
elif CELERY_BROKER_URL.startswith(("redis", "sentinel")):
    # By default kombu looks for lost tasks about every 100 s only.
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "visibility_timeout": _longest_task_s,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
        "unacked_mutex_expire": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
    }
# A broker may be away for as long as it likes; who queues something meanwhile is not held up by it for long.
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_CONNECTION_TIMEOUT = 2
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.1}
CELERY_TASK_ROUTES = {"memory.run_in_background": {"queue": "runs"}}  # they may wait long
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_TIMEZONE = TIME_ZONE
# The schedule is this dict and nothing else, so none is kept in a file.
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"
CELERY_BEAT_SCHEDULE = {
    "sweep": {
        "task": "memory.sweep",
        "schedule": 2.0,
        "options": {"expires": 10},  # While no worker is there, only the newest waits.
    },
    "forget-old": {"task": "memory.forget_old", "schedule": 3600.0, "options": {"expires": 3600}},
    "remove-expired-bodies": {
        "task": "memory.remove_expired_bodies",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
}

# Logs

LOGGING = logs.configuration(
    env.text("COMPAT_ADMIN_LOG_LEVEL", "INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))
)

# The product

# What this process is for: `all`, `web` (never holds a call to a provider), `runner` or `worker`. `serve` sets it.
COMPAT_ADMIN_ROLE = env.text("COMPAT_ADMIN_ROLE", "all", choices=("all", "web", "runner", "worker"))
# Runs a process has at once, waiting ones too, and calls to providers at once; beyond the first a start is 503.
COMPAT_ADMIN_MAX_RUNS = env.integer("COMPAT_ADMIN_MAX_RUNS", 1000, minimum=1, maximum=100_000)
COMPAT_ADMIN_MAX_CALLS = env.integer("COMPAT_ADMIN_MAX_CALLS", 300, minimum=1, maximum=5000)
# Threads that work on runs before, between and after their calls.
COMPAT_ADMIN_RUN_THREADS = env.integer("COMPAT_ADMIN_RUN_THREADS", 4, minimum=1, maximum=1000)
# Callers that read events, or wait in a process that does not run their run itself; beyond it 503.
COMPAT_ADMIN_MAX_READERS = env.integer("COMPAT_ADMIN_MAX_READERS", 1000, minimum=1, maximum=100_000)
# Threads for pages and short requests.
COMPAT_ADMIN_WEB_THREADS = env.integer("COMPAT_ADMIN_WEB_THREADS", 8, minimum=1, maximum=1000)
# How long whoever makes the call of a prepared run may take to report before the run is closed as interrupted.
COMPAT_ADMIN_OWN_CALL_LEASE_S = env.integer("COMPAT_ADMIN_OWN_CALL_LEASE_S", 900, minimum=5, maximum=86_400)

# A run whose process has not renewed its lease for this long is closed as interrupted.
COMPAT_ADMIN_RUN_LEASE_S = env.integer("COMPAT_ADMIN_RUN_LEASE_S", 30, minimum=5, maximum=3600)
# A job whose worker has not renewed its lease for this long is given to another one.
COMPAT_ADMIN_JOB_LEASE_S = env.integer("COMPAT_ADMIN_JOB_LEASE_S", 10, minimum=2, maximum=3600)
# Days for which bodies, details and events of runs are kept; 0 keeps them for good. What was called and decided stays.
COMPAT_ADMIN_KEEP_FAILED_DAYS = env.integer("COMPAT_ADMIN_KEEP_FAILED_DAYS", 30, minimum=0, maximum=36_500)
COMPAT_ADMIN_KEEP_ANSWERED_DAYS = env.integer("COMPAT_ADMIN_KEEP_ANSWERED_DAYS", 7, minimum=0, maximum=36_500)
# How long a provider may stay silent.
COMPAT_ADMIN_PROVIDER_TIMEOUT_S = env.seconds("COMPAT_ADMIN_PROVIDER_TIMEOUT_S", 300, minimum=1, maximum=3600)
# On the way to providers: a proxy in place of the environment's, and certificates in place of the usual ones.
COMPAT_ADMIN_PROVIDER_PROXY = env.proxy_url("COMPAT_ADMIN_PROVIDER_PROXY")
COMPAT_ADMIN_PROVIDER_CA_FILE = env.certificates("COMPAT_ADMIN_PROVIDER_CA_FILE")
COMPAT_ADMIN_MAX_BODY_BYTES = env.integer(
    "COMPAT_ADMIN_MAX_BODY_BYTES", 64 * 1024 * 1024, minimum=1024, maximum=1024 * 1024 * 1024
)
DATA_UPLOAD_MAX_MEMORY_SIZE = COMPAT_ADMIN_MAX_BODY_BYTES
# Requests a key may make a minute; 0: as many as it likes.
COMPAT_ADMIN_RATE_LIMIT = env.integer("COMPAT_ADMIN_RATE_LIMIT", 30_000, minimum=0, maximum=1_000_000_000)
# Where connections named `sandbox:<provider>` go; empty: there is no sandbox.
SANDBOX_URL = env.http_url("COMPAT_ADMIN_SANDBOX_URL")
# Processors of one's own that agents may name.
COMPAT_ADMIN_PROCESSORS = env.dotted_paths("COMPAT_ADMIN_PROCESSORS")
