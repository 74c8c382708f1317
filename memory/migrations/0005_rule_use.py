from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("memory", "0004_tokens_roles_idempotency"),
    ]

    operations = [
        migrations.CreateModel(
            name="RuleDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("rule", models.CharField(max_length=100)),
                ("provider", models.CharField(max_length=64)),
                ("protocol", models.CharField(max_length=64)),
                ("last_at", models.DateTimeField()),
                ("requests", models.PositiveIntegerField(default=0)),
                ("changes", models.PositiveIntegerField(default=0)),
                ("findings", models.PositiveIntegerField(default=0)),
            ],
            options={
                "indexes": [models.Index(fields=["rule", "day"], name="rule_day_by_rule")],
                "constraints": [
                    models.UniqueConstraint(fields=("day", "rule", "provider", "protocol"), name="rule_day")
                ],
            },
        ),
        migrations.CreateModel(
            name="RuleUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.CharField(max_length=100)),
                ("thread_id", models.CharField(blank=True, default="", max_length=128)),
                ("provider", models.CharField(max_length=64)),
                ("agent_id", models.CharField(blank=True, default="", max_length=128)),
                ("at", models.DateTimeField(help_text="when it last did anything")),
                ("run_id", models.CharField(help_text="in which run that was", max_length=64)),
                ("changes", models.PositiveIntegerField(default=0, help_text="by the last request")),
                ("findings", models.PositiveIntegerField(default=0, help_text="for the last request")),
                ("changed_at", models.DateTimeField(null=True)),
                (
                    "mended_at",
                    models.DateTimeField(help_text="last change without which the target refuses", null=True),
                ),
                ("reported_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=[
                            "rule",
                            "-at",
                            "thread_id",
                            "provider",
                            "agent_id",
                            "changed_at",
                            "mended_at",
                            "reported_at",
                        ],
                        name="rule_use_by_time",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("thread_id", "rule", "provider", "agent_id"), name="rule_use_in_thread"
                    )
                ],
            },
        ),
    ]
