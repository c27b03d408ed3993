"""The tree of commands to completions of bash, zsh and fish, and to man pages.

A script of a shell holds everything: verbs, options, what they can be and the names of what comes
with stackproof, so that a press of the key starts no program. All three do the same: walk the words
to the command, then complete a value, an option, or an argument by its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stackproof.cli.commandtree import Argument, DocumentedCommand

_FOLDERS = ("DIR", "FOLDER")
_FILES = (
    "FILE",
    "IMAGE",
    "PROGRAM",
    "RESULTS",
    "PLACE",
    "PREFIX",
    "SPEC",
    "PATH",
    "PLUGIN",
    "FACTS",
)
Names = Mapping[str, Sequence[str]]
"""Names by kind: `SITE` and `RECIPE`."""


def kind_of(argument: Argument, names: Names) -> str:
    """Return what completes a value: words with blanks between, and @file or @dir beside them."""
    words = list(argument.choices)
    if not words:
        for kind, known in names.items():
            if kind in argument.value:
                words += [*known, "@file"]
    if not words and any(word in argument.value for word in _FILES):
        words = ["@file"]
    if not words and any(word in argument.value for word in _FOLDERS):
        words = ["@dir"]
    return " ".join(words)


def bash(tree: DocumentedCommand, names: Names) -> str:
    """Return the script for bash."""
    return _BASH.replace("@TABLES@", _tables(tree, names))


def zsh(tree: DocumentedCommand, names: Names) -> str:
    """Return the script for zsh, to be sourced, or a file `_stackproof` below $fpath."""
    return _ZSH.replace("@TABLES@", _tables(tree, names))


def fish(tree: DocumentedCommand, names: Names) -> str:
    """Return the script for fish."""
    lines, valued = [], []
    for command in tree.all():
        key = "/".join(command.words)
        lines += [f"    case {_quoted(f'commands:{key}')}"]
        lines += [_said(one.words[-1], one.text) for one in command.commands]
        lines += [f"    case {_quoted(f'options:{key}')}"]
        lines += [_said(name, one.text) for one in command.options for name in one.names]
        for one in command.options:
            if one.value:
                cases = " ".join(_quoted(f"value:{key}:{name}") for name in one.names)
                valued.append(cases)
                lines += [f"    case {cases}", f"        __stackproof_kinds {kind_of(one, names)}"]
        if not command.commands:
            lines += [f"    case {_quoted(f'arguments:{key}')}"]
            lines += [f"        __stackproof_kinds {_arguments(command, names)}"]
    return _FISH.replace("@CASES@", "\n".join(lines)).replace("@VALUES@", " ".join(valued))


def _said(word: str, text: str) -> str:
    return f"        printf '%s\\t%s\\n' {_quoted(word)} {_quoted(text)}"


def _arguments(command: DocumentedCommand, names: Names) -> str:
    kinds = " ".join(kind_of(one, names) for one in command.positionals if not one.rest)
    found = dict.fromkeys(kinds.split())
    if "@file" in found:  # folders are among files
        found.pop("@dir", None)
    return " ".join(found)


def _tables(tree: DocumentedCommand, names: Names) -> str:
    """Return assignments to the associative arrays that the scripts look things up in.

    zsh takes quotes in a key for a part of it; keys have nothing to quote.
    """
    lines = []
    for command in tree.all():
        at = "/".join(command.words) or "."
        below = " ".join(one.words[-1] for one in command.commands)
        if below:
            lines.append(f"_stackproof_commands[{at}]={_quoted(below)}")
        options = " ".join(name for one in command.options for name in one.names)
        lines.append(f"_stackproof_options[{at}]={_quoted(options)}")
        for one in command.options:
            kinds = _quoted(kind_of(one, names))
            keys = [f"{at}:{name}" for name in one.names if one.value]
            lines += [f"_stackproof_values[{key}]={kinds}" for key in keys]
        if not command.commands:
            found = _quoted(_arguments(command, names))
            lines.append(f"_stackproof_arguments[{at}]={found}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "").replace("'", "") + "'"


_BASH = r"""# Completion of stackproof for bash; `stackproof completion bash` prints it.
declare -gA _stackproof_commands _stackproof_options _stackproof_values _stackproof_arguments
@TABLES@

