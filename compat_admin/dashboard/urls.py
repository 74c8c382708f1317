"""The operators' addresses. All but the login are made by `page`, which lets nobody in who is not logged in."""

from django.urls import path

from compat_admin.dashboard import account, agents, preview, rules, runs, threads
from compat_admin.dashboard.pages import page

FORM = ("POST",)
FORM_PAGE = ("GET", "HEAD", "POST")

urlpatterns = [
    path("login/", account.log_in, name="login"),
    page("logout/", account.log_out, "logout", methods=FORM),
    page("preferences/", account.preferences, "preferences", methods=FORM_PAGE),
    page("", threads.home, "home"),
    page("threads/", threads.thread_list, "threads"),
    page("threads/<str:thread_id>/", threads.thread_page, "thread"),
    page("threads/<str:thread_id>/rename/", threads.rename, "thread-rename", methods=FORM_PAGE),
    page("threads/<str:thread_id>/delete/", threads.delete, "thread-delete", methods=FORM_PAGE),
    page("threads/<str:thread_id>/messages/<int:seq>/", threads.message_file, "message-file"),
    page("threads/<str:thread_id>/messages/<int:seq>/parts/<int:n>/", threads.part_file, "part-file"),
    page("threads/<str:thread_id>/messages/<int:seq>/versions/", threads.versions, "versions"),
    page(
        "threads/<str:thread_id>/messages/<int:seq>/versions/<int:version>/revert/",
        threads.revert,
        "revert",
        methods=FORM_PAGE,
    ),
    page("threads/<str:thread_id>/preview/", preview.thread_preview, "thread-preview"),
    page("threads/<str:thread_id>/preview/request/", preview.thread_request_file, "thread-request-file"),
    page("preview/", preview.paste, "preview", methods=FORM_PAGE),
    page("rules/", rules.rule_list, "rules"),
    page("rules/<str:rule_id>/", rules.switch, "rule-switch", methods=FORM),
    page("runs/", runs.run_list, "runs"),
    page("runs/<str:run_id>/", runs.run_page, "run"),
    page("runs/<str:run_id>/again/", runs.run_again, "run-again", methods=FORM),
    page("runs/<str:run_id>/cancel/", runs.cancel, "run-cancel", methods=FORM),
    page("runs/<str:run_id>/bundle/", runs.bundle_file, "run-bundle"),
    page("runs/<str:run_id>/attempts/<int:number>/<str:which>/", runs.body_file, "attempt-body"),
    page("agents/", agents.agent_list, "agents"),
    page("agents/<str:agent_id>/capture/", agents.capture, "agent-capture", methods=FORM),
]
