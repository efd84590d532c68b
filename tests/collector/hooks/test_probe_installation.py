"""What is wrapped and what is not, and that taking a probe away leaves nothing behind."""

import inspect
import types
from typing import Any

import pytest
import uvicorn
from tests.collector.hooks.reports import Report, Reports

from falseok_collector.hooks.probe import Call, Probe


def probe(**observers: Any) -> Probe:
    """A probe that reports to a list."""
    return Probe("core.step", "engine:Engine.step", **{"report": Reports(), **observers})


class Base:
    """A class of vLLM and what may be found in one."""

    def method(self, request: str) -> str:
        """An ordinary method."""
        return f"base {request}"

    @classmethod
    def on_class(cls, request: str) -> str:
        """A class method."""
        return f"{cls.__name__} {request}"

    @staticmethod
    def plain(request: str) -> str:
        """A static method."""
        return f"plain {request}"


class Derived(Base):
    """A subclass that extends what is wrapped in its base."""

    def method(self, request: str) -> str:
        """Calls the base."""
        return f"derived {super().method(request)}"


def test_a_missing_function_is_reported() -> None:
    """Another vLLM: the probe says what it cannot give, and wraps nothing."""
    reports = Reports()
    wrapping = probe(report=reports)
    assert not wrapping.install(Base, "absent")
    assert "unavailable" == wrapping.state
    assert [Report("core.step", "engine:Engine.step", "missing_symbol", "absent does not exist")] == reports


def test_a_missing_parameter_is_reported() -> None:
    """An observer that would read the wrong argument is worse than none."""
    reports = Reports()
    wrapping = probe(report=reports)
    original = vars(Base)["method"]
    assert not wrapping.install(Base, "method", ("request", "tokens"))
    assert ("signature", "parameter tokens is not there") == (reports[0].reason, reports[0].detail)
    assert vars(Base)["method"] is original


def test_what_cannot_be_wrapped_is_reported() -> None:
    """A built-in type refuses new attributes."""
    reports = Reports()
    assert not probe(report=reports).install(dict, "get")
    assert "signature" == reports[0].reason
    assert reports[0].detail.startswith("cannot be wrapped: ")


@pytest.mark.parametrize("name", ["method", "on_class", "plain", "__init__"])
@pytest.mark.parametrize("owner", [Base, Derived])
def test_uninstalling_restores_by_identity(owner: type, name: str) -> None:
    """The very object is back where it was, and an inherited one is inherited again."""
    absent = object()
    original = vars(owner).get(name, absent)
    wrapping = probe()
    assert wrapping.install(owner, name)
    assert vars(owner)[name] is not original
    wrapping.uninstall()
    assert vars(owner).get(name, absent) is original
    wrapping.uninstall()
    assert vars(owner).get(name, absent) is original
    assert "pending" == wrapping.state


def test_installing_twice_wraps_once() -> None:
    """vLLM loads plug-ins several times."""
    seen: list[Call] = []
    wrapping = probe(before=seen.append)
    assert wrapping.install(Base, "method")
    assert wrapping.install(Base, "method")
    try:
        Base().method("r")
    finally:
        wrapping.uninstall()
    assert 1 == len(seen)


def test_a_subclass_that_calls_its_base_is_seen_once_with_its_own_instance() -> None:
    """Pull and push connectors extend what is wrapped in their common base."""
    seen: list[tuple[Any, Any]] = []
    wrapping = probe(before=lambda call: seen.append((call.instance, call.argument("request"))))
    wrapping.install(Base, "method", ("request",))
    derived = Derived()
    try:
        assert "derived base r" == derived.method("r")
    finally:
        wrapping.uninstall()
    assert [(derived, "r")] == seen


@pytest.mark.parametrize(("name", "expected"), [("on_class", "Derived r"), ("plain", "plain r")])
def test_class_and_static_methods_stay_what_they_are(name: str, expected: str) -> None:
    """Called on a class and on an instance, with their arguments found by name."""
    seen: list[Any] = []
    wrapping = probe(before=lambda call: seen.append(call.argument("request")))
    wrapping.install(Base, name, ("request",))
    try:
        assert [expected, expected] == [getattr(Derived, name)("r"), getattr(Derived(), name)(request="r")]
    finally:
        wrapping.uninstall()
    assert ["r", "r"] == seen


def test_a_function_of_a_module_can_be_wrapped() -> None:
    """As for the compatibility hash."""
    module = types.ModuleType("engine")
    module.compute = lambda config: f"hash of {config}"  # type: ignore[attr-defined] # a module made for the test
    original = module.compute
    seen: list[Any] = []
    wrapping = probe(after=lambda call, state, result: seen.append((call.argument("config"), result)))
    assert wrapping.install(module, "compute", ("config",))
    assert "hash of c" == module.compute("c")
    wrapping.uninstall()
    assert [("c", "hash of c")] == seen
    assert module.compute is original


def test_one_instance_can_be_wrapped_and_its_siblings_are_not() -> None:
    """As for the NIXL agent, whose class is not ours to touch."""
    seen: list[Any] = []
    wrapping = probe(after=lambda call, state, result: seen.append((call.args, result)))
    agent, sibling = Base(), Base()
    assert wrapping.install(agent, "method")
    assert ["base a", "base b"] == [agent.method("a"), sibling.method("b")]
    wrapping.uninstall()
    assert {} == vars(agent)
    assert "base c" == agent.method("c")
    assert [(("a",), "base a")] == seen


def test_the_wrapped_function_looks_like_the_original() -> None:
    """Whoever inspects it, vLLM itself included, sees what was there."""
    signature, name, documentation = (
        inspect.signature(Base.method),
        Base.method.__qualname__,
        Base.method.__doc__,
    )
    wrapping = probe()
    wrapping.install(Base, "method")
    try:
        assert signature == inspect.signature(Base.method)
        assert (name, documentation) == (Base.method.__qualname__, Base.method.__doc__)
        assert inspect.isfunction(Base.method)
        assert inspect.ismethod(Base().method)
    finally:
        wrapping.uninstall()


class Application:
    """An ASGI application as a class, like FastAPI."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve nothing."""


def test_a_wrapped_application_still_is_a_coroutine_function() -> None:
    """uvicorn decides by this how to call it: as ASGI 3, or as something else that fails."""
    wrapping = probe(around=lambda probe, wrapped, call: wrapped(*call.args))
    wrapping.install(Application, "__call__", ("scope", "receive", "send"))
    try:
        assert inspect.iscoroutinefunction(Application().__call__)
        config = uvicorn.Config(Application(), log_config=None)
        config.load()
        assert "asgi3" == config.interface
    finally:
        wrapping.uninstall()
