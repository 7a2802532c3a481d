"""A command of the command line without its last step, which makes an error a line."""

from types import SimpleNamespace

import pytest

from forecast_unc.cli.commands import program
from forecast_unc.errors import InvalidArgument


def refused(command: str, *words: object) -> InvalidArgument:
    """The error of a command on these words."""
    one = program.commands[command]
    given = one.make_context(command, list(map(str, words))).params
    with pytest.raises(InvalidArgument) as caught:
        one.callback.__wrapped__(SimpleNamespace(**given))
    return caught.value
