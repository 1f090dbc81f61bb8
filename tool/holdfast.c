/* holdfast.c - the command-line tool: lists sessions, and shows what is in them.
 *
 *   holdfast ls [--json]                       sessions of this user
 *   holdfast info [SESSION]                    sizes and processes of one
 *   holdfast show [--all] [SESSION]            its names
 *   holdfast show [--all] [SESSION] NAME       one value: codec, sizes, what it is
 *   holdfast save [SESSION] FILE               write its variables to a file
 *   holdfast gc [--kept]                       remove what dead processes left
 *   holdfast demo [--run]                      python -m holdfast.demo [--run]
 *   holdfast doctor [--json] [--short] [--import]  python -m holdfast.doctor, the same
 *
 * SESSION may be left out if there is only one session, or only one that has NAME. The
 * tool uses the store's public headers, and the codecs' describers. It exits with 0;
 * with 1 if something was not found or failed; with 2 if the command line is wrong.
 * Text from a session is made printable first: names and meta are any bytes that a
 * notebook chose. Keys that begin with byte 0 or 1 are Holdfast's own (groups, process
 * state), and those such as _json:indent are a notebook's settings. Both are left out
 * unless --all is given.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "codecs/describe.h"
#include "holdfast/save.h"
#include "holdfast/store.h"

static const char usage[] =
    "usage: holdfast ls [--json]\n"
    "       holdfast info [SESSION]\n"
    "       holdfast show [--all] [SESSION] [NAME]\n"
    "       holdfast save [SESSION] FILE\n"
    "       holdfast gc [--kept]\n"
    "       holdfast demo [--run]\n"
    "       holdfast doctor [--json] [--short] [--import]\n"
    "       holdfast --help | --version\n"
    "\n"
    "ls    list this user's sessions\n"
    "info  sizes and processes of a session\n"
    "show  the names in a session, or one value: codec, sizes, what it is\n"
    "save  write all names to a file, for `%holdfast load FILE` in a notebook\n"
    "gc    remove sessions whose processes are all dead, and broken ones; with --kept\n"
    "      those, too, that wait for a new process of a kernel that was killed\n"
    "demo  write a notebook that shows Holdfast in a minute; with --run run it, too\n"
    "doctor  say what works here, and what to do about the rest; with --import try\n"
    "      the installed libraries, too\n"
    "\n"
    "SESSION may be left out if only one exists, or only one has NAME.\n";

static int
report_failure(const hf_error *error, const char *what) {
    fprintf(stderr, "holdfast: %s: %s\n", what,
            error->message[0] ? error->message : hf_status_name(error->status));
    return 1;
}

/* ---- printing ---- */

static const char *
format_size(uint64_t bytes, char text[16]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, 16, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

/* Print bytes as text. Control characters are escaped, UTF-8 isn't. */
static void
print_text(const void *data, size_t size) {
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++)
        if (p[i] < 0x20 || p[i] == 0x7f)
            printf("\\x%02x", p[i]);
        else
            putchar(p[i]);
}

static void
print_bytes(const char *label, uint64_t bytes) {
    char text[16];
    printf("%-12s %s (%llu bytes)\n", label, format_size(bytes, text),
           (unsigned long long)bytes);
}

static const char *
alive_text(int alive) {
    return alive > 0 ? "alive" : alive == 0 ? "dead" : "elsewhere";
}

/* ---- sessions ---- */

typedef struct listing {
    int json;
    int count;
} listing;

static const char *
state_text(hf_status state) {
    return state == HF_OK          ? "good"
           : state == HF_E_VERSION ? "of another version"
           : state == HF_E_GONE    ? "destroyed: run gc"
                                   : "corrupt: run gc";
}

