/* test_channel.c - a worker's end of the control channel; this program is the frontend, too. */
#include "channel.h"
#include "support/check.h"
#include "workers/control.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static hfi_control *frontend;
static hfi_channel *channel;

static void
open_both(void) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(hfi_control_create_consume(fds[0], &frontend, NULL) == HF_OK);
    CHECK(hfi_channel_create_consume(fds[1], &channel, NULL) == HF_OK);
}

static void
close_both(void) {
    hfi_control_close(frontend);
    hfi_channel_destroy(channel);
}

/* ---- both sides' frames ---- */

static hf_status
send_frame(const hfi_frame *frame) {
    hfi_packed packed;
    hf_error error = HF_ERROR_INIT;
    CHECK(hfi_packed_init(&packed, frame, NULL) == HF_OK);
    hf_status status = hfi_channel_send(channel, &packed, &error);
    hfi_packed_fini(&packed);
    return status;
}

static void
keep_frame(const hfi_frame *frame) {
    hfi_packed packed;
    CHECK(hfi_packed_init(&packed, frame, NULL) == HF_OK);
    CHECK(hfi_channel_keep(channel, &packed, NULL) == HF_OK);
    hfi_packed_fini(&packed);
}

/* The frontend's next frame, read as the row; it waits. */
static void
expect_frame(const hfi_row *row, hfi_received *received, hfi_any_frame *ret_frame) {
    hf_status status;
    while ((status = hfi_control_next(frontend, received, NULL)) == HF_AGAIN)
        CHECK(hfi_control_fill(frontend, NULL) == HF_OK);
    CHECK(status == HF_OK);
    CHECK(hfi_part_is(hfi_received_op(received), row->op));
    CHECK(hfi_control_read(frontend, received, row, &ret_frame->head, NULL) == HF_OK);
}

static void
give_frame(const hfi_frame *frame) {
    CHECK(hfi_control_send_consume(frontend, frame, NULL) == HF_OK);
    CHECK(!hfi_control_is_full(frontend));
}

static int
make_file(ino_t *ret_inode) {
    char path[] = "/tmp/test_channel_XXXXXX";
    struct stat st;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && fstat(fd, &st) == 0);
    *ret_inode = st.st_ino;
    return fd;
}

/* It has that file alone, which ends with it. */
static void
check_descriptor(hfi_incoming *incoming, ino_t inode) {
    struct stat st;
    CHECK(incoming && incoming->fd_count == 1);
    int fd = incoming->fds[0];
    CHECK(fstat(fd, &st) == 0 && st.st_ino == inode);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    hfi_incoming_free(incoming);
    CHECK(fcntl(fd, F_GETFD) < 0);
}

/* ---- receiving ---- */

static void
test_frames_have_their_own_descriptors(void) {
    ino_t debug, handle;
    open_both();
    int debug_fd = make_file(&debug), handle_fd = make_file(&handle);
    give_frame(HFI_FRAME(to_worker_debug, .head.fds = {debug_fd},
                         .target = hfi_part_text("cell")));
    give_frame(HFI_FRAME(to_worker_handle, .handle = 1));
    give_frame(HFI_FRAME(to_worker_handle, .head.fds = {handle_fd}, .handle = 2,
                         .found = true));
    CHECK(!hfi_channel_has_frames(channel));
    CHECK(hfi_channel_fill(channel, NULL) == HF_OK);
    hfi_incoming *incoming = hfi_channel_next(channel, "handle");
    CHECK(incoming && incoming->fd_count == 0);
    hfi_incoming_free(incoming);
    check_descriptor(hfi_channel_next(channel, "handle"), handle);
    CHECK(!hfi_channel_next(channel, "handle") && hfi_channel_has_frames(channel));
    check_descriptor(hfi_channel_next(channel, NULL), debug);
    CHECK(!hfi_channel_has_frames(channel));
    close_both();
}

static void
test_a_frame_in_pieces(void) {
    enum { SIZE = 5000000 };
    char *target = malloc(SIZE);
    ino_t inode;
    open_both();
    CHECK(target);
    memset(target, 'x', SIZE);
    CHECK(hfi_control_send_consume(frontend,
                                   HFI_FRAME(to_worker_debug,
                                             .head.fds = {make_file(&inode)},
                                             .target = hfi_part_of(target, SIZE)),
                                   NULL) == HF_OK);
    for (int reads = 0; !hfi_channel_has_frames(channel); reads++) {
        CHECK(hfi_control_is_full(frontend) || reads > 0);
        hfi_channel_wait(channel, 1000);
        CHECK(hfi_channel_fill(channel, NULL) == HF_OK);
        CHECK(hfi_control_flush(frontend, NULL) == HF_OK);
    }
    check_descriptor(hfi_channel_next(channel, "debug"), inode);
    free(target);
    close_both();
}

