/* variables.c - variables that the library keeps: names and bytes.
 *
 * They are sorted by name. One that is gone stays here without data until the store
 * doesn't have it: each commit before removes it.
 */
#include "variables.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"

#define CODEC_RAW 1 /* as the serializers' HF_CODEC_RAW */

/* ---- the table ------------------------------------------------------------------- */

/* The place where the name is, or belongs. */
static size_t
find_place(const hfi_variables *variables, const char *name, size_t size,
           bool *ret_is_there) {
    size_t low = 0, high = variables->count;
    *ret_is_there = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const hfi_variable *at = &variables->items[middle];
        int order = memcmp(at->name, name, at->name_size < size ? at->name_size : size);
        if (order == 0 && at->name_size == size) {
            *ret_is_there = true;
            return middle;
        }
        if (order < 0 || (order == 0 && at->name_size < size))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static hf_status
add_name(hfi_variables *variables, size_t place, const char *name, size_t size,
         hf_error *reterr) {
    char *copy = malloc(size + 1);
    hfi_variable *grown =
        copy != NULL ? realloc(variables->items, (variables->count + 1) * sizeof *grown)
                     : NULL;
    if (grown == NULL) {
        free(copy);
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a variable");
    }
    memcpy(copy, name, size);
    copy[size] = '\0'; /* hf_worker_complete takes texts */
    memmove(&grown[place + 1], &grown[place],
            (variables->count - place) * sizeof *grown);
    grown[place] = (hfi_variable){.name = copy, .name_size = size};
    variables->items = grown;
    variables->count++;
    return HF_OK;
}

static hf_status
set_variable(hfi_variables *variables, const char *name, size_t name_size,
             const void *data, size_t size, hf_error *reterr) {
    bool is_there;
    hf_status status = HF_OK;
    size_t place = find_place(variables, name, name_size, &is_there);
    void *copy = data != NULL ? malloc(size > 0 ? size : 1) : NULL;
    if (data != NULL && copy == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for a variable");
    if (!is_there && data != NULL)
        status = add_name(variables, place, name, name_size, reterr);
    if (status != HF_OK || (!is_there && data == NULL)) {
        free(copy);
        return status;
    }
    if (size > 0 && data != NULL)
        memcpy(copy, data, size);
    free(variables->items[place].data);
    variables->items[place].data = copy;
    variables->items[place].size = size;
    return HF_OK;
}

void
hfi_variables_clear(hfi_variables *variables) {
    for (size_t i = 0; i < variables->count; i++) {
        free(variables->items[i].name);
        free(variables->items[i].data);
    }
    free(variables->items);
    *variables = (hfi_variables){0};
}

/* ---- the language's calls -------------------------------------------------------- */

hf_status
hf_worker_variable_set(hf_worker *worker, const char *name, size_t name_size,
                       const void *data, size_t size, hf_error *reterr) {
    HFI_NEED(reterr, worker, name);
    hf_status status = hfi_self_check_thread(worker, "hf_worker_variable_set", reterr);
    if (status == HF_OK && worker->language.save != hfi_variables_save)
        status = hf_error_set(reterr, HF_E_INVALID,
                              "the language has a `save` or a `bind` of its own");
    if (status == HF_OK && (name_size == 0 || name_size > HF_KEY_SIZE_MAX))
        status = hf_error_set(reterr, HF_E_LIMIT, "a name of %zu bytes: 1 to %d",
                              name_size, HF_KEY_SIZE_MAX);
    return status == HF_OK
               ? set_variable(&worker->variables, name, name_size, data, size, reterr)
               : status;
}

hf_status
hf_worker_variable_get(hf_worker *worker, const char *name, size_t name_size,
                       const void **ret_data, size_t *ret_size, hf_error *reterr) {
    HFI_NEED(reterr, worker, name, ret_data, ret_size);
    bool is_there;
    hf_status status = hfi_self_check_thread(worker, "hf_worker_variable_get", reterr);
    if (status != HF_OK)
        return status;
    size_t place = find_place(&worker->variables, name, name_size, &is_there);
    const hfi_variable *found = is_there ? &worker->variables.items[place] : NULL;
    if (found == NULL || found->data == NULL)
        return HF_NOT_FOUND;
    *ret_data = found->data;
    *ret_size = found->size;
    return HF_OK;
}

/* ---- in the language's place ----------------------------------------------------- */

static hf_status
put_variable(hf_worker *worker, const hfi_variable *variable, hf_error *reterr) {
    const hf_value value = {.struct_size = sizeof value,
                            .key = variable->name,
                            .key_size = variable->name_size,
                            .codec = CODEC_RAW,
                            .payload = variable->data,
                            .payload_size = variable->size};
    return hf_worker_put(worker, &value, reterr);
}

/* HF_NOT_FOUND: the held generation doesn't have it. */
static hf_status
remove_gone(hf_worker *worker, const hfi_variable *gone, hf_error *reterr) {
    hf_entry entry = {.struct_size = sizeof entry};
    hf_status status = worker->held == NULL
                           ? HF_NOT_FOUND
                           : hf_snapshot_find(worker->held, gone->name, gone->name_size,
                                              &entry, reterr);
    return status == HF_OK
               ? hf_worker_remove(worker, gone->name, gone->name_size, reterr)
               : status;
}

hf_status
hfi_variables_save(void *context, hf_worker *worker, hf_error *reterr) {
    hfi_variables *variables = &worker->variables;
    hf_status status = HF_OK;
    size_t kept = 0;
    (void)context;
    for (size_t i = 0; i < variables->count; i++) {
        hfi_variable *at = &variables->items[i];
        if (status == HF_OK)
            status = at->data != NULL ? put_variable(worker, at, reterr)
                                      : remove_gone(worker, at, reterr);
        if (at->data == NULL && status == HF_NOT_FOUND) {
            free(at->name);
            status = HF_OK;
        } else {
            variables->items[kept++] = *at;
        }
    }
    variables->count = kept;
    return status;
}

typedef struct binding_walk {
    hfi_variables *variables;
    hf_status status;
    hf_error *error;
} binding_walk;

static int
bind_entry(void *context, const hf_entry *entry) {
    binding_walk *walk = context;
    if (entry->codec == CODEC_RAW)
        walk->status = set_variable(walk->variables, entry->key, entry->key_size,
                                    entry->payload != NULL ? entry->payload : "",
                                    entry->payload_size, walk->error);
    return walk->status != HF_OK;
}

hf_status
hfi_variables_bind(void *context, hf_worker *worker, const hf_worker_binding *binding,
                   hf_error *reterr) {
    hfi_variables bound = {0};
    binding_walk walk = {&bound, HF_OK, reterr};
    (void)context;
    hf_status status = hf_snapshot_each(binding->now, bind_entry, &walk, reterr);
    if (walk.status != HF_OK)
        status = walk.status;
    hfi_variables_clear(status == HF_OK ? &worker->variables : &bound);
    if (status == HF_OK)
        worker->variables = bound;
    return status;
}

static bool
is_of_word(char byte) {
    return isalnum((unsigned char)byte) || byte == '_' || (unsigned char)byte >= 0x80;
}

hf_status
hfi_variables_answer(void *context, hf_worker *worker, const hf_worker_request *request,
                     hf_error *reterr) {
    const hfi_variables *variables = &worker->variables;
    size_t start = request->cursor, count = 0;
    (void)context;
    if (strcmp(request->type, "complete_request") != 0 || variables->count == 0)
        return HF_NOT_FOUND;
    const char **matches = calloc(variables->count, sizeof *matches);
    if (matches == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for an answer");
    while (start > 0 && is_of_word(request->code[start - 1]))
        start--;
    size_t size = request->cursor - start;
    for (size_t i = 0; i < variables->count; i++) {
        const hfi_variable *at = &variables->items[i];
        if (at->data != NULL && at->name_size >= size &&
            memcmp(at->name, request->code + start, size) == 0)
            matches[count++] = at->name;
    }
    hf_status status = hf_worker_complete(worker, request, matches, count, start,
                                          request->cursor, reterr);
    free(matches);
    return status;
}