static int
print_session(void *context, const hf_session_info *info) {
    listing *l = context;
    char size[16];
    if (l->json) {
        printf("%s\n  {\"name\": ", l->count ? "," : "");
        hfi_json_write(stdout, info->name);
        printf(", \"label\": ");
        hfi_json_write(stdout, info->label);
        printf(", \"owner_pid\": %lld, \"owner_alive\": %s, \"processes\": %u, "
               "\"generation\": %llu, \"entries\": %llu, \"allocated_bytes\": %llu, "
               "\"committed_bytes\": %llu, \"state\": \"%s\", \"waits\": %s}",
               (long long)info->owner_pid,
               info->owner_alive < 0 ? "null"
               : info->owner_alive   ? "true"
                                     : "false",
               info->process_count, (unsigned long long)info->generation,
               (unsigned long long)info->entry_count,
               (unsigned long long)info->allocated_bytes,
               (unsigned long long)info->committed_bytes, hf_status_name(info->state),
               info->is_orphan ? "true" : "false");
    } else {
        if (!l->count)
            printf("%-32s %-18s %10s %7s %10s  %s\n", "SESSION", "OWNER", "GENERATION",
                   "NAMES", "MEMORY", "LABEL");
        char owner[32];
        if (info->state)
            snprintf(owner, sizeof owner, "-");
        else
            snprintf(owner, sizeof owner, "%lld %s", (long long)info->owner_pid,
                     info->is_orphan ? "dead, waits" : alive_text(info->owner_alive));
        printf("%-32s %-18s %10llu %7llu %10s  ", info->name + (info->name[0] == '/'),
               owner, (unsigned long long)info->generation,
               (unsigned long long)info->entry_count,
               format_size(info->allocated_bytes, size));
        if (info->state)
            printf("(%s)", state_text(info->state));
        print_text(info->label, strlen(info->label));
        putchar('\n');
    }
    l->count++;
    return 0;
}

static int
command_ls(int json) {
    hf_error error = HF_ERROR_INIT;
    listing l = {json, 0};
    if (json)
        putchar('[');
    hf_status status = hf_session_list(print_session, &l, &error);
    if (json)
        puts(l.count ? "\n]" : "]");
    if (status)
        return report_failure(&error, "ls");
    if (!json && !l.count)
        puts("no sessions");
    return 0;
}

/* The sessions that the user may mean: all, or those that have a name. */
typedef struct choice {
    const char *key; /* NULL: any session */
    int all;         /* sessions that exist */
    int count;
    char first[HF_SESSION_NAME_SIZE];
    char list[2048]; /* for people */
} choice;

static int
has_name(const char *name, const char *key) {
    hf_session *session = NULL;
    hf_snapshot *snapshot = NULL;
    hf_entry entry = {.struct_size = sizeof entry};
    int found = 0;
    if (hf_session_open(name, &session, NULL) != HF_OK)
        return 0;
    if (hf_snapshot_acquire(session, &snapshot, NULL) == HF_OK) {
        found = hf_snapshot_find(snapshot, key, strlen(key), &entry, NULL) == HF_OK;
        hf_snapshot_release(snapshot);
    }
    hf_session_close(session);
    return found;
}

static int
consider_session(void *context, const hf_session_info *info) {
    choice *c = context;
    size_t used = strlen(c->list);
    if (info->state != HF_OK)
        return 0;
    c->all++;
    if (c->key && !has_name(info->name, c->key))
        return 0;
    if (c->count++ == 0)
        memcpy(c->first, info->name, sizeof c->first);
    char *line = c->list + used;
    snprintf(line, sizeof c->list - used, "  %s  %s",
             info->name + (info->name[0] == '/'), info->label);
    for (; *line; line++) /* a label may have any bytes */
        if ((unsigned char)*line < 0x20 || *line == 0x7f)
            *line = '?';
    if (line + 1 < c->list + sizeof c->list)
        memcpy(line, "\n", 2);
    return 0;
}

/* Find the only session, or the only one with the name `key`. 0: there isn't exactly
 * one, and the user got a message. */
static int
choose_session(const char *key, char ret_name[HF_SESSION_NAME_SIZE]) {
    hf_error error = HF_ERROR_INIT;
    choice c = {.key = NULL};
    hf_status status = hf_session_list(consider_session, &c, &error);
    if (!status && key && c.count > 1) {
        c = (choice){.key = key};
        status = hf_session_list(consider_session, &c, &error);
    }
    if (status) {
        report_failure(&error, "listing sessions");
    } else if (c.all == 0) {
        fputs("holdfast: no session exists\n", stderr);
    } else if (c.count == 0) {
        fprintf(stderr, "holdfast: none of the %d sessions has the name %s\n", c.all,
                key);
    } else if (c.count > 1) {
        fprintf(stderr, "holdfast: %d sessions %s%s; name one:\n", c.count,
                c.key ? "have the name " : "exist", c.key ? c.key : "");
        fputs(c.list, stderr);
    } else {
        memcpy(ret_name, c.first, HF_SESSION_NAME_SIZE);
        return 1;
    }
    return 0;
}

