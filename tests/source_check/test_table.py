"""The hook table fits every supported vLLM, by the signatures on file."""

from collections.abc import Callable

import msgspec
import pytest
from tests.source_check import targets
from tests.source_check.check import connector_problems, problems, taken
from tests.source_check.signatures import Signature, Signatures, read

from falseok_collector.hooks.connectors import CONNECTORS, Connector
from falseok_collector.hooks.hook import Hook
from falseok_collector.hooks.versions import SUPPORTED, Versions

TABLE = targets.table()
ON_FILE = read()
HANDSHAKE = next(hook for hook in TABLE if hook.name == "worker.handshake")
HANDSHAKE_TARGET = targets.wrapped(HANDSHAKE)[0]
RESUME = next(hook for hook in TABLE if hook.name == "core.resume")


def changed(change: Callable[[Signatures], None]) -> Signatures:
    """A copy of the file, changed."""
    copy = msgspec.json.decode(msgspec.json.encode(ON_FILE), type=Signatures)
    change(copy)
    return copy


def test_every_supported_release_is_on_file() -> None:
    """From the first to the last, none left out."""
    first, last = (int(release.removeprefix("0.")) for release in SUPPORTED)
    assert [f"0.{minor}.0" for minor in range(first, last + 1)] == ON_FILE.versions


def test_the_table_fits_every_release() -> None:
    """Each hook finds its function with the parameters it needs, and what its observer reads."""
    assert [] == problems(TABLE, ON_FILE)


def test_every_connector_has_what_the_hooks_rely_on() -> None:
    """Its own or inherited, in every release it is said to be in; LMCache and Mooncake are checked only so."""
    assert [] == connector_problems(CONNECTORS, ON_FILE)


def test_a_connector_that_lost_a_method_is_named() -> None:
    """With the release."""
    mooncake = next(connector for connector in CONNECTORS if connector.name == "MooncakeConnector")
    name = f"{mooncake.target}.get_finished"

    def remove(signatures: Signatures) -> None:
        signatures.functions[name]["0.33.0"] = None

    assert [f"vLLM 0.33.0, connector MooncakeConnector: {name} does not exist"] == connector_problems(
        CONNECTORS, changed(remove)
    )


@pytest.mark.parametrize("method", ["update_state_after_alloc", "request_finished_all_groups"])
def test_a_connector_whose_method_lost_a_parameter_is_named(method: str) -> None:
    """Also one that only some connectors have."""
    mooncake = next(connector for connector in CONNECTORS if connector.name == "MooncakeConnector")
    name, definition = f"{mooncake.target}.{method}", f"def {method}(self, req, blocks, num_external_tokens)"

    def rename(signatures: Signatures) -> None:
        signatures.functions[name]["0.31.0"] = Signature(definition)

    assert [
        f"vLLM 0.31.0, connector MooncakeConnector: {name} has no parameter request, but {definition}"
    ] == connector_problems(CONNECTORS, changed(rename))


def test_a_connector_that_is_not_on_file_is_named() -> None:
    """Who adds one extracts again."""
    new = Connector("New", "vllm.new", "New")
    missing = f"vllm.new:New.on_new_request of vLLM {', '.join(ON_FILE.versions)} is not in signatures.json"
    assert f"connector New: {missing}: make signatures" == connector_problems([new], ON_FILE)[0]


def test_nothing_is_on_file_that_the_table_does_not_name() -> None:
    """What is left of a removed hook would hide in the file."""
    assert targets.functions(TABLE, CONNECTORS) == sorted(ON_FILE.functions)
    assert targets.attributes(TABLE) == sorted(ON_FILE.attributes)


def test_a_hook_of_the_table_that_is_not_on_file_is_named() -> None:
    """Who adds a hook extracts again."""
    hook = Hook("core.new", "vllm.v1.core.sched.scheduler", ("Scheduler.brand_new",), "x", reads=("fresh",))
    versions = ", ".join(ON_FILE.versions)
    module = "vllm.v1.core.sched.scheduler:Scheduler"
    assert [
        f"hook core.new: {module}.{name} of vLLM {versions} is not in signatures.json: make signatures"
        for name in ("brand_new", "fresh")
    ] == problems([hook], ON_FILE)


def test_a_renamed_function_is_named_with_version_and_hook() -> None:
    """Only in the version that renamed it."""

    def rename(signatures: Signatures) -> None:
        signatures.functions[HANDSHAKE_TARGET]["0.31.0"] = None

    assert [
        f"vLLM 0.31.0, hook worker.handshake: {HANDSHAKE_TARGET} does not exist, although the table says 0.26 to 0.33"
    ] == problems(TABLE, changed(rename))


