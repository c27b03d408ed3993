#include "task.h"

#include "../core/mount.h"

void task_mount(struct step *step)
{
    step->is_mounting = true;
    int result = sp_mount_namespace_enter(&step->error);
    result = result == 0 ? sp_plan_mount(&step->plan, 0, &step->error) : result;
    step_release(step);
    if (result != 0) {
        step->state = STEP_FAILED;
    }
}