/* Open the named session. If `name` is NULL: the only one, or the only one that has the
 * name `key`. */
static hf_session *
open_session(const char *name, const char *key) {
    hf_error error = HF_ERROR_INIT;
    char chosen[HF_SESSION_NAME_SIZE];
    hf_session *session = NULL;
    if (!name) {
        if (!choose_session(key, chosen))
            return NULL;
        name = chosen;
    }
    if (hf_session_open(name, &session, &error)) {
        report_failure(&error, "open");
        return NULL;
    }
    return session;
}

/* Entries of a process's state, which only a notebook's session has. */
static int
note_state(void *context, const hf_entry *entry) {
    int *is_notebook = context;
    *is_notebook |= entry->key[0] == '\1';
    return *is_notebook ? HF_STOP : 0;
}

/* What a notebook has that its generation hasn't. */
static void
print_since(hf_session *session) {
    hf_snapshot *snapshot;
    int is_notebook = 0;
    unsigned long long cells = hf_session_noted(session, HF_NOTE_UNCOMMITTED);
    unsigned long long running = hf_session_noted(session, HF_NOTE_RUNNING);
    if (hf_snapshot_acquire(session, &snapshot, NULL))
        return;
    if (!hf_snapshot_each(snapshot, note_state, &is_notebook, NULL) && is_notebook) {
        printf("since then   ");
        if (cells)
            printf("%llu cell%s", cells, cells == 1 ? " has run" : "s have run");
        if (running)
            printf("%scell [%llu] is running", cells ? ", " : "", running);
        printf("%s\n", cells || running ? "" : "no cell has run");
    }
    hf_snapshot_release(snapshot);
}

static int
command_info(const char *name) {
    hf_error error = HF_ERROR_INIT;
    hf_session *session = open_session(name, NULL);
    if (!session)
        return 1;
    hf_session_info info = {.struct_size = sizeof info};
    hf_status status = hf_session_describe(session, &info, &error);
    if (status) {
        hf_session_close(session);
        return report_failure(&error, "info");
    }
    time_t created = (time_t)(info.created_unix_ns / 1000000000);
    struct tm when;
    char date[32] = "";
    if (localtime_r(&created, &when))
        strftime(date, sizeof date, "%F %T", &when);
    printf("session      %s\nlabel        ", info.name + (info.name[0] == '/'));
    print_text(info.label, strlen(info.label));
    printf("\nowner        %lld (%s%s)\ncreated      %s\n", (long long)info.owner_pid,
           alive_text(info.owner_alive),
           info.owner_publishes ? ", only it publishes" : "", date);
    printf("processes    %u\n", info.process_count ? info.process_count - 1 : 0);
    printf("generation   %llu\n", (unsigned long long)info.generation);
    print_since(session);
    hf_session_close(session);
    printf("names        %llu\nextents      %u\n", (unsigned long long)info.entry_count,
           info.extent_count);
    print_bytes("capacity", info.capacity_bytes);
    print_bytes("allocated", info.allocated_bytes);
    print_bytes("committed", info.committed_bytes);
    print_bytes("reserved", info.reserved_bytes);
    print_bytes("retired", info.retired_bytes);
    print_bytes("free", info.free_bytes);
    return 0;
}

/* ---- names ---- */

