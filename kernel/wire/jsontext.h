/* jsontext.h - whether bytes are one JSON object, before anybody parses them. */
#ifndef HFI_JSONTEXT_H
#define HFI_JSONTEXT_H

#include "wire/part.h"

#define HFI_JSON_DEPTH_MAX  500  /* Python's own decoder gives up below 1,000 */
#define HFI_JSON_DIGITS_MAX 4300 /* of an integer: Python's own limit */

/* NULL where all of `text` is exactly one object in UTF-8, with nothing before or after
 * it; else what is wrong, a static text: "is nested too deeply". */
const char *hfi_json_object_problem(hfi_part text);

#endif
