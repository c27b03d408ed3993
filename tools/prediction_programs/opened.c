/* A host that opens its module while it runs, as an interpreter does. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words) {
    if (count < 2) return 2;
    void *module = dlopen(words[1], RTLD_NOW);
    int (*start)(int, char **) = module ? (int (*)(int, char **))dlsym(module, "start") : NULL;
    if (!start) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return start(1, words);
}
