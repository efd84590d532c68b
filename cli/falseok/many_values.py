"""Options that take several values at once, as shells expand patterns: `--decode decode.log*`."""

from typing import Any

from typer.core import TyperCommand


class ManyValuesCommand(TyperCommand):
    """A command without arguments of its own: whatever follows a value of a repeatable option is another value of it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further value, then parse as usual."""
        repeatable = {
            name
            for parameter in self.params
            if getattr(parameter, "multiple", False)
            for name in parameter.opts
        }
        return super().parse_args(ctx, repeated(args, repeatable))


def repeated(arguments: list[str], repeatable: set[str]) -> list[str]:
    """`--a 1 2 --b 3` as `--a 1 --a 2 --b 3` where `--a` is repeatable."""
    found: list[str] = []
    option = ""
    values = 0
    for place, argument in enumerate(arguments):
        if argument == "--":
            return [*found, *arguments[place:]]
        if argument.startswith("-") and argument != "-":
            name, has_value, _ = argument.partition("=")
            option = name if name in repeatable else ""
            values = 1 if has_value else 0
        elif option:
            if values:
                found.append(option)
            values += 1
        found.append(argument)
    return found