/* Write a frame as it is, and the descriptors apart from what it announces. */
static void
give_bytes(const hfi_frame *frame) {
    msgpack_sbuffer buffer;
    CHECK(hfi_frame_write(frame, &buffer, NULL) == HF_OK);
    CHECK(write(hfi_control_fd(frontend), buffer.data, buffer.size) ==
          (ssize_t)buffer.size);
    msgpack_sbuffer_destroy(&buffer);
}

static void
test_descriptors_that_do_not_come(void) {
    open_both();
    give_bytes(HFI_FRAME(to_worker_debug, .target = hfi_part_text("main")));
    CHECK(hfi_channel_fill(channel, NULL) == HF_OK);
    hfi_incoming *incoming = hfi_channel_next(channel, NULL);
    CHECK(incoming && incoming->fd_count == 1 && incoming->fds[0] == -1);
    hfi_incoming_free(incoming);
    close_both();
}

/* The process has no room for it: the next frame still gets its own. */
static void
test_a_lost_descriptor(void) {
    ino_t lost, kept;
    int fds[16], count = 0;
    open_both();
    give_frame(HFI_FRAME(to_worker_debug, .head.fds = {make_file(&lost)}));
    int last = dup(0);
    CHECK(last >= 0 && close(last) == 0);
    struct rlimit before, limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    limit = before;
    limit.rlim_cur = (rlim_t)last + 4;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (count < 16 && (fds[count] = dup(0)) >= 0)
        count++;
    CHECK(hfi_channel_fill(channel, NULL) == HF_OK);
    while (count > 0)
        close(fds[--count]);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    give_frame(HFI_FRAME(to_worker_debug, .head.fds = {make_file(&kept)}));
    CHECK(hfi_channel_fill(channel, NULL) == HF_OK);
    hfi_incoming *incoming = hfi_channel_next(channel, NULL);
    CHECK(incoming && incoming->fds[0] == -1);
    hfi_incoming_free(incoming);
    check_descriptor(hfi_channel_next(channel, NULL), kept);
    close_both();
}

static void
test_the_end(void) {
    hf_error error = HF_ERROR_INIT;
    open_both();
    give_frame(HFI_FRAME_BARE(to_main_rest));
    hfi_control_close(frontend);
    frontend = NULL;
    CHECK(hfi_channel_fill(channel, NULL) == HF_OK);
    CHECK(hfi_channel_fill(channel, NULL) == HF_OK && hfi_channel_has_ended(channel));
    hfi_incoming *incoming = hfi_channel_next(channel, NULL);
    CHECK(incoming && hfi_part_is(hfi_received_op(&incoming->received), "rest"));
    hfi_incoming_free(incoming);
    CHECK(send_frame(HFI_FRAME_BARE(from_main_owes)) == HF_E_GONE);
    hfi_channel_close(channel);
    hfi_channel_close(channel);
    CHECK(hfi_channel_fd(channel) == -1);
    CHECK(send_frame(HFI_FRAME_BARE(from_main_owes)) == HF_E_GONE);
    CHECK(hfi_channel_fill(channel, &error) == HF_E_GONE);
    CHECK_TEXT(error.message, "the control channel is closed");
    close_both();
}

/* ---- sending ---- */

static void
test_a_kept_frame_travels_with_the_next_one(void) {
    hfi_received received = {0};
    hfi_any_frame frame;
    open_both();
    keep_frame(HFI_FRAME(from_main_settled, .generation = 7));
    CHECK(hfi_control_fill(frontend, NULL) == HF_OK);
    CHECK(hfi_control_next(frontend, &received, NULL) == HF_AGAIN);
    CHECK(send_frame(HFI_FRAME(from_worker_handle, .head.fds = {0}, .handle = 5,
                               .found = true)) == HF_OK);
    CHECK(fcntl(0, F_GETFD) >= 0); /* still ours */
    CHECK(hfi_control_fill(frontend, NULL) == HF_OK);
    expect_frame(&hfi_row_from_main_settled, &received, &frame);
    CHECK(frame.from_main_settled.generation == 7);
    expect_frame(&hfi_row_from_worker_handle, &received, &frame);
    CHECK(frame.from_worker_handle.handle == 5 && frame.head.fds[0] >= 0);
    close(frame.head.fds[0]);
    CHECK(send_frame(HFI_FRAME_BARE(from_main_owes)) == HF_OK);
    expect_frame(&hfi_row_from_main_owes, &received, &frame);
    hfi_received_fini(&received);
    close_both();
}

