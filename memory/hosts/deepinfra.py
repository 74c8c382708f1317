"""DeepInfra: open models behind OpenAI's chat format."""

from memory.hosts.host import Host, Source

HOST = Host(
    id="deepinfra",
    title="DeepInfra",
    base_url="https://api.deepinfra.com/v1/openai",
    key_variable="DEEPINFRA_API_KEY",
    model_id="meta-llama/Llama-3.3-70B-Instruct",
    list_roles=("user",),
    refuses_with=422,
    sources=(
        Source("base_url", "DeepInfra documentation: OpenAI API", "2026-11-30"),
        Source("list_roles, refuses_with", "huggingface/smolagents#1518", "2026-11-30"),
    ),
)
