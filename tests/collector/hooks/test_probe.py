"""Whatever our observers do, the wrapped function behaves as if they were not there."""

from typing import Any

import pytest
from tests.collector.hooks.reports import Report, Reports

from falseok_collector.attributes import HookState
from falseok_collector.hooks.probe import ERRORS_IN_A_ROW, Call, HookError, Probe


class Engine:
    """Stands for a class of vLLM."""

    def step(self, request: object, tokens: int = 1, *, urgent: bool = False) -> object:
        """Give back what came in, or raise it."""
        if isinstance(request, BaseException):
            raise request
        return request


@pytest.fixture
def engine_class() -> type[Engine]:
    """A class of its own for each test: what is wrapped stays in the test."""
    return type("Engine", (), dict(vars(Engine)))


def probe(**observers: Any) -> Probe:
    """A probe whose reports nobody reads."""
    return Probe("core.step", "engine:Engine.step", **{"report": Reports(), **observers})


def raising(error: BaseException) -> Any:
    """An observer that raises."""

    def observer(*_: Any) -> None:
        raise error

    return observer


def test_the_result_passes_by_identity(engine_class: type[Engine]) -> None:
    """Not a copy, not a proxy."""
    wrapping = probe(after=lambda *_: None)
    wrapping.install(engine_class, "step")
    request = object()
    assert engine_class().step(request) is request


