#include "report.h"

#include <slurm/spank.h>
#include <string.h>

void report_error(const struct sp_error *error)
{
    if (error->message[0] == '\0') {
        return;
    }
    slurm_error("stackproof: %s [%s]", error->message, sp_reason_name(error->reason));
    if (error->hint[0] != '\0') {
        slurm_error("stackproof: hint: %s", error->hint);
    }
}

void report_line(const char *line)
{
    static const char note[] = "note: ";
    static const char problem[] = "error: ";
    if (strncmp(line, note, sizeof note - 1) == 0) {
        slurm_info("stackproof: %s", line + sizeof note - 1);
    } else if (strncmp(line, problem, sizeof problem - 1) == 0) {
        slurm_error("stackproof: %s", line + sizeof problem - 1);
    } else {
        slurm_error("stackproof: %s", line);
    }
}
