"""Rows and constraints. No logic: services decide, `store` turns messages into rows and back.

Provider, protocol and rule names are plain texts, so that a new one needs no migration. Message bodies are text kept
exactly as it came; the database archives a closed message's text when it changes (`triggers`).
A foreign key has `db_index=False` where another index begins with it: each index is paid for with every insert.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone


class Agent(models.Model):
    """How turns are run: model, instructions, tools (executed by the caller), three processor lists, limits."""

    id = models.CharField(primary_key=True, max_length=128)
    name = models.CharField(max_length=200)
    model = models.CharField(max_length=300, help_text="provider/model")
    fallback_models = models.JSONField(default=list, help_text="provider/model, in the order in which they are tried")
    instructions = models.TextField(blank=True, default="")
    tools = models.JSONField(default=list)
    settings = models.JSONField(default=dict)
    input_processors = models.JSONField(default=list)
    output_processors = models.JSONField(default=list)
    error_processors = models.JSONField(default=list)
    max_steps = models.PositiveIntegerField(default=5)
    max_processor_retries = models.PositiveIntegerField(null=True, blank=True)
    model_max_retries = models.PositiveIntegerField(default=0)
    capture = models.CharField(max_length=8, default="full", help_text="of its calls' bodies: full, changes or off")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name


class Provider(models.Model):
    """A connection: where a provider is reached and under which name its key is found, never the key."""

    id = models.CharField(primary_key=True, max_length=64)
    protocol = models.CharField(max_length=64)
    base_url = models.CharField(max_length=500, help_text="https://… or sandbox:<provider>")
    key_ref = models.CharField(
        max_length=300, blank=True, default="", help_text="env:NAME, file:/path, aws:… or google:"
    )
    headers = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.id


class Thread(models.Model):
    """One ordered conversation of a resource. The counters are kept current in the transaction that changes them."""

    id = models.CharField(primary_key=True, max_length=128)
    resource_id = models.CharField(max_length=255)
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.SET_NULL, related_name="threads", db_index=False
    )
    title = models.CharField(max_length=500, blank=True, default="")
    metadata = models.JSONField(default=dict)
    imported = models.JSONField(default=dict, help_text="where it came from: lines, system texts, tools")
    message_count = models.PositiveIntegerField(default=0)
    byte_count = models.PositiveBigIntegerField(default=0)
    last_seq = models.PositiveIntegerField(default=0)
    last_activity_at = models.DateTimeField(default=timezone.now)
    last_provider = models.CharField(max_length=64, blank=True, default="")
    last_model = models.CharField(max_length=200, blank=True, default="")
    last_error = models.TextField(blank=True, default="")
    active_run = models.CharField(max_length=64, blank=True, default="", help_text="the one run that may write to it")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes = [
            models.Index(fields=["-last_activity_at", "-id"], name="thread_by_activity"),
            models.Index(fields=["resource_id", "-last_activity_at", "-id"], name="thread_by_resource"),
            models.Index(fields=["last_provider", "-last_activity_at", "-id"], name="thread_by_provider"),
            models.Index(fields=["agent", "-last_activity_at", "-id"], name="thread_by_agent"),
            models.Index(fields=["-last_activity_at", "-id"], name="thread_with_error", condition=~Q(last_error="")),
        ]

    def __str__(self) -> str:
        return self.title or self.id


class MessageText(models.Model):
    """Who wrote a text of a message, shared by its present text and its earlier versions."""

    version = models.PositiveIntegerField(default=1)
    content = models.TextField()
    byte_count = models.PositiveBigIntegerField(default=0)
    written_by = models.CharField(max_length=200, default="", blank=True)
    reason = models.TextField(default="", blank=True)
    rule = models.CharField(max_length=100, default="", blank=True)
    run_id = models.CharField(max_length=64, default="", blank=True)

    class Meta:
        abstract = True


class Message(MessageText):
    """One turn by one role. `seq`, given at save, is the order; `created_at` is only shown and filtered on.

    Open until its run's step closes it: an open message changes without leaving a version.
    """

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="messages", db_index=False)
    message_id = models.CharField(max_length=255, help_text="unique in its thread, never global")
    seq = models.PositiveIntegerField()
    role = models.CharField(max_length=16)
    type = models.CharField(max_length=64, default="text")
    summary = models.JSONField(default=list, help_text="one entry a part: [type, bytes]")
    provider = models.CharField(max_length=64, blank=True, default="")
    protocol = models.CharField(max_length=64, blank=True, default="")
    model_id = models.CharField(max_length=200, blank=True, default="")
    is_open = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["thread", "message_id"], name="message_id_in_thread"),
            models.UniqueConstraint(fields=["thread", "seq"], name="message_seq_in_thread"),
        ]
        indexes = [models.Index(fields=["thread"], name="message_open", condition=Q(is_open=True))]

    def __str__(self) -> str:
        return f"{self.thread_id} #{self.seq}"


class MessageVersion(MessageText):
    """What a closed message was before. Written by the database's own trigger only."""

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="versions", db_index=False)
    archived_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["message", "version"], name="version_of_message")]

    def __str__(self) -> str:
        return f"{self.message_id} v{self.version}"