@pytest.mark.parametrize("error_type", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_exception_passes_by_identity(
    engine_class: type[Engine], error_type: type[BaseException]
) -> None:
    """Unchanged: no context, no cause, no notes of ours, whatever kind it is."""
    seen: list[BaseException] = []
    wrapping = probe(failed=lambda _, __, error: seen.append(error))
    wrapping.install(engine_class, "step")
    error = error_type("engine trouble")
    with pytest.raises(error_type) as caught:
        engine_class().step(error)
    assert caught.value is error
    assert [error] == seen
    assert (None, None, []) == (error.__context__, error.__cause__, getattr(error, "__notes__", []))


def test_an_observer_that_raises_leaves_the_exception_of_the_engine_alone(
    engine_class: type[Engine], swallowed_errors: list[str]
) -> None:
    """Ours is swallowed, and does not become part of theirs."""
    wrapping = probe(failed=raising(RuntimeError("our trouble")))
    wrapping.install(engine_class, "step")
    error = ValueError("engine trouble")
    with pytest.raises(ValueError, match="engine trouble") as caught:
        engine_class().step(error)
    assert caught.value is error
    assert error.__context__ is None
    assert 1 == len(swallowed_errors)


def test_before_then_the_function_then_after_with_the_state_handed_on(engine_class: type[Engine]) -> None:
    """What `before` gives reaches `after`, together with the result."""
    order: list[Any] = []
    request = object()

    def before(call: Call) -> str:
        order.append(("before", call.argument("request")))
        return "state"

    wrapping = probe(
        before=before,
        after=lambda call, state, result: order.append(("after", state, result)),
        failed=lambda *_: order.append("failed"),
        finally_=lambda call: order.append("finally"),
    )
    wrapping.install(engine_class, "step")
    engine_class().step(request)
    assert [("before", request), ("after", "state", request), "finally"] == order


def test_before_then_the_function_then_failed_with_the_state_handed_on(engine_class: type[Engine]) -> None:
    """`failed` takes the place of `after` when the function raised."""
    order: list[Any] = []
    error = ValueError("engine trouble")
    wrapping = probe(
        before=lambda call: "state",
        after=lambda *_: order.append("after"),
        failed=lambda call, state, error: order.append(("failed", state, error)),
        finally_=lambda call: order.append("finally"),
    )
    wrapping.install(engine_class, "step")
    with pytest.raises(ValueError, match="engine trouble"):
        engine_class().step(error)
    assert [("failed", "state", error), "finally"] == order


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((5,), {}), ((), {"tokens": 5}), ((5,), {"urgent": True})],
    ids=["positional", "keyword", "mixed"],
)
def test_arguments_are_found_by_name_however_they_are_passed(
    engine_class: type[Engine], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """vLLM passes some by position and some by keyword, and that changes from version to version."""
    seen: list[Any] = []

    def before(call: Call) -> None:
        seen.extend(
            [
                call.argument("request"),
                call.argument("tokens"),
                call.argument("urgent", "absent"),
                call.argument("unheard of", "absent"),
            ]
        )

    wrapping = probe(before=before)
    wrapping.install(engine_class, "step")
    engine_class().step("r", *args, **kwargs)
    assert ["r", 5, kwargs.get("urgent", "absent"), "absent"] == seen


def test_the_instance_is_handed_to_the_observer(engine_class: type[Engine]) -> None:
    """Observers read the engine's own objects."""
    seen: list[Any] = []
    wrapping = probe(before=lambda call: seen.append(call.instance))
    wrapping.install(engine_class, "step")
    engine = engine_class()
    engine.step("r")
    assert seen[0] is engine


@pytest.mark.parametrize("observer", ["before", "after"])
def test_what_an_observer_raises_is_swallowed_counted_and_reported_once(
    engine_class: type[Engine], swallowed_errors: list[str], observer: str
) -> None:
    """The function runs exactly once a call, and gives what it gives."""
    reports = Reports()
    wrapping = probe(**{observer: raising(RuntimeError("our trouble")), "report": reports})
    wrapping.install(engine_class, "step")
    engine = engine_class()
    assert ["r"] * 3 == [engine.step("r") for _ in range(3)]
    assert HookState(name="core.step", state="active", calls=3, errors=3) == wrapping.snapshot()
    assert [Report("core.step", "engine:Engine.step", "error", "RuntimeError('our trouble')")] == reports
    assert [
        "falseok: hook core.step failed and serving goes on: RuntimeError('our trouble')"
    ] == swallowed_errors


@pytest.mark.parametrize("error_type", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("observer", ["before", "after"])
def test_a_signal_that_arrives_inside_an_observer_passes(
    engine_class: type[Engine], error_type: type[BaseException], observer: str
) -> None:
    """vLLM's own signal handlers raise these wherever the process happens to be."""
    wrapping = probe(**{observer: raising(error_type("signal"))})
    wrapping.install(engine_class, "step")
    with pytest.raises(error_type, match="signal"):
        engine_class().step("r")
    assert 0 == wrapping.errors


def test_a_set_up_that_fails_is_swallowed_and_counted(
    engine_class: type[Engine], swallowed_errors: list[str]
) -> None:
    """A sender that cannot be started must be told, not hidden."""
    wrapping = probe(finally_=raising(RuntimeError("can't start new thread")))
    wrapping.install(engine_class, "step")
    assert "r" == engine_class().step("r")
    assert 1 == wrapping.errors
    assert "can't start new thread" in swallowed_errors[0]


def test_after_too_many_errors_in_a_row_a_probe_switches_itself_off(
    engine_class: type[Engine], swallowed_errors: list[str]
) -> None:
    """The function is served on; the switching off is reported once, however much is still under way."""
    reports = Reports()
    wrapping = probe(before=raising(RuntimeError("our trouble")), report=reports)
    wrapping.install(engine_class, "step")
    engine = engine_class()
    results = [engine.step("r") for _ in range(ERRORS_IN_A_ROW + 5)]
    wrapping.observe(raising(RuntimeError("still under way")))
    assert ["r"] * (ERRORS_IN_A_ROW + 5) == results
    assert ("disabled", ERRORS_IN_A_ROW + 5, ERRORS_IN_A_ROW + 1) == (
        wrapping.state,
        wrapping.calls,
        wrapping.errors,
    )
    assert [
        "RuntimeError('our trouble')",
        f"switched off after {ERRORS_IN_A_ROW} errors: RuntimeError('our trouble')",
    ] == [report.detail for report in reports]
    assert 1 == len(swallowed_errors)


def test_one_success_forgives_the_errors_before_it(
    engine_class: type[Engine], swallowed_errors: list[str]
) -> None:
    """Only errors in a row count: a rare case must not cost the evidence of all others."""
    troubled = [True] * (ERRORS_IN_A_ROW - 1) + [False] + [True] * (ERRORS_IN_A_ROW - 1)

    def before(call: Call) -> None:
        if call.argument("request"):
            raise RuntimeError("our trouble")

    wrapping = probe(before=before)
    wrapping.install(engine_class, "step")
    engine = engine_class()
    for trouble in troubled:
        engine.step(trouble)
    assert ("active", 2 * (ERRORS_IN_A_ROW - 1)) == (wrapping.state, wrapping.errors)
    assert 1 == len(swallowed_errors)


def test_the_test_aid_raises_in_every_observer_and_never_switches_off(
    engine_class: type[Engine], swallowed_errors: list[str]
) -> None:
    """FALSEOK_RAISE_IN_HOOKS: observers never run, set-up does, serving is untouched."""
    ran: list[str] = []
    wrapping = probe(
        before=lambda call: ran.append("before"),
        after=lambda *_: ran.append("after"),
        finally_=lambda call: ran.append("set up"),
        raise_inside=True,
    )
    wrapping.install(engine_class, "step")
    engine = engine_class()
    assert ["r"] * 20 == [engine.step("r") for _ in range(20)]
    assert ("active", 40) == (wrapping.state, wrapping.errors)
    assert ["set up"] * 20 == ran
    assert HookError.__name__ in swallowed_errors[0]


def test_a_call_that_takes_the_whole_function_over_makes_it() -> None:
    """`around` gets the function as it was, bound, and its result is the result."""

    class Application:
        def __call__(self, scope: str) -> str:
            return f"served {scope}"

    wrapping = probe(around=lambda probe, wrapped, call: wrapped(*call.args) + ", watched")
    wrapping.install(Application, "__call__")
    assert "served r, watched" == Application()("r")
    wrapping.uninstall()
    assert "served r" == Application()("r")
