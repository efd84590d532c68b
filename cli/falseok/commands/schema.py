"""`falseok schema`: bring a store to the schema of this release, say what that would do, and who may do what in it."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from falseok.consoles import progress, results, write_json
from falseok.errors import CliError
from falseok.options import DataOption, JsonOption
from falseok.plain_text import printable
from falseok.schema_ingest import ConsumersOption, IngestOption, ingest_statements
from falseok.schema_target import database_of, schema_store
from falseok.store_choice import StoreOption, server_address
from falseok.typer_settings import SETTINGS
from falseok_pipeline import schema_users
from falseok_pipeline.client_store import ClientStore
from falseok_pipeline.clock import now_micros
from falseok_pipeline.data_directory import DataDirectory
from falseok_pipeline.kafka_engine import Ingest
from falseok_pipeline.migrations import State
from falseok_pipeline.schema_settings import Change, changes, refused
from falseok_pipeline.schema_variants import USUAL_CODEC, SchemaVariant
from falseok_pipeline.server_store import ServerStore

EXIT_PENDING = 1
_READS = {
    Ingest.CONSUMER: "falseok run --kafka",
    Ingest.KAFKA_ENGINE: "the server's own Kafka engine",
}
app = typer.Typer(**SETTINGS)

ClusterOption = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="NAME",
        envvar="FALSEOK_STORE_CLUSTER",
        help="Run everything ON CLUSTER NAME (a cluster of ClickHouse's configuration).",
    ),
]
ReplicatedOption = Annotated[
    bool,
    typer.Option(
        "--replicated", envvar="FALSEOK_STORE_REPLICATED", help="Replicated tables (needs ClickHouse Keeper)."
    ),
]
ShardedOption = Annotated[
    bool,
    typer.Option(
        "--sharded",
        envvar="FALSEOK_STORE_SHARDED",
        help="Spread rows over the cluster's shards; needs --cluster.",
    ),
]
RetentionOption = Annotated[
    int | None,
    typer.Option(
        "--retention-days",
        metavar="DAYS",
        min=0,
        help="Keep rows so long; 0 is for ever [default: as it is].",
    ),
]
CodecOption = Annotated[
    str | None,
    typer.Option("--codec", metavar="CODEC", help="Pack columns with ZSTD(n), LZ4, LZ4HC(n) or NONE."),
]
DestructiveOption = Annotated[
    bool,
    typer.Option("--allow-destructive", help="Also do what takes data away, such as a shorter retention."),
]


@app.callback()
def schema() -> None:
    """Bring a store to the schema of this release. `falseok run` does so by itself for its own embedded store."""


@app.command("apply", short_help="Apply what is missing.")
def apply(
    store: StoreOption = None,
    cluster: ClusterOption = "",
    replicated: ReplicatedOption = False,
    sharded: ShardedOption = False,
    retention_days: RetentionOption = None,
    codec: CodecOption = None,
    ingest: IngestOption = None,
    kafka_consumers: ConsumersOption = 1,
    allow_destructive: DestructiveOption = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Apply the migrations that are missing, then the settings that are given; applying again changes nothing.

    Give the same --cluster, --replicated and --sharded every time.

    \b
    Examples:
      falseok schema apply --store clickhouses://clickhouse:8443/falseok
      falseok schema apply --cluster main --replicated --retention-days 90
      falseok schema apply --retention-days 30 --allow-destructive
      falseok schema apply --ingest kafka-engine --kafka-consumers 4
    """
    variant = _variant(store, cluster, codec, replicated=replicated, sharded=sharded)
    feeding = _feeding(store, ingest, kafka_consumers, variant)
    with schema_store(store, DataDirectory.resolve(data), variant, create_database=True) as opened:
        migrator = opened.migrator()
        applied = migrator.apply(now_micros(), allow_destructive=allow_destructive)
        wanted = _changes(opened, variant, retention_days, codec)
        if (kept := refused(wanted)) and not allow_destructive:
            raise CliError(
                "This takes data away: " + "; ".join(change.reason for change in kept) + ".",
                hint="Say that it may: --allow-destructive.",
            )
        for change in wanted:
            progress().print(Text(printable(change.statement)), soft_wrap=True)
            opened.command(change.statement)
        for statement in feeding:
            opened.command(statement)
    if as_json:
        changed = [change.reason for change in wanted]
        write_json({"applied": [m.name for m in applied], "changed": changed, "ingest": ingest})
        return
    for migration in applied:
        results().print(f"applied {migration.number:04d}_{migration.name}")
    for change in wanted:
        results().print(Text(f"changed: {printable(change.reason)}"), soft_wrap=True)
    if ingest is not None:
        results().print(f"Kafka is read by: {_READS[ingest]}")
    if not applied and not wanted and not feeding:
        results().print("The schema is that of this release; nothing was to be done.")


