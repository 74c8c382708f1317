"""Every address of the site: the callers' under /api, the operators' beside it."""

from django.urls import include, path

from compat_admin.api import api
from compat_admin.health import healthz, readyz

urlpatterns = [
    path("api/", api.urls),
    path("healthz", healthz),
    path("readyz", readyz),
    path("", include("compat_admin.dashboard.urls")),
]
