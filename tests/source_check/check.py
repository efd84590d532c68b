"""Compares the hook table with what the sources of each vLLM say, and names everything that does not fit."""

from collections.abc import Iterable, Iterator

from tests.source_check import targets
from tests.source_check.signatures import Signature, Signatures

from falseok_collector.hooks.connectors import INTERFACE, ONLY_SOME, Connector
from falseok_collector.hooks.hook import Hook


def problems(hooks: Iterable[Hook], signatures: Signatures) -> list[str]:
    """One sentence a problem, with version, hook and symbol; empty when the table fits every version."""
    found: list[str] = []
    hooks = tuple(hooks)
    known = {target for hook in hooks for target in targets.wrapped(hook)}
    for hook in hooks:
        unknown = list(_not_on_file(hook, signatures))
        found += unknown
        if unknown:
            continue
        for version in signatures.versions:
            if hook.versions.includes(version):
                found += [
                    f"vLLM {version}, hook {hook.name}: {text}"
                    for text in _misfits(hook, version, signatures, known)
                ]
    return found


def connector_problems(connectors: Iterable[Connector], signatures: Signatures) -> list[str]:
    """Methods of connectors that are watched and do not fit, by release, connector and method."""
    return [problem for connector in connectors for problem in _of_connector(connector, signatures)]


def _of_connector(connector: Connector, signatures: Signatures) -> Iterator[str]:
    for method, parameters in (INTERFACE | ONLY_SOME).items():
        name = f"{connector.target}.{method}"
        by_version = signatures.functions.get(name, {})
        if missing := sorted(set(signatures.versions) - set(by_version)):
            versions = ", ".join(missing)
            yield f"connector {connector.name}: {name} of vLLM {versions} is not in signatures.json: make signatures"
        for version, signature in sorted(by_version.items()):
            start = f"vLLM {version}, connector {connector.name}: {name}"
            if not connector.versions.includes(version):
                continue
            if signature is None:
                if method in INTERFACE:
                    yield f"{start} does not exist"
                continue
            for parameter in parameters:
                if parameter not in signature.parameters():
                    yield f"{start} has no parameter {parameter}, but {signature.definition}"


def taken(hook: Hook, version: str, signatures: Signatures) -> tuple[str, Signature] | None:
    """The function a hook wraps in a version, the first of its names that the version defines."""
    for target in targets.wrapped(hook):
        signature = signatures.functions[target].get(version)
        if signature is not None and not signature.inherited_from:
            return target, signature
    return None


def _not_on_file(hook: Hook, signatures: Signatures) -> Iterator[str]:
    versions = set(signatures.versions)
    known = {name: set(by_version) for name, by_version in signatures.functions.items()}
    known |= {name: set(by_version) for name, by_version in signatures.attributes.items()}
    for name in (*targets.wrapped(hook), *targets.read_by(hook)):
        if missing := sorted(versions - known.get(name, set())):
            yield (
                f"hook {hook.name}: {name} of vLLM {', '.join(missing)} is not in signatures.json: make signatures"
            )


def _misfits(hook: Hook, version: str, signatures: Signatures, known: set[str]) -> Iterator[str]:
    found = taken(hook, version, signatures)
    if found is None:
        yield _absence(hook, version, signatures)
        return
    target, signature = found
    parameters = signature.parameters()
    for name in hook.parameters:
        if name not in parameters:
            yield f"{target} has no parameter {name}, but {signature.definition}"
    if signature.is_coroutine and hook.around is None:
        yield f"{target} is a coroutine function: its end is not the end of its call"
    for owner in signature.overridden_in:
        if f"{owner}.{target.rpartition('.')[2]}" not in known:
            yield f"{owner} has its own {target.rpartition('.')[2]}, which no hook wraps"
    for name in targets.read_by(hook, version):
        if not signatures.attributes[name][version]:
            yield f"{name} does not exist"


def _absence(hook: Hook, version: str, signatures: Signatures) -> str:
    names = targets.wrapped(hook)
    for target in names:
        signature = signatures.functions[target].get(version)
        if signature is not None:
            return f"{target} is inherited from {signature.inherited_from} and has to be wrapped there"
    return f"{' or '.join(names)} does not exist, although the table says {hook.versions}"