class Run(models.Model):
    """One turn from request to answer. `input` is stored before the first call; only an expired lease interrupts it.

    Between two calls a run is its row and nothing else: `state` holds all that the next attempt needs.
    """

    id = models.CharField(primary_key=True, max_length=64)
    thread = models.ForeignKey(Thread, null=True, on_delete=models.CASCADE, related_name="runs", db_index=False)
    agent = models.ForeignKey(Agent, null=True, on_delete=models.SET_NULL, related_name="runs", db_index=False)
    agent_name = models.CharField(max_length=200)
    resource_id = models.CharField(max_length=255)
    started_by = models.CharField(max_length=200, default="", blank=True)
    provider = models.CharField(max_length=64)
    model_id = models.CharField(max_length=200)
    status = models.CharField(max_length=16)
    input = models.TextField()
    settings = models.TextField(default="{}")
    state = models.TextField(default="{}", help_text="processor states, retry counts, steps")
    is_own_call = models.BooleanField(default=False, help_text="whoever started it calls the provider")
    due_at = models.DateTimeField(null=True, help_text="it waits till then, and no call is open")
    cancel_asked_at = models.DateTimeField(null=True)
    rules_hash = models.CharField(max_length=64, default="", blank=True)
    finish_reason = models.CharField(max_length=32, default="", blank=True)
    usage = models.JSONField(default=dict)
    message_ids = models.JSONField(default=list)
    error_class = models.CharField(max_length=64, default="", blank=True)
    error_message = models.TextField(default="", blank=True)
    attempt_count = models.PositiveIntegerField(default=0)
    owner = models.CharField(max_length=128, default="", blank=True)
    lease_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True, help_text="when its bodies, details and events were removed")

    class Meta:
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="run_by_time"),
            models.Index(fields=["thread", "-created_at", "-id"], name="run_of_thread"),
            models.Index(fields=["status", "-created_at", "-id"], name="run_by_status"),
            models.Index(fields=["agent", "-created_at", "-id"], name="run_by_agent"),
            models.Index(fields=["resource_id", "-created_at", "-id"], name="run_by_resource"),
            models.Index(fields=["lease_until"], name="run_lease", condition=Q(finished_at=None)),
            models.Index(
                fields=["error_class", "-created_at", "-id"], name="run_by_error", condition=~Q(error_class="")
            ),
            models.Index(fields=["-created_at", "-id"], name="run_with_retries", condition=Q(attempt_count__gt=1)),
            models.Index(fields=["finished_at"], name="run_with_bodies", condition=Q(removed_at=None)),
        ]

    def __str__(self) -> str:
        return self.id


class RunEvent(models.Model):
    """What happened in a run, in order; from these a run that lost its process is closed."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=64)
    data = models.TextField(default="{}")
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="event_seq_in_run")]

    def __str__(self) -> str:
        return f"{self.run_id} {self.seq} {self.type}"


class Attempt(models.Model):
    """One call to a provider: the exact bytes sent, what was changed by which rule, what came, what was decided.

    It is written before the call, open, and completed once: answered, retry, fallback, give-up, cancelled,
    interrupted or stopped. The database refuses every other change (`triggers`). The `…_record` columns say of which
    fragments something is made (`fragments`); older rows hold the whole in the columns without that ending.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts", db_index=False)
    number = models.PositiveIntegerField()
    provider = models.CharField(max_length=64)
    protocol = models.CharField(max_length=64)
    model_id = models.CharField(max_length=200)
    url = models.CharField(max_length=600)
    request_headers = models.JSONField(default=dict)
    request_body = models.BinaryField(default=b"", help_text="zlib")
    request_record = models.BinaryField(default=b"")
    setup_record = models.BinaryField(default=b"", help_text="the agent and the rules that were in force")
    request_size = models.PositiveBigIntegerField(default=0)
    request_sha256 = models.CharField(max_length=64, default="")
    changes = models.TextField(default="[]")
    findings = models.TextField(default="[]")
    changes_record = models.BinaryField(default=b"", help_text="where there are too many for a text")
    findings_record = models.BinaryField(default=b"")
    status = models.PositiveIntegerField(null=True)
    response_headers = models.JSONField(default=dict)
    response_body = models.BinaryField(default=b"", help_text="zlib")
    response_size = models.PositiveBigIntegerField(default=0)
    provider_request_id = models.CharField(max_length=200, default="", blank=True)
    error_class = models.CharField(max_length=64, default="", blank=True)
    error_message = models.TextField(default="", blank=True)
    decision = models.CharField(max_length=16, help_text="open, then what was decided")
    reason = models.TextField(default="", blank=True)
    asked_by = models.CharField(max_length=100, default="", blank=True)
    matched = models.CharField(max_length=200, default="", blank=True)
    delay_wanted_ms = models.FloatField(null=True)
    delay_granted_ms = models.FloatField(null=True)
    slept_ms = models.FloatField(null=True)
    usage = models.JSONField(default=dict)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="attempt_number_in_run")]

    def __str__(self) -> str:
        return f"{self.run_id} attempt {self.number}"


