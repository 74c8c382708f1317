"""The operators' addresses. Made by `page`, which lets in whose role grants what the page needs."""

from django.urls import path

from compat_admin.dashboard import (
    account,
    agents,
    error_lab,
    jobs,
    keys,
    matrix,
    preview,
    rule,
    rules,
    runs,
    threads,
    users,
)
from compat_admin.dashboard.pages import page
from compat_admin.needs import SIGNED_IN

FORM = ("POST",)
FORM_PAGE = ("GET", "HEAD", "POST")

urlpatterns = [
    path("login/", account.log_in, name="login"),
    path("password/<str:uid>/<str:token>/", users.set_password, name="set-password"),
    page("logout/", account.log_out, "logout", needs=SIGNED_IN, methods=FORM),
    page("preferences/", account.preferences, "preferences", needs=SIGNED_IN, methods=FORM_PAGE),
    page("", threads.home, "home", needs="shape"),
    page("threads/", threads.thread_list, "threads", needs="shape"),
    page("threads/<str:thread_id>/", threads.thread_page, "thread", needs="shape"),
    page("threads/<str:thread_id>/rename/", threads.rename, "thread-rename", needs="write", methods=FORM_PAGE),
    page("threads/<str:thread_id>/delete/", threads.delete, "thread-delete", needs="write", methods=FORM_PAGE),
    page("threads/<str:thread_id>/messages/<int:seq>/", threads.message_file, "message-file", needs="read"),
    page("threads/<str:thread_id>/messages/<int:seq>/parts/<int:n>/", threads.part_file, "part-file", needs="read"),
    page("threads/<str:thread_id>/messages/<int:seq>/versions/", threads.versions, "versions", needs="read"),
    page(
        "threads/<str:thread_id>/messages/<int:seq>/versions/<int:version>/revert/",
        threads.revert,
        "revert",
        needs="write",
        methods=FORM_PAGE,
    ),
    page("threads/<str:thread_id>/preview/", preview.thread_preview, "thread-preview", needs="read"),
    page("threads/<str:thread_id>/preview/request/", preview.thread_request_file, "thread-request-file", needs="read"),
    page("preview/", preview.paste, "preview", needs="read", methods=FORM_PAGE),
    page("rules/", rules.rule_list, "rules", needs="shape"),
    page("rules/matrix/", matrix.matrix_page, "rules-matrix", needs="shape"),
    page("rules/trail/", rules.trail_page, "rules-trail", needs="shape"),
    page("rules/<str:rule_id>/", rule.rule_page, "rule", needs="shape"),
    page("rules/<str:rule_id>/switch/", rules.switch, "rule-switch", needs="operate", methods=FORM),
    page("runs/", runs.run_list, "runs", needs="shape"),
    page("runs/<str:run_id>/", runs.run_page, "run", needs="shape"),
    page("runs/<str:run_id>/again/", runs.run_again, "run-again", needs="run", methods=FORM),
    page("runs/<str:run_id>/cancel/", runs.cancel, "run-cancel", needs="run", methods=FORM),
    page("runs/<str:run_id>/bundle/", runs.bundle_file, "run-bundle", needs="read"),
    page("runs/<str:run_id>/attempts/<int:number>/<str:which>/", runs.body_file, "attempt-body", needs="read"),
    page("keys/", keys.key_list, "keys", needs="admin", methods=FORM_PAGE),
    page("keys/<int:key_id>/revoke/", keys.revoke, "key-revoke", needs="admin", methods=FORM_PAGE),
    page("users/", users.user_list, "users", needs="admin", methods=FORM_PAGE),
    page("users/<int:user_id>/role/", users.role, "user-role", needs="admin", methods=FORM),
    page("users/<int:user_id>/active/", users.active, "user-active", needs="admin", methods=FORM_PAGE),
    page("users/<int:user_id>/link/", users.link, "user-link", needs="admin", methods=FORM),
    page("errors/", error_lab.lab, "error-lab", needs="read", methods=FORM_PAGE),
    page("jobs/", jobs.job_list, "jobs", needs="read"),
    page("jobs/import/", jobs.new_import, "job-import", needs="write", methods=FORM_PAGE),
    page("jobs/preview/", jobs.new_preview, "job-preview", needs="read", methods=FORM_PAGE),
    page("jobs/<str:job_id>/", jobs.job_page, "job", needs="read"),
    page("jobs/<str:job_id>/cancel/", jobs.cancel, "job-cancel", needs="operate", methods=FORM),
    page("jobs/<str:job_id>/retry/", jobs.retry, "job-retry", needs="operate", methods=FORM),
    page("agents/", agents.agent_list, "agents", needs="shape"),
    page("agents/<str:agent_id>/capture/", agents.capture, "agent-capture", needs="admin", methods=FORM),
]
