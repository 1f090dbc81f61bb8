/* lists.h - lists of frames, made of what the frontend keeps, and the other way.
 *
 * A list of frames borrows the texts of what it is made of; its memory is the caller's,
 * who gives it to hfi_list_free. Without memory for it, sending its frame fails.
 *
 * Threads: any.
 */
#ifndef HFI_LISTS_H
#define HFI_LISTS_H

#include <jansson.h>

#include "workers/frame.h"

/* Of an array of texts; NULL: of nothing. */
hfi_parts hfi_list_of_json(const json_t *array);
/* Of texts up to NULL; NULL: of nothing. */
hfi_parts hfi_list_of_strings(char *const *texts);
/* Of an object whose values are texts; NULL: of nothing. */
hfi_texts hfi_list_of_object(json_t *object);
/* Of names and values by turns, up to NULL. */
hfi_texts hfi_list_of_pairs(char *const *texts);
void hfi_list_free(const void *items);

/* An array of texts; NULL: the list is missing, or there is no memory. */
json_t *hfi_list_to_json(hfi_parts list);

#endif
