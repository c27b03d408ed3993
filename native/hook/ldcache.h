/* ld.so.cache in the format of glibc 2.2 and newer (glibc, sysdeps/generic/dl-cache.h). */
#ifndef STACKPROOF_LDCACHE_H
#define STACKPROOF_LDCACHE_H

#include <stdbool.h>
#include <stddef.h>

enum { SP_LDCACHE_BYTES = 8 * 1024 * 1024 };

/* Steps through the paths that a cache has for a name: `step` is 0 at first and is moved on.
 * Returns the path, or NULL behind the last one, and for what is no such cache. */
const char *sp_ldcache_next(const char *cache, size_t length, const char *name, size_t *step);

#endif
