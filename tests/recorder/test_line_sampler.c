/* test_line_sampler.c - what a look at a thread's stack counts: by numbers of looks.
 *
 * The "interpreter" is this test: its instructions are numbers that nobody runs.
 */
#include "recorder/line_sampler.h"
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START = 0x5000, LOOKS = 20 };

static char path[] = "lines-XXXXXX";

static hfi_lines_header
header(void) {
    hfi_lines_header read_header = {.rounds = 0};
    int file = open(path, O_RDONLY);
    CHECK(file >= 0 && read(file, &read_header, sizeof read_header) > 0);
    close(file);
    return read_header;
}

/* Until all threads have been looked at so many times more, from now on. */
static void
wait_for_looks(uint64_t count) {
    uint64_t until = header().rounds + count + 1;
    while (header().rounds < until)
        sched_yield();
}

/* Lines 10, 10, 12, 13; or `line` alone. */
static hfi_line_code *
add_code(const char *name, uint32_t line) {
    static const uint32_t several[] = {10, 10, 12, 13};
    uint32_t one[] = {line, line, line, line};
    hfi_line_source source = {.file = "file.py",
                              .name = name,
                              .def_line = 9,
                              .start = START,
                              .lines = line ? one : several,
                              .instruction_count = 4};
    hfi_line_code *code = hfi_lines_add_code(&source);
    CHECK(code && code->record);
    return code;
}

static hfi_line_stack *
begin(void) {
    hf_error error = HF_ERROR_INIT;
    CHECK(hfi_lines_begin(path, &error) == HF_OK);
    CHECK(hfi_lines_begin(path, &error) == HF_BUSY);
    hfi_line_stack *stack = hfi_line_stack_acquire();
    CHECK(stack);
    return stack;
}

static void
end(hfi_line_stack *stack) {
    hfi_line_stack_release(stack);
    hfi_lines_end();
    CHECK(!hfi_lines_are_sampled());
    hfi_lines_end();
}

static void
test_time_is_at_the_line_of_the_innermost_function(void) {
    hfi_line_stack *stack = begin();
    hfi_line_code *outer = add_code("outer", 0), *inner = add_code("inner", 0);
    uintptr_t at_outer = START + 6, at_inner = START + 4; /* lines 13 and 12 */
    CHECK(hfi_line_push(stack, &at_outer, outer) == 0);
    CHECK(hfi_line_push(stack, &at_inner, inner) == 1);
    wait_for_looks(LOOKS);
    hfi_line_pop(stack, 0);
    wait_for_looks(2);
    const hfi_line_record *in = inner->record, *out = outer->record;
    CHECK(in->samples >= LOOKS && in->samples == in->inclusive_samples);
    CHECK(inner->counts[2].samples == in->samples && in->unplaced == 0);
    CHECK(inner->counts[2].own_ns == in->own_ns && in->own_ns > 0);
    CHECK(!inner->counts[0].samples && !inner->counts[3].samples);
    CHECK(out->samples == 0 && out->inclusive_samples == in->samples);
    CHECK(outer->counts[3].inclusive_samples == in->samples);
    CHECK(outer->counts[3].samples == 0 && outer->counts[3].inclusive_ns == in->own_ns);
    CHECK(inner->counts[0].has_code && !inner->counts[1].has_code);
    CHECK(in->calls == 1 && in->first_line == 10 && in->line_count == 4);
    uint64_t samples = in->samples;
    wait_for_looks(LOOKS); /* nothing is on the stack */
    CHECK(header().samples == samples && inner->record->samples == samples);
    end(stack);
}

static void
test_a_recursion_counts_once(void) {
    hfi_line_stack *stack = begin();
    hfi_line_code *code = add_code("again", 0);
    uintptr_t at = START;
    for (int i = 0; i < 5; i++)
        (void)hfi_line_push(stack, &at, code);
    wait_for_looks(LOOKS);
    hfi_line_pop(stack, 0);
    wait_for_looks(2);
    CHECK(code->record->calls == 5 && code->record->samples >= LOOKS);
    CHECK(code->record->inclusive_samples == code->record->samples);
    CHECK(code->counts[0].inclusive_samples == code->record->samples);
    end(stack);
}

/* An address that can't be read, or that isn't in the code: the function is right all
 * the same, and of a function of one line the line, too. */
