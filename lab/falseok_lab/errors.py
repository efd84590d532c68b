"""The errors of the lab that are meant for a person."""


class LabError(Exception):
    """Something the operator can act on: the message says what happened and what to do about it."""


class PortTakenError(LabError):
    """An engine lost a race for a port of its own choosing: starting it again chooses another."""
