#compdef stackproof
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

# Only the installed program is started: what was typed may be the path of any file.
_stackproof_program() {
    local typed=${words[1]} program
    program=$(whence -p stackproof)
    [[ $program == /* && ( $typed != */* || ${typed/#\~\//$HOME/} -ef $program ) ]] && echo "$program"
}

_stackproof_kinds() {
    local word found program
    program=$(_stackproof_program) || program=true
    for word in "$@"; do
        case $word in
            @file) _files ;;
            @dir) _files -/ ;;
            @label)
                if [[ ${words[CURRENT]} != [/.~]* ]]; then
                    compadd -- ${(f)"$($program image ls --names 2>/dev/null)"}
                fi
                ;;
            @remote)
                found=(${(f)"$($program image find --known --names 2>/dev/null)"})
                compadd -- $found
                if [[ -n ${words[CURRENT]} ]]; then compadd -- ${found#deploy::}; fi
                ;;
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