_stackproof() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=. word i skip=
    if [[ $cur == = ]]; then cur=; fi
    if [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ -n $skip ]]; then
            if [[ $word != = ]]; then skip=; fi
        elif [[ $word == -- ]]; then
            _stackproof_command $((i + 1))
            return
        elif [[ $word == -* ]]; then
            if [[ -n ${_stackproof_values[$at:$word]+x} ]]; then skip=1; fi
        elif [[ $word == help && $at == . ]]; then
            :
        elif [[ " ${_stackproof_commands[$at]-} " == *" $word "* ]]; then
            if [[ $at == . ]]; then at=$word; else at=$at/$word; fi
        fi
    done
    if [[ $prev == -* && -n ${_stackproof_values[$at:$prev]+x} ]]; then
        _stackproof_kinds "${_stackproof_values[$at:$prev]}" "$cur"
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "${_stackproof_options[$at]-}" -- "$cur"))
    elif [[ -n ${_stackproof_commands[$at]-} ]]; then
        if [[ $at == . ]]; then word=help; else word=; fi
        COMPREPLY=($(compgen -W "${_stackproof_commands[$at]-} $word" -- "$cur"))
    else
        _stackproof_kinds "${_stackproof_arguments[$at]-}" "$cur"
    fi
}

_stackproof_kinds() {
    local word words=() cur=$2 i
    for word in $1; do
        case $word in
            @file | @dir)
                compopt -o filenames
                if [[ $word == @file ]]; then i=-f; else i=-d; fi
                mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen $i -- "$cur")
                ;;
            *) words+=("$word") ;;
        esac
    done
    COMPREPLY+=($(compgen -W "${words[*]}" -- "$cur"))
}