static const char *
codec_text(uint32_t codec, char text[24]) {
    static const struct {
        uint32_t number;
        const char *name;
    } known[] = {{1, "raw"},     {2, "msgpack"}, {16, "buffer"}, {17, "plain"},
                 {18, "pickle"}, {19, "module"}, {20, "member"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == codec)
            return known[i].name;
    snprintf(text, 24, "codec %u", codec);
    return text;
}

/* The codec's description of the value, from its bytes alone. */
static void
print_value(const hf_entry *entry) {
    char text[200];
    hf_source source = {.struct_size = sizeof source,
                        .meta = entry->meta,
                        .meta_size = entry->meta_size,
                        .payload = entry->payload,
                        .payload_size = entry->payload_size,
                        .buffer_count = entry->buffer_count};
    hfi_codec_describe(entry->codec, &source, text, sizeof text);
    print_text(text, strlen(text));
}

/* Whether it isn't a name that the user chose. */
static int
is_internal(const hf_entry *entry) {
    return entry->key[0] == 0 || entry->key[0] == 1 ||
           (entry->key[0] == '_' && memchr(entry->key, ':', entry->key_size) != NULL);
}

static int
print_entry_line(void *context, const hf_entry *entry) {
    const int *all = context;
    char codec[24], size[16];
    if (!*all && is_internal(entry))
        return 0;
    printf("%-10s %10s %6llu  ", codec_text(entry->codec, codec),
           format_size(entry->payload_size + entry->buffer_bytes, size),
           (unsigned long long)entry->generation);
    print_text(entry->key, entry->key_size);
    printf("  ");
    print_value(entry);
    putchar('\n');
    return 0;
}

static void
print_entry(const hf_entry *entry) {
    char codec[24];
    printf("name         ");
    print_text(entry->key, entry->key_size);
    printf("\ncodec        %s (%u)\ngeneration   %llu\nsequence     %llu\n",
           codec_text(entry->codec, codec), entry->codec,
           (unsigned long long)entry->generation, (unsigned long long)entry->sequence);
    print_bytes("payload", entry->payload_size);
    printf("buffers      %u\n", entry->buffer_count);
    print_bytes("buffer size", entry->buffer_bytes);
    printf("value        ");
    print_value(entry);
    putchar('\n');
}

static int
show_entries(hf_snapshot *snapshot, const char *key, int all) {
    hf_error error = HF_ERROR_INIT;
    hf_entry entry = {.struct_size = sizeof entry};
    if (!key) {
        printf("%-10s %10s %6s  %s\n", "CODEC", "SIZE", "SINCE", "NAME");
        if (hf_snapshot_each(snapshot, print_entry_line, &all, &error))
            return report_failure(&error, "show");
        return 0;
    }
    hf_status status = hf_snapshot_find(snapshot, key, strlen(key), &entry, &error);
    if (status == HF_NOT_FOUND) {
        fprintf(stderr, "holdfast: the session has no name %s\n", key);
        return 1;
    }
    if (status)
        return report_failure(&error, key);
    print_entry(&entry);
    return 0;
}

static int
command_show(const char *name, const char *key, int all) {
    hf_error error = HF_ERROR_INIT;
    hf_session *session = open_session(name, key);
    hf_snapshot *snapshot;
    if (!session)
        return 1;
    int code = 1;
    if (hf_snapshot_acquire(session, &snapshot, &error))
        report_failure(&error, "show");
    else {
        code = show_entries(snapshot, key, all);
        hf_snapshot_release(snapshot);
    }
    hf_session_close(session);
    return code;
}

static int
command_save(const char *name, const char *path) {
    hf_error error = HF_ERROR_INIT;
    hf_session *session = open_session(name, NULL);
    hf_snapshot *snapshot;
    hf_save_info info = {.struct_size = sizeof info};
    char size[16];
    if (!session)
        return 1;
    hf_status status = hf_snapshot_acquire(session, &snapshot, &error);
    if (!status) {
        status = hf_save_write(snapshot, path, NULL, NULL, &info, &error);
        hf_snapshot_release(snapshot);
    }
    hf_session_close(session);
    if (status)
        return report_failure(&error, "save");
    printf("%s: %s\n", path, format_size(info.file_bytes, size));
    return 0;
}

static int
print_removed(void *context, const hf_session_info *info) {
    char size[16];
    (void)context;
    printf("removed %s (%s)\n", info->name + (info->name[0] == '/'),
           format_size(info->allocated_bytes, size));
    return 0;
}

typedef struct removal {
    uint32_t count;
} removal;

static int
remove_kept(void *context, const hf_session_info *info) {
    removal *at = context;
    if (info->is_orphan && hf_session_free_orphan(info->name, NULL) == HF_OK) {
        print_removed(NULL, info);
        at->count++;
    }
    return 0;
}

static int
command_gc(int kept) {
    hf_error error = HF_ERROR_INIT;
    removal more = {0};
    uint32_t count = 0;
    if (hf_session_collect(print_removed, NULL, &count, &error) ||
        (kept && hf_session_list(remove_kept, &more, &error)))
        return report_failure(&error, "gc");
    count += more.count;
    printf("%u session%s removed\n", count, count == 1 ? "" : "s");
    return 0;
}

/* Some commands belong to the Python package. The interpreter beside this program runs
 * their module, or else the first python3 in PATH. Returns only if there is none. */
static int
run_module(char *module, char **arguments) {
    char own[PATH_MAX], python[PATH_MAX + sizeof "/python3"];
    /* -P: a file of the current directory doesn't hide a module of Python. */
    char *command[16] = {NULL, "-P", "-m", module};
    size_t count = 4;
    ssize_t size = readlink("/proc/self/exe", own, sizeof own - 1);
    own[size > 0 ? size : 0] = 0;
    char *slash = strrchr(own, '/');
    while (*arguments && count + 1 < sizeof command / sizeof *command)
        command[count++] = *arguments++;
    if (slash) {
        *slash = 0;
        snprintf(python, sizeof python, "%s/python3", own);
        command[0] = python; /* the interpreter finds its environment by this path */
        execv(python, command);
    }
    command[0] = "python3";
    execvp(command[0], command);
    fprintf(stderr, "holdfast: python3: %s\n", strerror(errno));
    return 1;
}

static int
report_misuse(const char *what, const char *word) {
    fprintf(stderr, "holdfast: %s%s; holdfast --help shows how it is used\n", what,
            word ? word : "");
    return 2;
}

/* Report a command that doesn't exist, or has a wrong number of words. */
static int
misuse_of(const char *command) {
    static const char *const known[] = {"ls", "gc", "save", "info", "show"};
    if (!command)
        return fputs(usage, stderr) == EOF ? 1 : 2;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(command, known[i]) == 0)
            return report_misuse("too few or too many words after ", command);
    return report_misuse("unknown command: ", command);
}