class Fragment(models.Model):
    """A piece of bodies, named by the SHA-256 of what it holds. `used_on` is about the day when it was last needed."""

    key = models.BinaryField(primary_key=True)
    kind = models.PositiveSmallIntegerField(help_text="0 as it is, 1 zlib, 2 the names of other fragments")
    data = models.BinaryField()
    used_on = models.DateField()

    def __str__(self) -> str:
        return bytes(self.key).hex()


class RuleSetting(models.Model):
    """A switch: `off`, `report` or `on` for one rule id; agent beats provider beats global."""

    rule = models.CharField(max_length=100)
    scope = models.CharField(max_length=16, help_text="global, provider or agent")
    scope_id = models.CharField(max_length=128, default="", blank=True)
    state = models.CharField(max_length=8)
    changed_by = models.CharField(max_length=200, default="", blank=True)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rule", "scope", "scope_id"], name="one_switch_per_scope")]

    def __str__(self) -> str:
        return f"{self.rule} {self.state} ({self.scope} {self.scope_id})".strip()


class RuleUse(models.Model):
    """When a rule last acted in a thread for a target, noted as attempts are recorded: what pages of rules count.

    One row however often the thread runs. `thread_id`, `run_id` and `agent_id` are plain texts: counted, never joined.
    """

    rule = models.CharField(max_length=100)
    thread_id = models.CharField(max_length=128, default="", blank=True)
    provider = models.CharField(max_length=64)
    agent_id = models.CharField(max_length=128, default="", blank=True)
    at = models.DateTimeField(help_text="when it last did anything")
    run_id = models.CharField(max_length=64, help_text="in which run that was")
    changes = models.PositiveIntegerField(default=0, help_text="by the last request")
    findings = models.PositiveIntegerField(default=0, help_text="for the last request")
    changed_at = models.DateTimeField(null=True)
    mended_at = models.DateTimeField(null=True, help_text="last change without which the target refuses")
    reported_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["thread_id", "rule", "provider", "agent_id"], name="rule_use_in_thread")
        ]
        indexes = [
            # All that is counted stands in it, so that counting reads no row.
            models.Index(
                fields=["rule", "-at", "thread_id", "provider", "agent_id", "changed_at", "mended_at", "reported_at"],
                name="rule_use_by_time",
            )
        ]

    def __str__(self) -> str:
        return f"{self.rule} in {self.thread_id}"


class RuleDay(models.Model):
    """How often a rule acted on a day (UTC) for a target: a few rows a day, which outlive their threads."""

    day = models.DateField()
    rule = models.CharField(max_length=100)
    provider = models.CharField(max_length=64)
    protocol = models.CharField(max_length=64)
    last_at = models.DateTimeField()
    requests = models.PositiveIntegerField(default=0)
    changes = models.PositiveIntegerField(default=0)
    findings = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["day", "rule", "provider", "protocol"], name="rule_day")]
        indexes = [models.Index(fields=["rule", "day"], name="rule_day_by_rule")]

    def __str__(self) -> str:
        return f"{self.rule} {self.day}"


