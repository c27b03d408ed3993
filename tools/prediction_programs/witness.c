/* Preloaded: writes down at the end which files with code the rank has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((destructor)) static void tell(void) {
    const char *folder = getenv("PREDICTION_FOLDER");
    char name[4096], line[8192];
    if (!folder) return;
    snprintf(name, sizeof name, "%s/maps.%d", folder, (int)getpid());
    FILE *maps = fopen("/proc/self/maps", "r"), *out = fopen(name, "w");
    while (maps && out && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && strstr(line, "r-xp")) fputs(path, out);
    }
    if (maps) fclose(maps);
    if (out) fclose(out);
}
