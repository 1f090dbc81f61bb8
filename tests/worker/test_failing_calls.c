/* test_failing_calls.c - every call of a worker's channel that can fail does, in turn.
 *
 * A worker lives with its channel: it reads two frames with a descriptor each, sends some,
 * counts its pipes and closes. First its first call fails, then the second, until there
 * is none left to fail; for each errno, once and from there on. After each the frontend
 * has read those frames whole, and in their order, that were sent with HF_OK, and no other;
 * no descriptor and no block of memory is lost.
 */
#include "channel.h"
#include "support/check.h"
#include "support/failing_calls.h"
#include "support/open_files.h"
#include "workers/control.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SENT_MAX = 8 };

static int tally_fd, pipe_fds[2];
static char large[HFI_CHANNEL_LARGE + 5];
static int64_t sent[SENT_MAX]; /* what the frontend must read */
static size_t sent_count;
static bool has_kept;
static int64_t kept;

static void
check_status(hf_status status) {
    CHECK(status == HF_OK || status == HF_E_NOMEM || status == HF_E_SYSTEM ||
          status == HF_E_GONE);
}

/* What was kept goes first, with the first frame that can be sent. */
static void
send_frame(hfi_channel *channel, const hfi_frame *frame, int64_t number, bool keeps) {
    hfi_packed packed;
    hf_status status = hfi_packed_init(&packed, frame, NULL);
    if (status == HF_OK)
        status = keeps ? hfi_channel_keep(channel, &packed, NULL)
                       : hfi_channel_send(channel, &packed, NULL);
    hfi_packed_fini(&packed);
    check_status(status);
    if (status == HF_OK && keeps) {
        has_kept = true;
        kept = number;
    } else if (status == HF_OK) {
        if (has_kept)
            sent[sent_count++] = kept;
        has_kept = false;
        sent[sent_count++] = number;
    }
}

static void
live_with_channel(int fd) {
    hfi_channel *channel;
    hfi_incoming *incoming;
    int64_t written[2];
    sent_count = 0;
    has_kept = false;
    hf_status status = hfi_channel_create_consume(fd, &channel, NULL);
    check_status(status);
    if (status != HF_OK)
        return;
    check_status(hfi_channel_fill(channel, NULL));
    while ((incoming = hfi_channel_next(channel, NULL)) != NULL)
        hfi_incoming_free(incoming);
    check_status(hfi_channel_watch_consume(channel, dup(tally_fd), pipe_fds, NULL));
    status = hfi_channel_count(channel, true, written);
    CHECK(status == HF_NOT_FOUND || (status == HF_OK && written[0] == 1));
    send_frame(channel, HFI_FRAME(from_main_settled, .generation = 1), 1, false);
    send_frame(channel, HFI_FRAME(from_main_settled, .generation = 2), 2, true);
    send_frame(
        channel,
        HFI_FRAME(from_worker_handle, .head.fds = {0}, .handle = 3, .found = true), 3,
        false);
    send_frame(channel,
               HFI_FRAME(from_worker_input_request,
                         .prompt = hfi_part_of(large, sizeof large)),
               4, false);
    send_frame(channel, HFI_FRAME(from_main_settled, .generation = 5), 5, false);
    hfi_channel_begin_anew(channel);
    hfi_channel_destroy(channel);
}

/* The next frame's number; 0: there is none. */
static int64_t
read_number(hfi_control *frontend, hfi_received *received) {
    hfi_any_frame frame;
    const hfi_row *const rows[] = {&hfi_row_from_main_settled,
                                   &hfi_row_from_worker_handle,
                                   &hfi_row_from_worker_input_request};
    if (hfi_control_next(frontend, received, NULL) != HF_OK)
        return 0;
    size_t i = 0;
    while (!hfi_part_is(hfi_received_op(received), rows[i]->op))
        i++;
    CHECK(hfi_control_read(frontend, received, rows[i], &frame.head, NULL) == HF_OK);
    if (i == 0)
        return frame.from_main_settled.generation;
    if (i == 1)
        close(frame.head.fds[0]);
    else
        CHECK(hfi_part_equal(frame.from_worker_input_request.prompt,
                             hfi_part_of(large, sizeof large)));
    return i == 1 ? 3 : 4;
}

/* 0 behind the last call. Nothing outlives a process that is killed. */
static int
try_point(void *context, hft_fault fault, long at) {
    long *points = context;
    hfi_control *frontend;
    hfi_received received = {0};
    hf_status status;
    int fds[2];
    if (fault.err == 0)
        return 0;
    int descriptors = count_descriptors();
    long blocks = hft_calls_blocks();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(hfi_control_create_consume(fds[0], &frontend, NULL) == HF_OK);
    for (int i = 0; i < 2; i++)
        CHECK(hfi_control_send_consume(
                  frontend,
                  HFI_FRAME(to_worker_handle, .head.fds = {dup(0)}, .found = true),
                  NULL) == HF_OK);
    hft_calls_arm(at, fault);
    live_with_channel(fds[1]);
    hft_calls_disarm();
    while ((status = hfi_control_fill(frontend, NULL)) == HF_OK)
        continue;
    CHECK(status == HF_E_GONE);
    for (size_t i = 0; i < sent_count; i++)
        CHECK(read_number(frontend, &received) == sent[i]);
    CHECK(read_number(frontend, &received) == 0);
    hfi_received_fini(&received);
    hfi_control_close(frontend);
    int failed = atomic_load(&hft_calls_seen->failed) > 0;
    CHECK(failed || sent_count == 5);
    /* Pipes that can't be asked aren't closed: their numbers are the user's by now. */
    int left = strcmp(hft_calls_seen->name, "ioctl") == 0 ? 3 : 0;
    int lost = count_descriptors() - descriptors - left;
    long lost_blocks = hft_calls_blocks() - blocks;
    if (lost != 0 || lost_blocks != 0)
        fprintf(stderr, "call %ld, %s: %d descriptors and %ld blocks are lost\n", at,
                hft_calls_seen->name, lost, lost_blocks);
    CHECK(lost == 0 && lost_blocks == 0);
    *points += failed;
    return failed;
}

int
main(void) {
    long points = 0;
    memset(large, 'z', sizeof large);
    tally_fd = memfd_create("tally", 0);
    CHECK(ftruncate(tally_fd, sizeof(hfi_tally)) == 0 && pipe(pipe_fds) == 0);
    CHECK(write(pipe_fds[1], "x", 1) == 1);
    pipe_fds[0] = pipe_fds[1];
    hft_calls_try(1, try_point, &points);
    CHECK(points > 100);
    return 0;
}
