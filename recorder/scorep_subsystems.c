/* scorep_subsystems.c - the table by which Score-P finds the parts that it is made of.
 *
 * Score-P's measurement library refers to a table of its subsystems, which is meant to
 * be compiled into the instrumented program: scorep-config prints its source. Which
 * ones there are depends on the installation and on the options, so this library has
 * room for all, and gets their names. It needs neither Score-P nor a compiler when
 * it is built or loaded, and one build serves every installation.
 *
 * It is loaded before Score-P. If both are preloaded, Score-P may start before the
 * program's main(), so the names come by the environment and are looked up when the
 * library is initialised; the dynamic linker initialises what is named last in
 * LD_PRELOAD first, and this is named last.
 *
 * OPARI2's libraries ask the program for its OpenMP regions. Python has none.
 *
 * Rejected: compiling the table at run time, as Score-P's bindings do. It needs a
 * compiler where the program runs, and a place to keep what it makes.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MOST = 64 };

/* The names are Score-P's and OPARI2's. */
EXPORT extern const void *scorep_subsystems[];
EXPORT extern size_t scorep_number_of_subsystems;
EXPORT void POMP2_Init_regions(void);
EXPORT size_t POMP2_Get_num_regions(void);
EXPORT void POMP2_USER_Init_regions(void);
EXPORT size_t POMP2_USER_Get_num_regions(void);
EXPORT const char *holdfast_scorep_fill(const char *names);

const void *scorep_subsystems[MOST];
size_t scorep_number_of_subsystems;

void
POMP2_Init_regions(void) {}

size_t
POMP2_Get_num_regions(void) {
    return 0;
}

void
POMP2_USER_Init_regions(void) {}

size_t
POMP2_USER_Get_num_regions(void) {
    return 0;
}

/* Take the symbols whose names, each ended by a blank, are given. Returns NULL, or from
 * where on the names are wrong. */
const char *
holdfast_scorep_fill(const char *names) {
    char name[128];
    size_t count = 0;
    while (*names) {
        const char *end = strchr(names, ' ');
        if (!end || (size_t)(end - names) >= sizeof name || count == MOST)
            return names;
        memcpy(name, names, (size_t)(end - names));
        name[end - names] = '\0';
        scorep_subsystems[count] = dlsym(RTLD_DEFAULT, name);
        if (!scorep_subsystems[count++])
            return names;
        names = end + 1;
    }
    scorep_number_of_subsystems = count;
    return NULL;
}

__attribute__((constructor)) static void
fill_from_environment(void) {
    const char *names = getenv("HOLDFAST_SCOREP_SUBSYSTEMS");
    if (names)
        (void)holdfast_scorep_fill(names);
}