static void
ignore_signal(int number) {
    (void)number;
}

enum { LARGE = 200000, LARGE_COUNT = 100 };
static char large[LARGE];

static void *
send_large(void *context) {
    hfi_part buffers[LARGE_COUNT];
    hfi_packed packed;
    (void)context;
    for (size_t i = 0; i < LARGE_COUNT; i++)
        buffers[i] = hfi_part_of(large, i % 2 ? 3 : LARGE);
    CHECK(hfi_packed_init(&packed,
                          HFI_FRAME(from_worker_message,
                                    .content = hfi_part_of(large, LARGE),
                                    .buffers = {buffers, LARGE_COUNT}),
                          NULL) == HF_OK);
    CHECK(packed.small.size < 2000); /* no copy */
    size_t theirs = 0;
    for (size_t i = 2; i < packed.piece_count; i += 2)
        theirs += packed.pieces[i].iov_base == large;
    CHECK(theirs == 1 + LARGE_COUNT / 2);
    CHECK(hfi_channel_send(channel, &packed, NULL) == HF_OK);
    hfi_packed_fini(&packed);
    return NULL;
}

/* Larger than the socket's memory; the frontend is slow, and signals come. */
static void
test_a_large_frame_is_sent_whole(void) {
    const struct sigaction ignored = {.sa_handler = ignore_signal};
    hfi_received received = {0};
    hfi_any_frame frame;
    pthread_t sender;
    open_both();
    memset(large, 'y', sizeof large);
    CHECK(sigaction(SIGUSR1, &ignored, NULL) == 0);
    CHECK(pthread_create(&sender, NULL, send_large, NULL) == 0);
    hf_status status;
    while ((status = hfi_control_next(frontend, &received, NULL)) == HF_AGAIN) {
        pthread_kill(sender, SIGUSR1);
        CHECK(hfi_control_fill(frontend, NULL) == HF_OK);
    }
    CHECK(status == HF_OK && pthread_join(sender, NULL) == 0);
    CHECK(hfi_frame_read(&received, &hfi_row_from_worker_message, &frame.head, NULL) ==
          HF_OK);
    hfi_parts buffers = frame.from_worker_message.buffers;
    CHECK(buffers.count == LARGE_COUNT);
    for (size_t i = 0; i < LARGE_COUNT; i++)
        CHECK(hfi_part_equal(buffers.items[i], hfi_part_of(large, i % 2 ? 3 : LARGE)));
    hfi_received_fini(&received);
    close_both();
}

enum { WRITERS = 4, LINES = 2000 };

static void *
write_lines(void *context) {
    const char *name = context;
    char *text = malloc(HFI_CHANNEL_LARGE + 1);
    CHECK(text);
    for (int i = 0; i < LINES; i++) {
        int size = snprintf(text, 20, "%d ", i);
        if (i % 100 == 50) /* a large one */
            memset(text + size, ' ', HFI_CHANNEL_LARGE + 1 - (size_t)size);
        hfi_frame *stream =
            HFI_FRAME(from_worker_stream, .name = hfi_part_text(name),
                      .text = hfi_part_of(text, i % 100 == 50 ? HFI_CHANNEL_LARGE + 1
                                                              : (size_t)size));
        if (i % 5 == 0)
            keep_frame(stream);
        else
            CHECK(send_frame(stream) == HF_OK);
    }
    free(text);
    return NULL;
}

/* Each frame whole, and each thread's in its order. */
static void
test_several_writers(void) {
    static char names[WRITERS][2] = {"0", "1", "2", "3"};
    hfi_received received = {0};
    hfi_any_frame frame;
    pthread_t writers[WRITERS];
    int next[WRITERS] = {0};
    open_both();
    for (size_t i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&writers[i], NULL, write_lines, names[i]) == 0);
    for (int i = 0; i < WRITERS * LINES; i++) {
        expect_frame(&hfi_row_from_worker_stream, &received, &frame);
        hfi_from_worker_stream *stream = &frame.from_worker_stream;
        int writer = *stream->name.data - '0';
        CHECK(stream->name.size == 1 && writer >= 0 && writer < WRITERS);
        CHECK(atoi(stream->text.data) == next[writer]);
        next[writer]++;
    }
    for (size_t i = 0; i < WRITERS; i++)
        CHECK(pthread_join(writers[i], NULL) == 0);
    hfi_received_fini(&received);
    close_both();
}