def test_a_removed_parameter_is_named_with_version_and_hook() -> None:
    """Together with what the function looks like now."""
    definition = "def _nixl_handshake(self, host: str, *, expected_engine_id: str) -> tuple"

    def remove(signatures: Signatures) -> None:
        signatures.functions[HANDSHAKE_TARGET]["0.33.0"] = Signature(definition)

    assert [
        f"vLLM 0.33.0, hook worker.handshake: {HANDSHAKE_TARGET} has no parameter port, but {definition}"
    ] == problems(TABLE, changed(remove))


def test_a_function_that_moved_to_a_base_class_is_named_with_where_it_is() -> None:
    """Wrapping it in the class would miss every other class below that base."""

    def move(signatures: Signatures) -> None:
        signatures.functions[HANDSHAKE_TARGET]["0.30.0"] = Signature(inherited_from="vllm.base:Worker")

    assert [
        (
            f"vLLM 0.30.0, hook worker.handshake: {HANDSHAKE_TARGET} is inherited from vllm.base:Worker "
            "and has to be wrapped there"
        )
    ] == problems(TABLE, changed(move))


def test_a_class_below_that_goes_its_own_way_is_named() -> None:
    """Its calls never reach the function that is wrapped; a hook of its own settles that."""
    loop = next(hook for hook in TABLE if hook.name == "core.loop")
    below = "vllm.v1.engine.core:DPEngineCoreProc"
    assert [
        f"vLLM {version}, hook core.loop: {below} has its own run_busy_loop, which no hook wraps"
        for version in ON_FILE.versions
    ] == problems([loop], ON_FILE)


def test_a_function_that_became_a_coroutine_is_named() -> None:
    """Its call would return before anything happened."""

    def make_async(signatures: Signatures) -> None:
        signature = signatures.functions[HANDSHAKE_TARGET]["0.29.0"]
        assert signature is not None
        signatures.functions[HANDSHAKE_TARGET]["0.29.0"] = msgspec.structs.replace(
            signature, definition=f"async {signature.definition}"
        )

    assert [
        (
            f"vLLM 0.29.0, hook worker.handshake: {HANDSHAKE_TARGET} is a coroutine function: "
            "its end is not the end of its call"
        )
    ] == problems(TABLE, changed(make_async))


def test_an_attribute_that_is_gone_is_named_with_version_and_hook() -> None:
    """The observer would raise, or take a default for the truth."""
    name = "vllm.v1.core.sched.scheduler:Scheduler.failed_recving_kv_req_ids"

    def remove(signatures: Signatures) -> None:
        signatures.attributes[name]["0.32.0"] = ""

    assert [
        f"vLLM 0.32.0, hook {hook}: {name} does not exist" for hook in ("core.resume", "core.invalid_blocks")
    ] == problems(TABLE, changed(remove))


@pytest.mark.parametrize(
    ("versions", "expected"), [(Versions("0.26", "0.29"), []), (SUPPORTED, ["0.30.0", "0.33.0"])]
)
def test_a_hook_is_looked_for_only_in_the_releases_it_claims(versions: Versions, expected: list[str]) -> None:
    """A function that is gone has to be said in the table."""
    (target,) = targets.wrapped(RESUME)
    hook = Hook("core.resume", RESUME.module, RESUME.attributes, "x", versions=versions)

    def remove(signatures: Signatures) -> None:
        for version in ("0.30.0", "0.33.0"):
            signatures.functions[target][version] = None

    found = problems([hook], changed(remove))
    assert expected == [problem.removeprefix("vLLM ").partition(",")[0] for problem in found]


def test_the_alternative_that_a_release_has_is_taken() -> None:
    """From 0.30 the runners ask for failed receives as well."""
    hook = next(hook for hook in TABLE if hook.name == "worker.results")
    names = {}
    for version in ON_FILE.versions:
        found = taken(hook, version, ON_FILE)
        assert found is not None
        names[version] = found[0].rpartition(".")[2]
    earlier = dict.fromkeys(("0.26.0", "0.27.0", "0.28.0", "0.29.0"), "get_finished")
    later = dict.fromkeys(("0.30.0", "0.31.0", "0.32.0", "0.33.0"), "get_transfer_results")
    assert earlier | later == names


def test_what_older_releases_lack_is_looked_for_in_later_ones_only() -> None:
    """A result that 0.30 introduced, read where it is there."""
    name = "vllm.v1.outputs:KVConnectorOutput.failed_recving"
    hook = Hook("core.out", RESUME.module, RESUME.attributes, "x", reads=(f"{name} since 0.30",))
    always = Hook("core.out", RESUME.module, RESUME.attributes, "x", reads=(name,))
    assert [] == problems([hook], ON_FILE)
    assert [f"vLLM 0.{minor}.0, hook core.out: {name} does not exist" for minor in range(26, 30)] == problems(
        [always], ON_FILE
    )


def test_a_plain_name_needs_a_class() -> None:
    """A module function has no instance to read from."""
    hook = Hook("worker.hash", "vllm.some", ("compute",), "x", reads=("engine_id",))
    with pytest.raises(ValueError, match=r"hook worker\.hash reads engine_id"):
        targets.read_by(hook)
