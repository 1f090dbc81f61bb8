/* fuzz_fork_server.c - whatever comes on its control channel, a fork server goes on or ends
 * in order.
 *
 * An input is one life of it: byte 0 says what fails, and whether descriptors ride on the
 * stream. Behind it are pieces of the stream, each behind its size: one comes each time
 * that the server waits. One of size 0 is a moment in which nothing comes. The linker
 * puts stubs in the place of the wait and of the fork (--wrap).
 *
 * Checked beyond "doesn't crash" and "ends": what is sent are whole frames of the table;
 * imports are finished when none is left; all that was opened is closed.
 */
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../support/check.h"
#include "../support/open_files.h"
#include "driver.h"
#include "fork_server.h"
#include "frames.h"

const uint32_t fuzz_weight = 10; /* it opens a socket pair */

enum { WITH_FDS = 1, FORK_FAILS = 2, LANGUAGE_FAILS = 4 };

static uint8_t how;
static const uint8_t *pieces;
static size_t piece_bytes;
static hfi_control *frontend;
static unsigned wanted, sum;
static char first_name[16];

/* ---- stubs ----------------------------------------------------------------------- */

bool __wrap_hfi_channel_wait(const hfi_channel *channel, int timeout_ms);
hf_status __wrap_hfi_fork(const hfi_fork_request *request, pid_t *ret_pid,
                          double *ret_seconds, hf_error *reterr);

bool
__wrap_hfi_channel_wait(const hfi_channel *channel, int timeout_ms) {
    (void)channel;
    read_frames(frontend); /* else its channel would be full */
    while (piece_bytes > 0 && pieces[0] == 0) {
        pieces++, piece_bytes--;
        if (timeout_ms >= 0)
            return false;
    }
    if (piece_bytes == 0) {
        (void)shutdown(hfi_control_fd(frontend), SHUT_WR);
        return true;
    }
    size_t size = pieces[0] < piece_bytes ? pieces[0] : piece_bytes - 1;
    pieces++, piece_bytes--;
    if (size > 0)
        send_bytes(hfi_control_fd(frontend), pieces, size, how & WITH_FDS ? 2 : -1);
    pieces += size, piece_bytes -= size;
    return true;
}

hf_status
__wrap_hfi_fork(const hfi_fork_request *request, pid_t *ret_pid, double *ret_seconds,
                hf_error *reterr) {
    CHECK(request->move_count == 3 && request->kept_count == 1);
    if (how & FORK_FAILS)
        return hf_error_set(reterr, HF_E_SYSTEM, "no fork");
    *ret_pid = 4711;
    *ret_seconds = 0;
    return HF_OK;
}

/* ---- a language ------------------------------------------------------------------ */

static hf_status
want_modules(void *context, hfi_parts names, hf_error *reterr) {
    (void)context;
    for (size_t i = 0; i < names.count; i++) {
        wanted++;
        for (size_t k = 0; k < names.items[i].size; k++)
            sum += (unsigned char)names.items[i].data[k];
        snprintf(first_name, sizeof first_name, "%.*s", (int)names.items[i].size,
                 names.items[i].data);
    }
    return how & LANGUAGE_FAILS && wanted > 2
               ? hf_error_set(reterr, HF_E_INVALID, "so many")
               : HF_OK;
}

static hf_status
import_next(void *context, hf_error *reterr) {
    (void)context, (void)reterr;
    wanted -= wanted > 0;
    return wanted > 0 ? HF_AGAIN : HF_OK;
}

static hf_status
finish_imports(void *context, hf_error *reterr) {
    hfi_part name = hfi_part_text(first_name);
    CHECK(wanted == 0);
    return hfi_channel_send_frame(
        context, HFI_FRAME(from_fork_server_imported, .modules = {&name, 1}), reterr);
}

static hf_status
want_for_role(void *context, hfi_part role, hf_error *reterr) {
    (void)context, (void)reterr;
    for (size_t i = 0; i < role.size; i++)
        sum += (unsigned char)role.data[i];
    wanted += role.size % 2;
    return role.size % 2 ? HF_AGAIN : HF_OK;
}

/* ---- inputs ---------------------------------------------------------------------- */

size_t
fuzz_seed(uint32_t number, uint8_t *ret_input) {
    static const hfi_part names[] = {{"numpy", 5}, {"a.b", 3}};
    const hfi_frame *const frames[] = {
        HFI_FRAME(to_fork_server_fork, .role = hfi_part_text("main"), .bare = true),
        HFI_FRAME(to_fork_server_import, .modules = {names, 2}),
        HFI_FRAME(to_fork_server_fork, .role = hfi_part_text("assistant")),
        HFI_FRAME(to_fork_server_import, .modules = {names, 0}),
        HFI_FRAME_BARE(to_main_rest)};
    size_t size = 1;
    ret_input[0] = (uint8_t)number;
    for (uint32_t i = 0; i < 8; i++) {
        size_t place = size++;
        if ((number >> i) % 3 > 0)
            add_frame(ret_input, &size, frames[(number / 3 + i * 3) % 5]);
        ret_input[place] = (uint8_t)(size - place - 1);
    }
    return size;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static FILE *nowhere;
    struct sigaction on_child;
    hfi_channel *channel;
    if (size < 2 || size > FUZZ_INPUT_MAX)
        return 0;
    if (nowhere == NULL)
        CHECK((nowhere = fopen("/dev/null", "w")) != NULL);
    int fds[2], before = count_descriptors();
    how = data[0];
    pieces = data + 1;
    piece_bytes = size - 1;
    wanted = 0;
    sigaction(SIGCHLD, NULL, &on_child);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(hfi_control_create_consume(fds[0], &frontend, NULL) == HF_OK);
    CHECK(hfi_channel_create_consume(fds[1], &channel, NULL) == HF_OK);
    const hfi_fork_server_language language = {.context = channel,
                                               .want_modules = want_modules,
                                               .idle = import_next,
                                               .finish_imports = finish_imports,
                                               .before_fork = want_for_role};
    FILE *log = stderr;
    stderr = nowhere; /* for ops that it doesn't know */
    hf_status status = hfi_fork_server_serve(&language, channel, -1, NULL);
    stderr = log;
    hfi_channel_destroy(channel);
    CHECK(status == HF_OK || status == HF_E_PROTOCOL || status == HF_E_INVALID);
    read_frames(frontend);
    hfi_control_close(frontend);
    sigaction(SIGCHLD, &on_child, NULL);
    CHECK(count_descriptors() == before);
    return 0;
}
