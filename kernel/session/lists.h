/* lists.h - lists of frames from what the frontend keeps, and the other way.
 *
 * A list borrows its texts. The caller owns the list's memory, and frees it with
 * hfi_list_free. If there is no memory for it, sending its frame fails.
 *
 * Threads: any.
 */
#ifndef HFI_LISTS_H
#define HFI_LISTS_H

#include <jansson.h>

#include "workers/frame.h"

/* From an array of texts; NULL gives an empty list. */
hfi_parts hfi_list_of_json(const json_t *array);
/* From texts up to NULL; NULL gives an empty list. */
hfi_parts hfi_list_of_strings(char *const *texts);
/* From an object whose values are texts; NULL gives an empty list. */
hfi_texts hfi_list_of_object(json_t *object);
/* From names and values in turn, up to NULL. */
hfi_texts hfi_list_of_pairs(char *const *texts);
void hfi_list_free(const void *items);

/* To an array of texts. NULL: the list is missing, or there is no memory. */
json_t *hfi_list_to_json(hfi_parts list);

#endif
