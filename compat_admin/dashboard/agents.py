"""The agents that are set up, to read; what is kept of their calls can be changed here."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from compat_admin.dashboard.pages import OperatorRequest, caller, listed, render_page
from memory.services import agents as service

PER_PAGE = 40
CAPTURES = (("full", "bodies and changes"), ("changes", "changes only"), ("off", "neither"))


def agent_list(request: OperatorRequest) -> HttpResponse:
    page = service.agents_page(caller(request), request.GET.get("cursor") or None, PER_PAGE)
    context = {"section": "agents", **listed(request, page), "captures": CAPTURES}
    return render_page(request, "agents/list.html", fragment="agents/_rows.html", context=context)


def capture(request: OperatorRequest, agent_id: str) -> HttpResponse:
    """Choose what is kept of an agent's calls from now on."""
    agent = service.update_agent(caller(request), agent_id, {"capture": request.POST.get("capture", "")})
    words = dict(CAPTURES)[agent.capture]
    messages.success(request, f"{agent.name} keeps of its further calls: {words}. Sizes, hashes, decisions are always.")
    return HttpResponseRedirect(reverse("agents"))