class RuleProbe(models.Model):
    """What a provider last answered to a rule's example for a model: as the history is, and as the rule makes it.

    A status is null where no answer came; a text is the provider's own, without the key, and empty after a 200.
    """

    rule = models.CharField(max_length=100)
    provider = models.CharField(max_length=64)
    protocol = models.CharField(max_length=64)
    model_id = models.CharField(max_length=200)
    outcome = models.CharField(max_length=16, help_text="holds, not needed, cure fails or no answer")
    raw_status = models.PositiveIntegerField(null=True)
    raw_error = models.TextField(default="", blank=True)
    cured_status = models.PositiveIntegerField(null=True)
    cured_error = models.TextField(default="", blank=True)
    probed_by = models.CharField(max_length=200, default="", blank=True)
    probed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["rule", "provider", "model_id"], name="probe_of_rule_and_model"),
        ]

    def __str__(self) -> str:
        return f"{self.rule} {self.outcome} ({self.provider}/{self.model_id})"


class ApiKey(models.Model):
    """A caller's key: its SHA-256 and prefix, never itself. Without `resource_id` it may act for any resource.

    A token has a `maker`, the key that made it, and ends with it. Requests are counted per `window`, whole minutes.
    """

    name = models.CharField(max_length=200)
    prefix = models.CharField(max_length=16)
    sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list, help_text="of read, write, run, admin")
    resource_id = models.CharField(max_length=255, default="", blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    maker = models.ForeignKey("self", null=True, blank=True, on_delete=models.CASCADE, related_name="tokens")
    window = models.PositiveBigIntegerField(default=0)
    window_count = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class IdempotentAnswer(models.Model):
    """What a request with an `Idempotency-Key` was answered with, for repeats of it; without a status it goes on."""

    owner = models.CharField(max_length=300, help_text="the server key and the resource that it acts for")
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of method, path and body")
    status = models.PositiveIntegerField(null=True)
    content_type = models.CharField(max_length=100, blank=True, default="")
    body = models.BinaryField(default=b"", help_text="zlib")
    run_id = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    held_until = models.DateTimeField(help_text="when whoever works on it is taken for gone")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "key"], name="idempotency_key_of_owner")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_by_time")]

    def __str__(self) -> str:
        return self.key


class AuditEvent(models.Model):
    """Who did what to what, written in the transaction that did it."""

    at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=64)
    target_type = models.CharField(max_length=64)
    target_id = models.CharField(max_length=300)
    detail = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(fields=["-at", "-id"], name="audit_by_time"),
            models.Index(fields=["target_type", "target_id"], name="audit_of_target"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target_id}"


class Job(models.Model):
    """Long work: the row is the truth, the queue only wakes somebody up.

    Whoever does it holds a lease; a job whose lease ran out is queued again, as often as its kind allows.
    """

    id = models.CharField(primary_key=True, max_length=64)
    kind = models.CharField(max_length=64)
    queue = models.CharField(max_length=32, default="runs")
    title = models.CharField(max_length=200, default="", blank=True)
    arguments = models.JSONField(default=dict)
    made_by = models.CharField(max_length=200, default="", blank=True)
    resource_id = models.CharField(max_length=255, default="", blank=True, help_text="empty: any")
    status = models.CharField(max_length=16, default="queued", help_text="queued, running, done, failed or cancelled")
    attempt_count = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(default=timezone.now, help_text="not to be taken before")
    woken_at = models.DateTimeField(null=True, help_text="when somebody was last called for it")
    owner = models.CharField(max_length=160, default="", blank=True)
    lease_until = models.DateTimeField(null=True)
    cancel_asked_at = models.DateTimeField(null=True)
    done_count = models.PositiveBigIntegerField(default=0)
    total_count = models.PositiveBigIntegerField(null=True)
    note = models.CharField(max_length=300, default="", blank=True)
    state = models.JSONField(default=dict, help_text="where another attempt goes on")
    result = models.JSONField(default=dict)
    error = models.TextField(default="", blank=True)
    traceback = models.TextField(default="", blank=True, help_text="of the last failure, keys hidden")
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="job_by_time"),
            models.Index(fields=["status", "-created_at", "-id"], name="job_by_status"),
            models.Index(fields=["status", "due_at"], name="job_due", condition=Q(finished_at=None)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class JobFile(models.Model):
    """What a job was given to read; gone once it is done."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="file", primary_key=True)
    name = models.CharField(max_length=200)
    content = models.BinaryField(help_text="zlib")

    def __str__(self) -> str:
        return self.name


class OperatorPreference(models.Model):
    """What an operator may do, and how it wants pages shown. Whom Django calls a superuser is an admin in any case."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="preference")
    role = models.CharField(max_length=16, default="", blank=True, help_text="viewer, reader, operator or admin")
    theme = models.CharField(max_length=8, default="", blank=True, help_text="light, dark or empty for the system's")
    time_zone = models.CharField(max_length=64, default="", blank=True)

    def __str__(self) -> str:
        return str(self.user)
