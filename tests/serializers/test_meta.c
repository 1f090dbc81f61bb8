/* test_meta.c - a meta for which memory ends is no meta (serializers/python/meta.c). */
#include "../support/check.h"
#include "python/meta.h"

static int allocations, fails_at; /* the first, second, ... and all after it */

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

void *
__wrap_realloc(void *block, size_t size) {
    return fails_at && ++allocations >= fails_at ? NULL : __real_realloc(block, size);
}

static int given;

static hf_status
take_meta(hf_sink *sink, const void *data, size_t size, hf_error *reterr) {
    hfi_meta meta;
    (void)sink;
    given++;
    CHECK(hfi_meta_init(&meta, data, size, reterr) == HF_OK);
    CHECK(hfi_meta_find(&meta, "type") && hfi_meta_find(&meta, "bytes"));
    hfi_meta_fini(&meta);
    return HF_OK;
}

static hf_status
write_meta(hf_error *reterr) {
    hf_sink sink = {.struct_size = sizeof sink, .set_meta = take_meta};
    static char text[20000];
    hfi_meta_writer writer;
    memset(text, 't', sizeof text);
    hfi_meta_writer_init(&writer, 3);
    hfi_meta_put_text(&writer, "type", "list", 4);
    hfi_meta_put_text(&writer, "long", text, sizeof text);
    hfi_meta_put_number(&writer, "bytes", 7);
    return hfi_meta_writer_finish(&writer, &sink, reterr);
}

int
main(void) {
    CHECK(write_meta(NULL) == HF_OK && given == 1);
    for (fails_at = 1; fails_at <= 2; fails_at++) {
        hf_error error = HF_ERROR_INIT;
        allocations = 0;
        CHECK(write_meta(&error) == HF_E_NOMEM && error.message[0]);
        CHECK(given == 1);
    }
    return 0;
}
