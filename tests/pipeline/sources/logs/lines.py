"""Lines as vLLM 0.26 to 0.33 write them, for tests that need to know every template."""

from typing import Any

PREFILL_ID = "11111111-aaaa-4000-8000-000000000001"
DECODE_ID = "22222222-bbbb-4000-8000-000000000002"
HASHES = ("ab" * 32, "cd" * 32)


def line(
    message: str,
    *,
    label: str = "Worker",
    pid: int = 31,
    level: str = "ERROR",
    clock: str = "21:35:13",
    place: str = "base_worker.py:933",
) -> str:
    """One line of a process, as `vllm.logger` lays it out."""
    return f"({label} pid={pid}) {level} 11-30 {clock} [{place}] {message}"


def failure(number: int, *, failure_type: str = "handshake_failed", said: str = "", **where: Any) -> str:
    """A failed transfer of request `number` (`_log_failure`; 0.26 to 0.31 may add a sentence to the type)."""
    context = {
        "failure_type": failure_type,
        "request_id": f"chatcmpl-req-{number}-bbbbbbbb",
        "engine_id": DECODE_ID,
        "remote_engine_id": PREFILL_ID,
        "remote_request_id": f"chatcmpl-req-{number}-aaaaaaaa",
        "remote_host": "localhost",
        "remote_port": 5600,
        "num_local_blocks": 4,
        "num_remote_blocks": 4,
        "local_block_ids_sample": [1, 2],
    }
    told = f"{failure_type}. {said}" if said else failure_type
    return line(f"NIXL transfer failure: {told} | Context: {context}", **where)


def handshake_failure(**where: Any) -> str:
    """A failed attempt, which no request is named in."""
    context = {
        "failure_type": "handshake_setup_failed",
        "request_id": None,
        "engine_id": DECODE_ID,
        "remote_engine_id": PREFILL_ID,
    }
    return line(
        f"NIXL transfer failure: handshake_setup_failed | Context: {context}",
        **{"place": "base_worker.py:901"} | where,
    )


def traceback(error: str, *, place: str = "base_worker.py:933", **where: Any) -> list[str]:
    """The lines of an exception behind a failure."""
    told = [
        "Traceback (most recent call last):",
        '  File "nixl/base_worker.py", line 1, in f',
        "    f()",
        error,
    ]
    return [line(text, place=place, **where) for text in told]


def access(status: int = 200, path: str = "/v1/chat/completions", method: str = "POST") -> str:
    """An access line of uvicorn."""
    reason = {200: "OK", 500: "Internal Server Error", 400: "Bad Request"}.get(status, "")
    return f'(APIServer pid=29) INFO:     127.0.0.1:4242 - "{method} {path} HTTP/1.1" {status} {reason}'


def start(role: str, *, version: str = "0.27.0", dtype: str = "torch.bfloat16", extra: str = "") -> list[str]:
    """What an engine says of itself while it starts."""
    engine_id = PREFILL_ID if role == "prefill" else DECODE_ID
    kv_role = "kv_producer" if role == "prefill" else "kv_consumer"
    transfer = (
        f"KVTransferConfig(kv_connector='NixlConnector', engine_id='{engine_id}', kv_role='{kv_role}', "
        "kv_connector_extra_config={}, kv_load_failure_policy='fail')"
    )
    api: dict[str, Any] = {"label": "APIServer", "pid": 29, "level": "INFO", "clock": "21:34:28"}
    core: dict[str, Any] = {"label": "EngineCore", "pid": 30, "level": "INFO", "clock": "21:34:37"}
    worker: dict[str, Any] = {"label": "Worker", "pid": 31, "level": "INFO", "clock": "21:34:53"}
    return [
        line(f"non-default args: {{'port': 8100, {extra}'kv_transfer_config': {transfer}}}", **api),
        line(
            f"Initializing a V1 LLM engine (v{version}) with config: model='tiny', speculative_config=None, "
            f"dtype={dtype}, max_seq_len=1024, tensor_parallel_size=1, kv_cache_dtype=auto, served_model_name=tiny, "
            "compilation_config={'mode': <CompilationMode.NONE: 0>, 'x': [1, (2, 3)]}, kernel_config=K(a=B(c='d'))",
            **core,
        ),
        line(f"Creating v1 connector with name: NixlPullConnector and engine_id: {engine_id}", **worker),
        line(f"Initializing NIXL worker {engine_id}", **worker),
        line("Detected attention backend(s) ['CPU_ATTN']", **worker),
        line("Detected kv cache layout HND", **worker),
    ]


def mismatch() -> str:
    """The exception of a hash mismatch."""
    local, remote = HASHES
    return f"RuntimeError: NIXL compatibility hash mismatch. Local: {local}, Remote: {remote}. Prefill and decode"
