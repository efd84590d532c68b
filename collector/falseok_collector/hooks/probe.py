"""How a function of vLLM is wrapped so that nothing of ours can ever reach it.

The wrapped function runs outside every `try` of ours; what our observers raise is swallowed, counted, and
switches the probe off when it keeps happening. Only `Exception` is swallowed: `SystemExit` and
`KeyboardInterrupt` come from vLLM's own signal handlers and must pass.
"""

import inspect
import logging
from collections.abc import Callable
from typing import Any, Protocol

import wrapt

from falseok_collector.attributes import HookState
from falseok_collector.telling import told

logger = logging.getLogger("falseok")

ERRORS_IN_A_ROW = 10
"""After so many errors of its own without a success between them, a probe switches itself off."""

Before = Callable[["Call"], Any]
After = Callable[["Call", Any, Any], None]
Failed = Callable[["Call", Any, BaseException], None]
Around = Callable[["Probe", Any, "Call"], Any]
"""Takes over the whole call, for functions whose end is not their return (coroutines)."""


class HookError(Exception):
    """What every observer raises when the test aid FALSEOK_RAISE_IN_HOOKS is set."""


class Reporter(Protocol):
    """Told when a probe cannot give its evidence."""

    def __call__(self, hook: str, target: str, reason: str, detail: str) -> None:
        """Report once that a hook is unavailable."""
        ...


class Call:
    """One call of a wrapped function: the instance and its arguments by name."""

    __slots__ = ("_index", "args", "instance", "kwargs")

    def __init__(
        self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any], index: dict[str, int]
    ) -> None:
        self.instance = instance
        self.args = args
        self.kwargs = kwargs
        self._index = index

    def argument(self, name: str, default: Any = None) -> Any:
        """The argument called `name`, or `default` when the caller left it out."""
        if name in self.kwargs:
            return self.kwargs[name]
        position = self._index.get(name)
        return self.args[position] if position is not None and position < len(self.args) else default

    def of(self, instance: Any) -> "Call":
        """The same call as if made on another instance, for observers that read attributes it lacks."""
        return Call(instance, self.args, self.kwargs, self._index)


class Probe:
    """Wraps one function and lets observers look at its calls.

    `before` runs ahead of the call and its result is handed on as `state`; `after(call, state, result)` runs
    when the call returned, `failed(call, state, error)` when it raised. `finally_` runs at the end either way,
    outside the test aid: it is for what must be set up whether or not observing works. `around(probe, wrapped, call)` instead
    takes over the whole call and must make it, exactly once.
    """

    def __init__(  # noqa: PLR0913 - one keyword an observer
        self,
        name: str,
        target: str,
        *,
        before: Before | None = None,
        after: After | None = None,
        failed: Failed | None = None,
        finally_: Callable[["Call"], None] | None = None,
        around: Around | None = None,
        report: Reporter,
        raise_inside: bool = False,
    ) -> None:
        self.name = name
        self.target = target
        self.calls = 0
        self.errors = 0
        self.state = "pending"
        self._before = before
        self._after = after
        self._failed = failed
        self._finally = finally_
        self._around = around
        self._report = report
        self._raise_inside = raise_inside
        self._errors_in_a_row = 0
        self._index: dict[str, int] = {}
        self._restore: Callable[[], None] | None = None

    def snapshot(self) -> HookState:
        """State and counts, for the heartbeat."""
        return HookState(name=self.name, state=self.state, calls=self.calls, errors=self.errors)

    def install(self, owner: Any, attribute: str, needed: tuple[str, ...] = ()) -> bool:
        """Wrap `owner.attribute`, once. False, reported, when it is missing or lacks a needed parameter."""
        if self.state == "active":
            return True
        target = inspect.getattr_static(owner, attribute, None)
        if target is None:
            return self._unavailable("missing_symbol", f"{attribute} does not exist")
        function = getattr(owner, attribute)
        missing = self._learn_parameters(function, needed, is_class=inspect.isclass(owner))
        if missing:
            return self._unavailable("signature", f"parameter {missing} is not there")
        own = vars(owner).get(attribute, _ABSENT) if hasattr(owner, "__dict__") else _ABSENT
        try:
            setattr(
                owner,
                attribute,
                wrapt.FunctionWrapper(target if inspect.isclass(owner) else function, self._call),
            )
        except (AttributeError, TypeError) as error:
            return self._unavailable("signature", f"cannot be wrapped: {error}")
        self._restore = lambda: (
            delattr(owner, attribute) if own is _ABSENT else setattr(owner, attribute, own)
        )
        self.state = "active"
        return True

    def begin(self) -> None:
        """Observe without wrapping anything, for middleware, which is called anyway and looks at `state` itself."""
        self.state = "active"

    def uninstall(self) -> None:
        """Put the original back, by identity."""
        if self._restore is not None:
            self._restore()
            self._restore = None
            self.state = "pending"

    def _learn_parameters(self, function: Any, needed: tuple[str, ...], *, is_class: bool) -> str:
        try:
            names = list(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            return ""  # built-in without a signature: arguments are then found by keyword only
        if is_class and names[:1] == ["self"]:
            names = names[1:]
        self._index = {name: position for position, name in enumerate(names)}
        return next((name for name in needed if name not in self._index), "")

    def _unavailable(self, reason: str, detail: str) -> bool:
        self.state = "unavailable"
        self._report(self.name, self.target, reason, detail)
        return False

    def _call(self, wrapped: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.calls += 1
        if self.state != "active":
            return wrapped(*args, **kwargs)
        call = Call(instance, args, kwargs, self._index)
        if self._around is not None:
            return self._around(self, wrapped, call)
        state = self.observe(self._before, call) if self._before is not None else None
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as error:
            if self._failed is not None:
                self.observe(self._failed, call, state, error)
            self._end(call)
            raise
        if self._after is not None:
            self.observe(self._after, call, state, result)
        self._end(call)
        return result

    def observe(self, observer: Callable[..., Any], *arguments: Any) -> Any:
        """Run an observer of ours; whatever it raises stays here and is counted. None then."""
        try:
            if self._raise_inside:
                raise HookError(self.name)  # noqa: TRY301 - the test aid takes the way of a real error
            value = observer(*arguments)
        except Exception as error:  # noqa: BLE001 - the whole point: nothing of ours gets out
            self.count_error(error)
            return None
        self._errors_in_a_row = 0
        return value

    def count_error(self, error: Exception) -> None:
        """Count an error of our own; report the first one and the switching off."""
        self.errors += 1
        self._errors_in_a_row += 1
        if self.errors == 1:
            logger.warning("falseok: hook %s failed and serving goes on: %s", self.name, told(error))
            self._report(self.name, self.target, "error", told(error))
        if self._errors_in_a_row >= ERRORS_IN_A_ROW and self.state == "active" and not self._raise_inside:
            self.state = "disabled"
            self._report(
                self.name, self.target, "error", f"switched off after {self.errors} errors: {told(error)}"
            )

    def _end(self, call: Call) -> None:
        if self._finally is not None:
            try:
                self._finally(call)
            except Exception as error:  # noqa: BLE001 - as in `observe`
                self.count_error(error)


_ABSENT = object()
