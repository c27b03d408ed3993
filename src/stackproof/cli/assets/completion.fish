# Completion of stackproof for fish; `stackproof completion fish` prints it.
function __stackproof_say
    switch $argv[1]
@CASES@
    end
end

function __stackproof_has
    contains -- $argv[2] (__stackproof_say $argv[1] | string replace -r '\t.*' '')
end

# Only the installed program is started: what was typed may be the path of any file.
function __stackproof_program
    set -l typed (commandline -opc)[1]
    set -l program (command -s stackproof)
    string match -q '/*' -- $program; or return
    if string match -q '*/*' -- $typed
        test (realpath -- (string replace -r '^~/' "$HOME/" -- $typed)) = (realpath -- $program)
        or return
    end
    echo $program
end

function __stackproof_kinds
    set -l current (commandline -ct | string replace -r '^--[^=]*=' '')
    set -l program (__stackproof_program)
    test -n "$program"; or set program true
    for word in $argv
        switch $word
            case @file
                __fish_complete_path $current
            case @dir
                __fish_complete_directories $current
            case @label
                if not string match -qr '^[/.~]' -- $current
                    command $program image ls --names 2>/dev/null
                end
            case @remote
                set -l found (command $program image find --known --names 2>/dev/null)
                printf '%s\n' $found
                if test -n "$current"
                    string replace -r '^deploy::' '' -- $found
                end
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