static int
is_session_name(const char *text) {
    return strncmp(text + (text[0] == '/'), "holdfast-", 9) == 0;
}

static int
run_command(int argc, char **argv) {
    const char *words[3] = {NULL, NULL, NULL};
    int count = 0, json = 0, all = 0, kept = 0;
    if (argc > 1 && strcmp(argv[1], "demo") == 0)
        return run_module("holdfast.demo", argv + 2);
    if (argc > 1 && strcmp(argv[1], "doctor") == 0)
        return run_module("holdfast.doctor", argv + 2);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return fputs(usage, stdout) == EOF;
        if (strcmp(argv[i], "--version") == 0)
            return puts("holdfast " HF_VERSION) == EOF;
        if (strcmp(argv[i], "--json") == 0)
            json = 1;
        else if (strcmp(argv[i], "--all") == 0)
            all = 1;
        else if (strcmp(argv[i], "--kept") == 0)
            kept = 1;
        else if (argv[i][0] == '-')
            return report_misuse("unknown option: ", argv[i]);
        else if (count == 3)
            return report_misuse("too many words: ", argv[i]);
        else
            words[count++] = argv[i];
    }
    if (count == 1 && strcmp(words[0], "ls") == 0)
        return command_ls(json);
    if (count == 1 && strcmp(words[0], "gc") == 0)
        return command_gc(kept);
    if ((count == 2 || count == 3) && strcmp(words[0], "save") == 0)
        return command_save(count == 3 ? words[1] : NULL, words[count - 1]);
    if (count && count < 3 && strcmp(words[0], "info") == 0)
        return command_info(words[1]);
    if (count && strcmp(words[0], "show") == 0) {
        if (count == 2 && !is_session_name(words[1]))
            return command_show(NULL, words[1], all);
        return command_show(words[1], words[2], all);
    }
    return misuse_of(words[0]);
}

int
main(int argc, char **argv) {
    int code = run_command(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "holdfast: can't write the output: %s\n", strerror(errno));
    return 1;
}