/* ---- a fork ---- */

static void *
send_and_block(void *context) {
    (void)context;
    hf_status status = send_frame(HFI_FRAME(
        from_worker_message, .content = hfi_part_of(large, LARGE), .buffers = {0}));
    CHECK(status == HF_OK || status == HF_E_GONE);
    return NULL;
}

/* Made while another thread sends, which holds the lock. */
static void
test_a_fork_begins_anew(void) {
    hfi_received received = {0};
    hfi_any_frame frame;
    pthread_t senders[4];
    int fds[2], status;
    open_both();
    give_frame(HFI_FRAME_BARE(to_main_rest));
    CHECK(hfi_channel_fill(channel, NULL) == HF_OK);
    keep_frame(HFI_FRAME_BARE(from_main_owes));
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&senders[i], NULL, send_and_block, NULL) == 0);
    while (hfi_control_fill(frontend, NULL) == HF_OK &&
           hfi_control_next(frontend, &received, NULL) != HF_OK)
        ; /* until the first has begun */
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(dup2(fds[1], hfi_channel_fd(channel)) >= 0);
        hfi_channel_begin_anew(channel);
        CHECK(!hfi_channel_has_frames(channel));
        CHECK(send_frame(HFI_FRAME(from_main_settled, .generation = 3)) == HF_OK);
        hfi_channel_close(channel);
        raise(SIGKILL); /* not _exit, where the thread sanitizer misses the threads */
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    hfi_control *parent = frontend;
    CHECK(hfi_control_create_consume(fds[0], &frontend, NULL) == HF_OK);
    expect_frame(&hfi_row_from_main_settled, &received, &frame);
    CHECK(frame.from_main_settled.generation == 3);
    close(fds[1]);
    CHECK(hfi_control_fill(frontend, NULL) == HF_E_GONE);
    CHECK(hfi_control_next(frontend, &received, NULL) == HF_AGAIN);
    hfi_received_fini(&received);
    hfi_control_close(parent); /* those that wait get an error */
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(senders[i], NULL) == 0);
    close_both();
}

/* ---- pipes ---- */

static int64_t written[2];

static void
test_pipes_are_counted(void) {
    int pipes[2][2];
    char path[] = "/tmp/test_channel_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, sizeof(hfi_tally)) == 0);
    hfi_tally *tally =
        mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(tally != MAP_FAILED && pipe(pipes[0]) == 0 && pipe(pipes[1]) == 0);
    open_both();
    CHECK(hfi_channel_tally(channel) == -1);
    CHECK(hfi_channel_count(channel, true, written) == HF_NOT_FOUND);
    const int ends[] = {pipes[0][1], pipes[1][1]};
    CHECK(hfi_channel_watch_consume(channel, fd, ends, NULL) == HF_OK);
    CHECK(hfi_channel_tally(channel) == fd);
    atomic_store(&tally->read[0], 100);
    CHECK(hfi_channel_count(channel, true, written) == HF_NOT_FOUND);
    CHECK(write(ends[0], "abc", 3) == 3 && write(ends[1], "d", 1) == 1);
    CHECK(hfi_channel_count(channel, false, written) == HF_OK);
    CHECK(written[0] == 103 && written[1] == 1);
    atomic_store(&tally->turn, 1); /* the frontend reads */
    CHECK(hfi_channel_count(channel, false, written) == HF_AGAIN);
    atomic_store(&tally->turn, 2);
    CHECK(hfi_channel_count(channel, true, written) == HF_OK);
    hfi_channel_begin_anew(channel);
    CHECK(hfi_channel_tally(channel) == -1 && fcntl(fd, F_GETFD) < 0);
    close_both();
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
    munmap(tally, sizeof *tally);
}

int
main(void) {
    test_frames_have_their_own_descriptors();
    test_a_frame_in_pieces();
    test_descriptors_that_do_not_come();
    test_a_lost_descriptor();
    test_the_end();
    test_a_kept_frame_travels_with_the_next_one();
    test_a_large_frame_is_sent_whole();
    test_several_writers();
    test_a_fork_begins_anew();
    test_pipes_are_counted();
    return 0;
}
