/* otf2_files.c - how we use the OTF2 library: its memory, its flushes, its errors.
 *
 * The library reports errors to one callback for the process, which prints by default.
 * Ours keeps the last text for hf_error. The interpreter's lock, or the lock under
 * which recordings are closed, covers everything.
 */
#include "otf2_files.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <netinet/in.h>
#include <resolv.h>
#endif

#include "holdfast/version.h"

static char last_error[256];

/* The library takes gethostid() for a part of the trace's identifier, and that looks for
 * the address of this machine. If /etc/hosts hasn't it, and no name server answers (in a
 * container, or without a network), that takes five seconds and more. So this thread
 * asks no name server while the library makes that file. The number of them is returned,
 * to be put back. */
static int
leave_name_servers(void) {
#ifdef __GLIBC__
    if ((_res.options & RES_INIT) || res_init() == 0) {
        int count = _res.nscount;
        _res.nscount = 0;
        return count;
    }
#endif
    return -1;
}

static void
return_name_servers(int count) {
#ifdef __GLIBC__
    if (count >= 0)
        _res.nscount = count;
#endif
    (void)count;
}

static OTF2_ErrorCode
keep_error(void *user_data, const char *file, uint64_t line, const char *function,
           OTF2_ErrorCode code, const char *format, va_list arguments) {
    (void)user_data, (void)file, (void)line;
    char detail[160] = "";
    if (format)
        vsnprintf(detail, sizeof detail, format, arguments);
    snprintf(last_error, sizeof last_error, "%s in %s%s%s",
             OTF2_Error_GetDescription(code), function, *detail ? ": " : "", detail);
    return code;
}

hf_status
hfi_otf2_fail(hf_error *reterr, const char *doing) {
    return hf_error_set(reterr, HF_E_SYSTEM, "%s: %s", doing,
                        *last_error ? last_error : "the OTF2 library refused");
}

static OTF2_FlushType
before_flush(void *user_data, OTF2_FileType type, OTF2_LocationRef location,
             void *caller_data, bool final) {
    (void)user_data, (void)type, (void)location, (void)caller_data, (void) final;
    return OTF2_FLUSH;
}

/* Without the second callback the library notes no pauses: location.c does. */
static const OTF2_FlushCallbacks flush_callbacks = {before_flush, NULL};

/* By default a buffer of the library grows to 128 MiB before it is flushed. Ours gives
 * an event buffer one chunk, which is kept from flush to flush, so that its pages are
 * touched once. The other files are small, and written at close. They get what they ask
 * for, in the smallest chunks, because the library clears each chunk: with the default
 * of 4 MiB closing an empty trace took 2.7 ms, and now it takes 0.2. */
typedef struct chunk {
    struct chunk *next;
    bool in_use;
    _Alignas(16) unsigned char bytes[];
} chunk;

static void *
allocate_chunk(void *user_data, OTF2_FileType type, OTF2_LocationRef location,
               void **buffer_data, uint64_t size) {
    (void)user_data, (void)location;
    chunk *first = *buffer_data;
    if (first && type == OTF2_FILETYPE_EVENTS) {
        if (first->in_use)
            return NULL; /* full: the library flushes now */
        first->in_use = true;
        return first->bytes;
    }
    chunk *made = malloc(sizeof *made + size);
    if (!made)
        return NULL;
    made->next = first;
    made->in_use = true;
    *buffer_data = made;
    return made->bytes;
}

static void
free_chunks(void *user_data, OTF2_FileType type, OTF2_LocationRef location,
            void **buffer_data, bool final) {
    (void)user_data, (void)location;
    if (!final && type == OTF2_FILETYPE_EVENTS && *buffer_data) {
        ((chunk *)*buffer_data)->in_use = false;
        return;
    }
    for (chunk *at = *buffer_data, *next; at; at = next) {
        next = at->next;
        free(at);
    }
    *buffer_data = NULL;
}

static const OTF2_MemoryCallbacks memory_callbacks = {allocate_chunk, free_chunks};

hf_status
hfi_otf2_create(const char *directory, OTF2_Archive **ret_archive, hf_error *reterr) {
    last_error[0] = '\0';
    OTF2_Error_RegisterCallback(keep_error, NULL);
    OTF2_Archive *archive = OTF2_Archive_Open(
        directory, "traces", OTF2_FILEMODE_WRITE, OTF2_CHUNK_SIZE_MIN,
        OTF2_CHUNK_SIZE_MIN, OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (!archive)
        return hfi_otf2_fail(reterr, "opening the archive");
    OTF2_ErrorCode bad =
        OTF2_Archive_SetFlushCallbacks(archive, &flush_callbacks, NULL);
    if (!bad)
        bad = OTF2_Archive_SetMemoryCallbacks(archive, &memory_callbacks, NULL);
    if (!bad)
        bad = OTF2_Archive_SetSerialCollectiveCallbacks(archive);
    if (!bad)
        bad = OTF2_Archive_SetCreator(archive, "holdfast " HF_VERSION);
    if (bad) {
        hf_status status = hfi_otf2_fail(reterr, "opening the archive");
        OTF2_Archive_Close(archive);
        return status;
    }
    *ret_archive = archive;
    return HF_OK;
}

bool
hfi_otf2_has_failed(void) {
    return *last_error != '\0';
}

/* After a write that failed the library would write again, from a buffer that is gone
 * (OTF2 3.0): then the archive stays open, with its memory. */
hf_status
hfi_otf2_close(OTF2_Archive *archive, hf_error *reterr) {
    if (hfi_otf2_has_failed())
        return hfi_otf2_fail(reterr, "writing the archive");
    int name_servers = leave_name_servers();
    OTF2_ErrorCode bad = OTF2_Archive_Close(archive);
    return_name_servers(name_servers);
    if (bad)
        return hfi_otf2_fail(reterr, "closing the archive");
    /* The library reports some failed writes only to its callback. */
    return hfi_otf2_has_failed() ? hfi_otf2_fail(reterr, "writing the archive") : HF_OK;
}
