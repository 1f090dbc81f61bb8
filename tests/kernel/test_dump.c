/* test_dump.c - tracebacks of dying processes: what of them is shown, however they
 * come.
 */
#include "../support/check.h"
#include "commands/dump.h"

#include <stdio.h>

#define CELL  "  File \"/tmp/ipykernel_1/2.py\", line 3 in f\n"
#define OURS  "  File \"/x/holdfast/worker/ipython/shell.py\", line 9 in run_code\n"
#define THEIR "  File \"/x/IPython/core/interactiveshell.py\", line 8 in run_code\n"
#define BELOW "  File \"/x/IPython/core/interactiveshell.py\", line 7 in run_cell\n"
#define TIMED "  File \"/x/IPython/core/magics/execution.py\", line 1 in time\n"
#define WAITS "  File \"/x/threading.py\", line 5 in wait\n"
#define SAVES                                                                          \
    "  File \"/x/holdfast/worker/ipython/history.py\", line 6 in writeout_cache\n"
#define HEAD  "Current thread 0x00 (most recent call first):\n"
#define OTHER "Thread 0x01 (most recent call first):\n"

static hfi_filter *dump;
static hfi_textbuf shown;

static void
expect(const char *wanted) {
    CHECK_TEXT(hfi_textbuf_string(&shown), wanted);
    hfi_textbuf_clear(&shown);
}

/* In pieces of this size, and then nothing more. */
static void
feed(const char *text, size_t piece) {
    for (size_t at = 0, size = strlen(text); at < size; at += piece)
        dump->add(dump, hfi_part_of(text + at, size - at < piece ? size - at : piece),
                  &shown);
    dump->end(dump, &shown);
}

static void
check(const char *text, const char *wanted) {
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        feed(text, piece);
        expect(wanted);
        feed("\n",
             1); /* so that each begins a line; it may be that of a dropped thread */
        hfi_textbuf_clear(&shown);
    }
}

/* The hashes are ipykernel's, murmur2_x86(text, 0xC70F6907). */
static void
check_names(void) {
    static const char *const texts[] = {"1", "12", "123", "def f():\n    \u00e9\n",
                                        "%%time\nf()"};
    static const unsigned hashes[] = {224161117u, 1447420617u, 4180379611u, 858758413u,
                                      2892321268u};
    static hfi_cellnames names;
    char file[256], wanted[256];
    for (int i = 0; i < 5; i++)
        hfi_cellnames_add(&names, hfi_part_text(texts[i]), 10 + i);
    dump = hfi_dump_create(&names);
    for (int i = 0; i < 5; i++) {
        snprintf(file, sizeof file,
                 HEAD "  File \"/tmp/ipykernel_12/%u.py\", line 3 in f\n" OURS,
                 hashes[i]);
        snprintf(wanted, sizeof wanted, HEAD "  Cell In[%d], line 3 in f\n", 10 + i);
        check(file, wanted);
    }
    hfi_cellnames_add(&names, hfi_part_text("12"), 99); /* once more */
    check(HEAD "  File \"/x y/ipykernel_1/1447420617.py\", line 1 in <module>\n",
          HEAD "  Cell In[99], line 1 in <module>\n");
    static const char *const others[] = {"/tmp/ipykernel_1/1447420618.py",
                                         "/tmp/ipykernel/1447420617.py",
                                         "/tmp/ipykernel_1/1447420617.pyc",
                                         "1447420617.py",
                                         ".py",
                                         "",
                                         "/tmp/ipykernel_1/99991447420617.py"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        snprintf(file, sizeof file, HEAD "  File \"%s\", line 3 in f\n", others[i]);
        check(file, file);
    }
    for (int i = 0; i < HFI_CELLNAMES_MAX; i++)
        hfi_cellnames_add(&names, hfi_part_text("x"), 100 + i);
    check(HEAD "  File \"/tmp/ipykernel_1/224161117.py\", line 3 in f\n",
          HEAD "  File \"/tmp/ipykernel_1/224161117.py\", line 3 in f\n");
    dump->close(dump);
}

int
main(void) {
    check_names();
    dump = hfi_dump_create(NULL);
    check("Fatal\n\n" HEAD CELL OURS BELOW "\nExtension modules: a (total: 1)\n",
          "Fatal\n\n" HEAD CELL "\nExtension modules: a (total: 1)\n");
    check(HEAD CELL THEIR OURS OURS BELOW, HEAD CELL);
    check(HEAD CELL OURS BELOW TIMED CELL THEIR OURS BELOW,
          HEAD CELL OURS BELOW TIMED CELL);                  /* a cell in a cell */
    check(OTHER WAITS SAVES "\n" HEAD CELL OURS, HEAD CELL); /* serves the notebook */
    check(OTHER WAITS "\n" HEAD WAITS SAVES, OTHER WAITS "\n" HEAD WAITS SAVES);
    check("a\nThreads\nThread 0 b\n  File c", "a\nThreads\nThread 0 b\n  File c");

    /* What can't be one is shown at once. */
    dump->add(dump, hfi_part_text("T"), &shown);
    expect("");
    dump->add(dump, hfi_part_text("o"), &shown);
    expect("To");
    dump->add(dump, hfi_part_text(" Thread 0x5\n"), &shown);
    expect(" Thread 0x5\n");
    dump->add(dump, hfi_part_text(HEAD CELL), &shown);
    expect("");
    dump->add(dump, hfi_part_text("\n"), &shown);
    expect(HEAD CELL "\n");
    dump->close(dump);
    hfi_textbuf_fini(&shown);
    return 0;
}
