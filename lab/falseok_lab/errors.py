"""The one error of the lab that is meant for a person."""


class LabError(Exception):
    """Something the operator can act on: the message says what happened and what to do about it."""