_stackproof_command() {
    if (($1 == COMP_CWORD)) && [[ ${COMP_WORDS[COMP_CWORD]} != */* ]]; then
        COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
    else
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    fi
}

complete -F _stackproof stackproof
"""

_ZSH = r"""#compdef stackproof
# Completion of stackproof for zsh; `stackproof completion zsh` prints it.
typeset -gA _stackproof_commands _stackproof_options _stackproof_values _stackproof_arguments
@TABLES@

_stackproof() {
    local cur=${words[CURRENT]} prev=${words[CURRENT-1]} at=. word skip= i
    for ((i = 2; i < CURRENT; i++)); do
        word=${words[i]}
        if [[ -n $skip ]]; then
            skip=
        elif [[ $word == -- ]]; then
            if ((i + 1 == CURRENT)); then _command_names -e; fi
            _files
            return
        elif [[ $word == -* ]]; then
            if (( ${+_stackproof_values[$at:$word]} )); then skip=1; fi
        elif [[ $word == help && $at == . ]]; then
            :
        elif [[ " ${_stackproof_commands[$at]} " == *" $word "* ]]; then
            if [[ $at == . ]]; then at=$word; else at=$at/$word; fi
        fi
    done
    if [[ $prev == -* ]] && (( ${+_stackproof_values[$at:$prev]} )); then
        _stackproof_kinds ${=_stackproof_values[$at:$prev]}
    elif [[ $cur == -* ]]; then
        compadd -- ${=_stackproof_options[$at]}
    elif [[ -n ${_stackproof_commands[$at]} ]]; then
        compadd -- ${=_stackproof_commands[$at]}
        if [[ $at == . ]]; then compadd -- help; fi
    else
        _stackproof_kinds ${=_stackproof_arguments[$at]}
    fi
}

_stackproof_kinds() {
    local word
    for word in "$@"; do
        case $word in
            @file) _files ;;
            @dir) _files -/ ;;
            *) compadd -- $word ;;
        esac
    done
}

# A file of $fpath is the function's body; a sourced one announces it.
if [[ ${funcstack[1]} == _stackproof ]]; then
    _stackproof "$@"
else
    compdef _stackproof stackproof
fi
"""

_FISH = r"""# Completion of stackproof for fish; `stackproof completion fish` prints it.
function __stackproof_say
    switch $argv[1]
@CASES@
    end
end

function __stackproof_has
    contains -- $argv[2] (__stackproof_say $argv[1] | string replace -r '\t.*' '')
end

function __stackproof_kinds
    set -l current (commandline -ct | string replace -r '^--[^=]*=' '')
    for word in $argv
        switch $word
            case @file
                __fish_complete_path $current
            case @dir
                __fish_complete_directories $current
            case '*'
                echo $word
        end
    end
end

function __stackproof_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l at ''
    set -l skip ''
    for word in $words
        if test -n "$skip"
            set skip ''
        else if test "$word" = --
            __fish_complete_path (commandline -ct)
            return
        else if string match -q -- '-*' $word
            if __stackproof_takes "value:$at:$word"
                set skip "value:$at:$word"
            end
        else if test "$word" = help -a -z "$at"
        else if __stackproof_has "commands:$at" $word
            set at (string trim -c / "$at/$word")
        end
    end
    if test -n "$skip"
        __stackproof_say $skip
    else if string match -q -- '--*=*' (commandline -ct)
        set -l name (commandline -ct | string replace -r '=.*' '')
        __stackproof_say "value:$at:$name" | string replace -r -- '^' "$name="
    else if string match -q -- '-*' (commandline -ct)
        __stackproof_say "options:$at"
    else
        __stackproof_say "commands:$at"
        __stackproof_say "arguments:$at"
        if test -z "$at"
            printf 'help\tshow the help of a verb\n'
        end
    end
end

function __stackproof_takes
    contains -- $argv[1] @VALUES@
end

complete -c stackproof -f -a '(__stackproof_complete)'
"""

SHELLS: Mapping[str, Callable[[DocumentedCommand, Names], str]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
"""The shells that have a completion."""


def man_page(command: DocumentedCommand, version: str) -> str:
    """Return the man page of a verb with all its actions, or of stackproof itself (man(7))."""
    name = "-".join(("stackproof", *command.words))
    parts = [
        f'.TH "{name.upper()}" "1" "" "stackproof {version}" "User Commands"',
        ".SH NAME",
        rf"{_roff(name)} \- {_roff(command.text)}",
        ".SH SYNOPSIS",
        *(
            f".B {_roff(one.usage)}\n.br"
            for one in (command.all() if command.words else (command,))
            if not one.commands or not command.words
        ),
    ]
    for one in command.all() if command.words else (command,):
        if one is not command:
            parts += [f'.SH "{_roff(" ".join(one.words)).upper()}"', _roff(_sentence(one.text))]
        parts += _man_arguments(one, nested=one is not command)
        parts += [".PP", _roff(one.epilog)] if one.epilog else []
        parts += _man_examples(one, nested=one is not command)
    if not command.words:
        parts += [".SH VERBS"]
        for one in command.commands:
            parts += [
                ".TP",
                rf".BR stackproof\-{_roff(one.words[0])} (1)",
                _roff(_sentence(one.text)),
            ]
    see = "" if not command.words else r".BR stackproof (1)" + "\n"
    parts += [".SH SEE ALSO", f"{see}The pages of the project, docs/reference/commands.md"]
    return "\n".join(parts) + "\n"


def _man_arguments(command: DocumentedCommand, *, nested: bool) -> Iterable[str]:
    shown = [*(() if command.commands else command.positionals), *command.options]
    if not shown:
        return
    yield '.SS "Arguments"' if nested else ".SH OPTIONS"
    for one in shown:
        yield from (".TP", f".B {_roff(one.title)}", _roff(_sentence(one.text)) or r"\&")


def _man_examples(command: DocumentedCommand, *, nested: bool) -> Iterable[str]:
    if not command.examples:
        return
    yield '.SS "Examples"' if nested else ".SH EXAMPLES"
    for line, words in command.examples:
        yield from (".TP", f".B {_roff(line)}", _roff(_sentence(words)) or r"\&")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text and not text.endswith(".") else text


def _roff(text: str) -> str:
    """Return text that roff prints as it is."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
