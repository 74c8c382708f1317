"""`compat_admin.wsgi:application`, for any WSGI server."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "compat_admin.settings")

application = get_wsgi_application()
