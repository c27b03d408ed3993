# Completion of stackproof for bash; `stackproof completion bash` prints it.
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
            @label) _stackproof_labels image ls --names ;;
            @remote) _stackproof_labels image find --known --names ;;
            *) words+=("$word") ;;
        esac
    done
    COMPREPLY+=($(compgen -W "${words[*]}" -- "$cur"))
}

# Only the installed program is started: what was typed may be the path of any file.
_stackproof_program() {
    local typed=${COMP_WORDS[0]} program
    program=$(type -P stackproof)
    [[ $program == /* && ( $typed != */* || ${typed/#\~\//$HOME/} -ef $program ) ]] && echo "$program"
}

# The shell takes `:`, `@` and `=` for ends of words, and replaces what is behind the last of them.
_stackproof_labels() {
    local line=${COMP_LINE:0:COMP_POINT} whole word before label labels program
    whole=${line##*[[:space:]]}
    if [[ $whole == --*=* ]]; then whole=${whole#*=}; fi
    word=${whole##*,}
    if [[ $word == [/.~]* ]]; then return; fi
    before=${whole%"$word"}
    if ((${#COMPREPLY[@]} == 0)); then compopt +o filenames; fi
    program=$(_stackproof_program) || return 0
    mapfile -t labels < <("$program" "$@" 2>/dev/null)
    for label in "${labels[@]}"; do
        # What is no label would stand on the command line as it is, a pattern or an option too.
        if [[ $label == -* || ${label/%@\*/} == *[!A-Za-z0-9_./:@%-]* ]]; then continue; fi
        if [[ -n $word && $word != *::* && $label != "$word"* ]]; then label=${label#deploy::}; fi
        if [[ $label == "$word"* ]]; then
            label=$before$label
            COMPREPLY+=("${label#"${whole%"${whole##*[:@=]}"}"}")
        fi
    done
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
