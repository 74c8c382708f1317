"""The Celery app, set by the `CELERY_…` settings. Rows are the truth; a task is only a wake-up."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "compat_admin.settings")

app = Celery("compat_admin")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
