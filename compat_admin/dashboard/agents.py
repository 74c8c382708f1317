"""The agents that are set up, to read."""

from __future__ import annotations

from django.http import HttpResponse

from compat_admin.dashboard.pages import OperatorRequest, caller, render_page
from memory.services import agents as service

PER_PAGE = 40


def agent_list(request: OperatorRequest) -> HttpResponse:
    page = service.agents_page(caller(request), request.GET.get("cursor") or None, PER_PAGE)
    context = {"section": "agents", "page": page}
    return render_page(request, "agents/list.html", fragment="agents/_rows.html", context=context)
