"""Errors of ours as they may be logged and sent: their own text may quote what somebody wrote, or an address with a password."""

_LONGEST = 500


def told(error: BaseException) -> str:
    """An error inside a hook: its text, unless it is of a kind that quotes the value it could not take."""
    return (
        repr(error)[:_LONGEST]
        if not isinstance(error, UnicodeError | ValueError)
        else _class_and_place(error)
    )


def told_without_text(error: BaseException) -> str:
    """An error that may come from a library that talks to others: the system's own words, else class and place."""
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        return str(error.strerror)[:_LONGEST]
    return _class_and_place(error)


def _class_and_place(error: BaseException) -> str:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = f" in {last.tb_frame.f_code.co_name}, line {last.tb_lineno}" if last is not None else ""
    return f"{type(error).__name__}{where}"
