/* failing_messages.c - wrappers as in failing_calls.c, for what the frontend calls and
 * the store doesn't: sockets, pipes, ZeroMQ, msgpack. */
#include "failing_calls.h"
#include "wrap.h"

#include <errno.h>
#include <msgpack.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

/* clang-format off */
WRAP(ssize_t, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags), -1)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1)
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), -1)
WRAP(int, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds), -1)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(int, pipe, (int fds[2]), (fds), -1)
WRAP(void *, zmq_ctx_new, (void), (), NULL)
WRAP(void *, zmq_socket, (void *context, int type), (context, type), NULL)
WRAP(int, zmq_setsockopt, (void *socket, int option, const void *value, size_t size), (socket, option, value, size), -1)
WRAP(int, zmq_msg_init_data, (zmq_msg_t *message, void *data, size_t size, zmq_free_fn *release, void *hint), (message, data, size, release, hint), -1)
WRAP(int, zmq_msg_send, (zmq_msg_t *message, void *socket, int flags), (message, socket, flags), -1)
WRAP(int, zmq_send, (void *socket, const void *data, size_t size, int flags), (socket, data, size, flags), -1)
WRAP(msgpack_unpack_return, msgpack_unpack_next, (msgpack_unpacked *result, const char *data, size_t size, size_t *offset), (result, data, size, offset), MSGPACK_UNPACK_NOMEM_ERROR)
/* clang-format on */

void *__wrap_malloc(size_t size);
char *__wrap_strndup(const char *text, size_t size);

char *
__wrap_strndup(const char *text, size_t size) {
    size_t length = strnlen(text, size);
    char *copy = __wrap_malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
    }
    return copy;
}
