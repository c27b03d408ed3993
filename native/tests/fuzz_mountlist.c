/* libFuzzer: whatever a mount list holds, what is accepted is written back and read alike. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mountlist.h"
#include "plan.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* Writes a list as text and parses it again. */
static void check_round_trip(const struct sp_mount_list *list, size_t room)
{
    struct sp_mount_list again;
    struct sp_error error;
    size_t used = 0;
    char *text = malloc(room);
    require(text != NULL);
    for (size_t index = 0; index < list->count; index++) {
        const struct sp_mount_entry *entry = &list->entries[index];
        int length = snprintf(text + used, room - used, "%s%s%s%s", index == 0 ? "" : ",",
                              entry->image, entry->mount_point == NULL ? "" : ":",
                              entry->mount_point == NULL ? "" : entry->mount_point);
        require(length > 0 && (size_t)length < room - used);
        used += (size_t)length;
    }
    require(sp_mount_list_parse(text, used, &again, NULL, NULL, &error) == 0);
    require(again.count == list->count);
    for (size_t index = 0; index < list->count; index++) {
        const char *point = list->entries[index].mount_point;
        require(strcmp(again.entries[index].image, list->entries[index].image) == 0);
        require((point == NULL) == (again.entries[index].mount_point == NULL));
        require(point == NULL || strcmp(point, again.entries[index].mount_point) == 0);
    }
    sp_mount_list_free(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_mount_list list;
    struct sp_plan plan;
    struct sp_error error;
    if (sp_mount_list_parse((const char *)data, size, &list, NULL, NULL, &error) != 0) {
        require(sp_text_is_printable(error.message, strlen(error.message)));
        require(list.count == 0 && list.memory == NULL);
        return 0;
    }
    require(list.count > 0);
    for (size_t index = 0; index < list.count; index++) {
        const char *point = list.entries[index].mount_point;
        require(list.entries[index].image[0] != '\0');
        require(point == NULL || sp_bad_mount_point(point, strlen(point)) == NULL);
        require(point == NULL || strstr(point, "//") == NULL);
    }
    check_round_trip(&list, size + 2);
    if (sp_plan_make(&list, NULL, &plan, &error) == 0) {
        require(plan.count == list.count);
        sp_plan_release(&plan);
    }
    sp_mount_list_free(&list);
    return 0;
}
