"""The site: settings and the two doors.

Importing it makes the Celery app the current one, which queueing by name needs.
"""

from compat_admin.celery import app as celery_app

__all__ = ["celery_app"]
