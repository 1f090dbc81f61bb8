/* history.c - the words of `%holdfast`, as far as the frontend has to act on them.
 *
 * To Python %holdfast is a line magic of the workers. But generations belong to the frontend:
 * only the frontend publishes, and it keeps the old ones. So if a cell is nothing but
 * this one line, the frontend does its part first (a commit, the return to a
 * generation). Then the cell runs in the main worker, whose magic reports the result. A
 * line that isn't understood here is left to the magic, which explains the correct
 * form.
 *
 * Sizes are bytes, or whole numbers with K, M, G or T, which are powers of 1024.
 */
#include "commands/history.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Decimal digits and nothing else, up to 15 of them. */
static bool
read_number(hfi_part word, long long *ret_number) {
    long long number = 0;
    if (word.size == 0 || word.size > 15)
        return false;
    for (size_t i = 0; i < word.size; i++) {
        if (word.data[i] < '0' || word.data[i] > '9')
            return false;
        number = number * 10 + (word.data[i] - '0');
    }
    *ret_number = number;
    return true;
}

static bool
read_size(hfi_part word, unsigned long long *ret_bytes) {
    static const char units[] = "KkMmGgTt";
    const char *unit =
        word.size > 1 ? memchr(units, word.data[word.size - 1], 8) : NULL;
    unsigned shift = unit ? 10u * (unsigned)((unit - units) / 2 + 1) : 0;
    long long number;
    word.size -= unit != NULL;
    if (!read_number(word, &number) || number > (long long)(UINT64_MAX >> 1 >> shift))
        return false;
    *ret_bytes = (unsigned long long)number << shift;
    return true;
}

hfi_history_kind
hfi_history_kind_of(hfi_part word) {
    for (size_t i = HFI_HISTORY_UNDO; i <= HFI_HISTORY_PROTECT; i++)
        if (i != HFI_HISTORY_LIMIT &&
            hfi_part_is(word, hfi_history_name((hfi_history_kind)i)))
            return (hfi_history_kind)i;
    return hfi_part_is(word, "history") ? HFI_HISTORY_LIMIT : HFI_HISTORY_SHOW;
}

hfi_history
hfi_history_parse(hfi_part words) {
    static const hfi_history none = {.from = -1, .to = -1};
    hfi_history history = none;
    hfi_part rest = hfi_part_trim(words), first = hfi_part_next_token(&rest);
    history.kind = hfi_history_kind_of(first);
    hfi_part one = hfi_part_next_token(&rest), two = hfi_part_next_token(&rest);
    bool good = true;
    switch (history.kind) {
    case HFI_HISTORY_UNDO:
        good = one.size == 0 || (hfi_part_is(one, "--to") && rest.size == 0 &&
                                 read_number(two, &history.to));
        break;
    case HFI_HISTORY_CHECKOUT:
        good = read_number(one, &history.from) && two.size == 0;
        break;
    case HFI_HISTORY_DIFF:
        good = (one.size == 0 || read_number(one, &history.from)) &&
               (two.size == 0 || read_number(two, &history.to)) && rest.size == 0;
        break;
    case HFI_HISTORY_SAVE:
    case HFI_HISTORY_LOAD:
        good = one.size > 0;
        break;
    case HFI_HISTORY_PUBLISH:
    case HFI_HISTORY_RERUN:
        good = one.size == 0;
        break;
    case HFI_HISTORY_PROTECT:
        history.protection = hfi_protection_of(one);
        good = two.size == 0 &&
               (one.size == 0 || history.protection != HFI_PROTECT_UNKNOWN);
        break;
    case HFI_HISTORY_LIMIT:
        if (one.size == 0)
            history.kind = HFI_HISTORY_SHOW;
        else
            good = read_size(one, &history.limit_bytes) && two.size == 0;
        break;
    default:
        break;
    }
    return good ? history : none;
}
