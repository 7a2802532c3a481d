"""Scripts that complete the command line in a shell, made from its parser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

SHELLS = ("bash", "zsh")
_SEVERAL = ("+", "*")  # of argparse: an option that takes all values up to the next one

_BASH = """\
# bash completion of forecast-unc, printed by: forecast-unc completion bash
_forecast_unc() {
    local current=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} option= values=0 words= at
    if ((COMP_CWORD == 1)); then
        words="@COMMANDS@"
    elif [[ $current == -* ]]; then
        case $command in
@OPTIONS@
        esac
    else
        # the option that the current word is a value of, and how many values it has before
        for ((at = COMP_CWORD - 1; at > 1; at--)); do
            case ${COMP_WORDS[at]} in
                --*) option=${COMP_WORDS[at]}; break ;;
                *) ((values++)) ;;
            esac
        done
        case "$command $option" in
@VALUES@
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
# where no words are found, files
complete -o default -F _forecast_unc forecast-unc
"""

_ZSH = """\
#compdef forecast-unc
# zsh completion of forecast-unc, printed by: forecast-unc completion zsh
_forecast_unc() {
    local -a commands=(
@COMMANDS@
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    ((CURRENT--))
    case $command in
@CASES@
    esac
}
if [[ $funcstack[1] == _forecast_unc ]]; then
    _forecast_unc "$@"
else
    compdef _forecast_unc forecast-unc
fi
"""


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script of a shell.

    Parameters
    ----------
    parser : ArgumentParser
        Of the command line, with its commands.
    shell : {"bash", "zsh"}
        Which shell.

    Returns
    -------
    str
    """
    commands = _commands(parser)
    return _bash(commands) if shell == "bash" else _zsh(commands)


class _Command:
    """A command, what it does, and its arguments."""

    def __init__(self, name: str, text: str, parser: argparse.ArgumentParser) -> None:
        self.name, self.text = name, text
        # argparse has no public way to its arguments
        actions = [a for a in parser._actions if a.help != argparse.SUPPRESS]
        self.options = [a for a in actions if a.option_strings]
        self.positionals = [a for a in actions if not a.option_strings]


def _commands(parser: argparse.ArgumentParser) -> list[_Command]:
    (found,) = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    texts = {choice.dest: choice.help or "" for choice in found._choices_actions}
    return [_Command(name, texts[name], one) for name, one in found.choices.items()]


def _bash(commands: list[_Command]) -> str:
    values, options = [], []
    for command in commands:
        names = " ".join(action.option_strings[-1] for action in command.options)
        options.append(f'            {command.name}) words="{names}" ;;')
        for action in (*command.options, *command.positionals):
            if action.choices is not None:
                option = action.option_strings[-1] if action.option_strings else ""
                first = "" if action.nargs in _SEVERAL else "((values)) || "
                words = f'words="{" ".join(action.choices)}"'
                values.append(f'            "{command.name} {option}") {first}{words} ;;')
    every = " ".join([*(command.name for command in commands), "--help", "--version"])
    return _filled(_BASH, COMMANDS=every, VALUES="\n".join(values), OPTIONS="\n".join(options))


def _zsh(commands: list[_Command]) -> str:
    names = [f"        {_quoted(f'{c.name}:{_escaped(c.text)}')}" for c in commands]
    cases = []
    for command in commands:
        specs = [_zsh_option(action) for action in command.options]
        specs += [f"1:{_escaped(a.dest)}:{_zsh_values(a)}" for a in command.positionals]
        lines = " \\\n".join(f"                {_quoted(spec)}" for spec in specs)
        cases.append(f"        {command.name})\n            _arguments \\\n{lines}\n            ;;")
    return _filled(_ZSH, COMMANDS="\n".join(names), CASES="\n".join(cases))


def _zsh_option(action: argparse.Action) -> str:
    """The specification of an option, as ``_arguments`` takes it."""
    name, text = action.option_strings[-1], _escaped(action.help or "")
    if action.nargs == 0:
        return f"{name}[{text}]"
    value = f"{_escaped(action.dest)}:{_zsh_values(action)}"
    # `*-*:` takes values up to the next option
    return f"{name}[{text}]:*-*:{value}" if action.nargs in _SEVERAL else f"{name}[{text}]:{value}"


def _zsh_values(action: argparse.Action) -> str:
    if action.choices is not None:
        return f"({' '.join(action.choices)})"
    return "_files" if action.type is Path else " "


def _escaped(text: str) -> str:
    for character in "\\[]:":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _filled(template: str, **parts: Any) -> str:
    for name, part in parts.items():
        template = template.replace(f"@{name}@", part)
    return template
