"""Reads a query out of an HTTP request in ClickHouse's protocol: statement, format, parameters, settings.

Settings a client may send are listed; a limit can only be lowered. Everything else is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from falseok_pipeline.errors import QueryError

_IGNORED = frozenset(
    # They concern a server's connections and sessions; here every request stands alone.
    {
        "database", "session_id", "session_timeout", "session_check", "query_id", "quota_key", "user", "password",
        "role", "compress", "decompress", "buffer_size", "wait_end_of_query", "client_protocol_version",
        "enable_http_compression", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
        "readonly", "cancel_http_readonly_queries_on_client_close",
    }
)  # fmt: skip
LIMITS = frozenset({"max_execution_time", "max_result_rows", "max_result_bytes", "max_memory_usage"})
_ALLOWED_PREFIXES = ("output_format_", "format_", "date_time_output_format")
_SETTING_READONLY = 164


@dataclass(frozen=True)
class QueryRequest:
    """One query as it was asked."""

    sql: str
    format: str = "TabSeparated"
    parameters: Mapping[str, str] = field(default_factory=dict)
    """In ClickHouse's text form, as in `param_<name>`."""
    settings: Mapping[str, str] = field(default_factory=dict)


def parse_request(params: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> QueryRequest:
    """Understand a request; headers have lower-case names.

    Raises:
        QueryError: there is no statement, it is not UTF-8, or a setting is not allowed.
    """
    try:
        statement = "\n".join(part for part in (params.get("query", ""), body.decode()) if part)
    except UnicodeDecodeError as error:
        raise QueryError("The statement is not UTF-8.", code=62) from error
    if not statement.strip():
        raise QueryError("The request has no statement, neither in its body nor in `query`.", code=62)
    settings: dict[str, str] = {}
    parameters: dict[str, str] = {}
    for name, value in params.items():
        if name.startswith("param_"):
            parameters[name.removeprefix("param_")] = value
        elif name in LIMITS or name.startswith(_ALLOWED_PREFIXES):
            settings[name] = value
        elif name not in _IGNORED | {"query", "default_format"}:
            raise QueryError(f"Setting {name} cannot be changed here.", code=_SETTING_READONLY)
    form = params.get("default_format") or headers.get("x-clickhouse-format") or "TabSeparated"
    return QueryRequest(statement, form, parameters, settings)