@app.command("status", short_help="Which migrations the store has.")
def status(store: StoreOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show every migration of this release and whether the store has it. Exits with 1 when one is missing.

    \b
    Examples:
      falseok schema status --store clickhouses://clickhouse:8443/falseok
      falseok schema status --json
    """
    variant = _variant(store, "", None, replicated=False, sharded=False)
    with schema_store(store, DataDirectory.resolve(data), variant, create_database=False) as opened:
        found = opened.migrator().status()
    if as_json:
        write_json([{"number": m.number, "name": m.name, "state": state.value} for m, state in found])
    else:
        for migration, state in found:
            results().print(f"{migration.number:04d}_{migration.name}  {state.value}")
    if any(state is State.PENDING for _, state in found):
        raise typer.Exit(EXIT_PENDING)


@app.command("plan", short_help="The SQL that apply would run.")
def plan(
    store: StoreOption = None,
    cluster: ClusterOption = "",
    replicated: ReplicatedOption = False,
    sharded: ShardedOption = False,
    retention_days: RetentionOption = None,
    codec: CodecOption = None,
    ingest: IngestOption = None,
    kafka_consumers: ConsumersOption = 1,
    everything: Annotated[
        bool, typer.Option("--all", help="All of this release's SQL, without asking any store.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the SQL that `apply` would run with the same options, and run nothing. What takes data away is marked.

    \b
    Examples:
      falseok schema plan --store clickhouses://clickhouse:8443/falseok --retention-days 30
      falseok schema plan --all --cluster main --replicated --sharded > falseok.sql
      falseok schema plan --ingest kafka-engine
    """
    variant = _variant(store, cluster, codec, replicated=replicated, sharded=sharded)
    feeding = _feeding(store, ingest, kafka_consumers, variant, anywhere=everything)
    if everything:
        from falseok_pipeline.migrations import shipped  # noqa: PLC0415 - the other way asks the store for them

        pending = [
            each for m in shipped() for statement in m.statements() for each in variant.statements(statement)
        ]
        wanted: list[Change] = []
    else:
        with schema_store(store, DataDirectory.resolve(data), variant, create_database=False) as opened:
            migrator = opened.migrator()
            pending = [each for m in migrator.plan() for each in migrator.statements(m)]
            wanted = _changes(opened, variant, retention_days, codec)
    if as_json:
        write_json({"migrations": pending, "changes": wanted, "ingest": feeding})
        return
    for statement in pending:
        typer.echo(f"{statement};\n")
    for change in wanted:
        marked = "-- takes data away: " if change.destructive else "-- "
        typer.echo(f"{marked}{change.reason}\n{change.statement};\n")
    for statement in feeding:
        typer.echo(f"{statement};\n")
    if not pending and not wanted and not feeding:
        progress().print("The schema is that of this release; apply would do nothing.")


@app.command("users", short_help="SQL for users that may do no more than they need.")
def users(
    store: StoreOption = None,
    cluster: ClusterOption = "",
    sharded: ShardedOption = False,
    password_file: Annotated[
        list[str] | None,
        typer.Option(
            "--password-file",
            metavar="USER=FILE",
            help="File that holds the password of writer, rules or reader; repeatable. Without one a user cannot log in.",
        ),
    ] = None,
    apply_now: Annotated[
        bool,
        typer.Option(
            "--apply", help="Run the SQL on the server, as an administrator, and print nothing of it."
        ),
    ] = False,
) -> None:
    """Print the SQL that makes the users falseok_writer (pipelines), falseok_rules (judging, alerts, triage) and
    falseok_reader (Grafana), for an administrator to run. Passwords go in as salted hashes.

    \b
    Examples:
      falseok schema users --password-file writer=writer.txt --password-file reader=reader.txt | clickhouse client
      falseok schema users --cluster main > users.sql
      falseok schema users --apply --password-file rules=rules.txt
    """
    variant = _variant(store, cluster, None, replicated=False, sharded=sharded)
    statements = schema_users.statements(variant, _passwords(password_file or []))
    if not apply_now:
        for statement in statements:
            typer.echo(f"{statement};")
        return
    if (address := server_address(store)) is None:
        raise CliError(
            "The embedded store has no users.", hint="Name a server with --store or FALSEOK_STORE_URL."
        )
    with ServerStore(address) as opened:
        for statement in statements:
            opened.command(statement)
    progress().print(
        f"The users {', '.join(f'falseok_{user}' for user in schema_users.USERS)} are up to date."
    )


def _variant(
    store: str | None, cluster: str, codec: str | None, *, replicated: bool, sharded: bool
) -> SchemaVariant:
    return SchemaVariant(
        cluster=cluster,
        replicated=replicated,
        sharded=sharded,
        database=database_of(store),
        codec=codec or USUAL_CODEC,
    )


def _feeding(
    store: str | None,
    ingest: Ingest | None,
    consumers: int,
    variant: SchemaVariant,
    *,
    anywhere: bool = False,
) -> list[str]:
    server = anywhere or server_address(store) is not None
    return ingest_statements(ingest, consumers, variant, server=server)


def _changes(
    store: ClientStore, variant: SchemaVariant, retention_days: int | None, codec: str | None
) -> list[Change]:
    def query(sql: str) -> list[dict[str, Any]]:
        return store.query(sql)

    return changes(query, variant, retention_days=retention_days, recode=codec is not None)


def _passwords(pairs: list[str]) -> dict[str, str]:
    passwords = {}
    for pair in pairs:
        user, separator, file = pair.partition("=")
        if not separator:
            raise CliError(
                f"--password-file {pair} is not USER=FILE.", hint="For example: writer=/run/secrets/writer"
            )
        passwords[user] = Path(file).read_text(encoding="utf-8").rstrip("\r\n")
        if not passwords[user]:
            raise CliError(
                f"{file} is empty.", hint="A user without a password is let in from nowhere: leave it out."
            )
    return passwords
