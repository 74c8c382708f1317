"""The Celery app, set by the `CELERY_…` settings. Rows are the truth; a task is only a wake-up."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "compat_admin.settings")


def make_app(*, set_as_current: bool = True) -> Celery:
    """A Celery app with the site's settings and tasks. Each knows one set of queues to consume from."""
    made = Celery("compat_admin", set_as_current=set_as_current)
    made.config_from_object("django.conf:settings", namespace="CELERY")
    made.autodiscover_tasks()
    return made


app = make_app()
