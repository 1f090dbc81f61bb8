/* own_user.h - a test process is a user of its own, and so are those that it forks.
 *
 * The names of sessions hold the user. A session whose owner died is taken up or collected
 * by the first process of its user that looks for one: another test, the same test in
 * another build, or a kernel that starts.
 */
#ifndef OWN_USER_H
#define OWN_USER_H

#include <sys/types.h>
#include <unistd.h>

static uid_t user;

uid_t
getuid(void) {
    return user;
}

__attribute__((constructor)) static void
choose_user(void) {
    user = 0x60000000u + (uid_t)(getpid() & 0xffffff);
}

#endif