static void
test_what_has_no_line_is_unplaced(void) {
    hfi_line_stack *stack = begin();
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    hfi_line_code *unread = add_code("unread", 0), *strange = add_code("strange", 0);
    hfi_line_code *single = add_code("single", 7);
    uintptr_t elsewhere = START + 100;
    const struct {
        const void *instruction;
        hfi_line_code *code;
    } rows[] = {{page, unread}, {&elsewhere, strange}, {page, single}};
    CHECK(page != MAP_FAILED);
    for (size_t i = 0; i < 3; i++) {
        (void)hfi_line_push(stack, rows[i].instruction, rows[i].code);
        wait_for_looks(LOOKS);
        hfi_line_pop(stack, 0);
        wait_for_looks(2);
        CHECK(rows[i].code->record->samples >= LOOKS);
    }
    CHECK(unread->record->unplaced == unread->record->samples);
    CHECK(strange->record->unplaced == strange->record->samples);
    CHECK(unread->counts[0].samples == 0 && strange->counts[0].samples == 0);
    CHECK(single->record->unplaced == 0);
    CHECK(single->counts[0].samples == single->record->samples);
    munmap(page, 4096);
    end(stack);
}

/* Of a deep stack the innermost functions are read; one that is too deep goes on. */
static void
test_deep_stacks(void) {
    hfi_line_stack *stack = begin();
    hfi_line_code *outer = add_code("outer", 0), *inner = add_code("inner", 0);
    uintptr_t at = START;
    (void)hfi_line_push(stack, &at, outer);
    for (int i = 0; i < HFI_LINES_DEPTH; i++)
        (void)hfi_line_push(stack, &at, inner);
    wait_for_looks(LOOKS);
    CHECK(hfi_line_push(stack, &at, inner) == HFI_LINES_DEPTH);
    hfi_line_pop(stack, HFI_LINES_DEPTH);
    hfi_line_pop(stack, 0);
    wait_for_looks(2);
    CHECK(inner->record->calls == HFI_LINES_DEPTH + 1);
    CHECK(inner->record->samples >= LOOKS && outer->record->samples == 0);
    CHECK(outer->record->inclusive_samples == 0);
    CHECK(header().cut == inner->record->samples);
    end(stack);
}

static void
test_a_released_stack_is_the_next_threads(void) {
    hfi_line_stack *stack = begin();
    hfi_line_stack *other = hfi_line_stack_acquire();
    CHECK(other && other != stack);
    hfi_line_stack_release(other);
    CHECK(hfi_line_stack_acquire() == other);
    hfi_line_stack_release(other);
    end(stack);
}

/* A forked child writes nothing into its parent's file. */
static void
test_a_child_forgets(void) {
    hfi_line_stack *stack = begin();
    hfi_line_code *code = add_code("parent", 0);
    uintptr_t at = START;
    (void)hfi_line_push(stack, &at, code);
    pid_t child = fork();
    if (child == 0) {
        hfi_lines_forget(stack);
        _exit(hfi_lines_are_sampled() || atomic_load(&stack->depth) != 0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    uint64_t before = header().rounds;
    wait_for_looks(LOOKS);
    CHECK(header().rounds > before && code->record->calls == 1);
    end(stack);
    CHECK(header().used_bytes == (uint64_t)lseek(open(path, O_RDONLY), 0, SEEK_END));
}

static void
test_a_file_that_cant_be_made(void) {
    hf_error error = HF_ERROR_INIT;
    CHECK(hfi_lines_begin("/nowhere/lines", &error) == HF_E_SYSTEM);
    CHECK(strstr(error.message, "/nowhere/lines") && !hfi_lines_are_sampled());
}

int
main(void) {
    char directory[] = "/tmp/hf-lines-XXXXXX";
    CHECK(mkdtemp(directory) && chdir(directory) == 0);
    test_time_is_at_the_line_of_the_innermost_function();
    test_a_recursion_counts_once();
    test_what_has_no_line_is_unplaced();
    test_deep_stacks();
    test_a_released_stack_is_the_next_threads();
    test_a_child_forgets();
    test_a_file_that_cant_be_made();
    CHECK(unlink(path) == 0 && rmdir(directory) == 0);
    return 0;
}
