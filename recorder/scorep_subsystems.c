/* scorep_subsystems.c - the table by which Score-P finds its own parts.
 *
 * Score-P's measurement library refers to a table of its subsystems, which is meant to
 * be compiled into the instrumented program: scorep-config prints its source. Its
 * contents depend on the installation and on the options. So this library has room for
 * all subsystems, and gets their names at run time. It needs neither Score-P nor a
 * compiler when it is built or loaded, and one build serves every installation.
 *
 * It is loaded before Score-P. If both are preloaded, Score-P may start before the
 * program's main(). So the names come in the environment, and are looked up when the
 * library is initialised. The dynamic linker first initialises what is last in
 * LD_PRELOAD, so this library is last there.
 *
 * OPARI2's libraries ask the program for its OpenMP regions. Python has none.
 *
 * Rejected: compile the table at run time, as Score-P's bindings do. This needs a
 * compiler where the program runs, and a place to keep the result.
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

/* Take the symbols with these names, each of which ends with a blank. Returns NULL, or
 * the place from which the names are wrong. */
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
