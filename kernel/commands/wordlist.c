/* wordlist.c - lists of words: command-line arguments and environment settings.
 *
 * Failures of memory are remembered as in textbuf.c. Arguments are split by the quoting
 * rules of a POSIX shell, because people write them so on a command line. Nothing is
 * expanded: the recorder gets what the cell says. Environment values are taken
 * literally, with quotes, as %env does: a value must not mean one thing here and
 * another there.
 */
#include "commands/wordlist.h"

#include <stdlib.h>
#include <string.h>

#include "commands/quoting.h"

void
hfi_wordlist_free(char **words) {
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}

void
hfi_wordlist_fini(hfi_wordlist *list) {
    hfi_wordlist_free(list->words);
    *list = (hfi_wordlist)HFI_WORDLIST_INIT;
}

static bool
reserve_word(hfi_wordlist *list) {
    size_t capacity = list->capacity ? 2 * list->capacity : 8;
    char **words;

    if (list->failed)
        return false;
    if (list->count + 1 < list->capacity)
        return true;
    words = realloc(list->words, capacity * sizeof *words);
    if (!words) {
        list->failed = true;
        return false;
    }
    words[list->count] = NULL;
    list->words = words;
    list->capacity = capacity;
    return true;
}

void
hfi_wordlist_add(hfi_wordlist *list, hfi_part word) {
    char *copy;

    if (!reserve_word(list))
        return;
    copy = malloc(word.size + 1);
    if (!copy) {
        list->failed = true;
        return;
    }
    if (word.size)
        memcpy(copy, word.data, word.size);
    copy[word.size] = '\0';
    list->words[list->count++] = copy;
    list->words[list->count] = NULL;
}

char **
hfi_wordlist_take(hfi_wordlist *list) {
    char **words;

    if (!reserve_word(list))
        return NULL;
    words = list->words;
    *list = (hfi_wordlist)HFI_WORDLIST_INIT;
    return words;
}

void
hfi_wordlist_copy(hfi_wordlist *list, const hfi_wordlist *from) {
    for (size_t i = 0; i < from->count; i++)
        hfi_wordlist_add(list, hfi_part_text(from->words[i]));
}

static bool
is_gap(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

static void
advance_part(hfi_part *source, size_t count) {
    source->data += count;
    source->size -= count;
}

/* Skip what separates words. */
static void
skip_gap(hfi_part *source) {
    while (source->size) {
        if (source->data[0] == '#') {
            const char *end = memchr(source->data, '\n', source->size);
            advance_part(source, end ? (size_t)(end - source->data) : source->size);
        } else if (is_gap(source->data[0])) {
            advance_part(source, 1);
        } else {
            return;
        }
    }
}

/* Read one word into `word`. Returns false if a quote isn't closed. */
static bool
read_word(hfi_part *source, hfi_textbuf *word) {
    char quote = 0;

    while (source->size && (quote || !is_gap(source->data[0]))) {
        char c = source->data[0];

        advance_part(source, 1);
        if (quote && c == quote) {
            quote = 0;
        } else if (!quote && (c == '\'' || c == '"')) {
            quote = c;
        } else {
            if (c == '\\' && quote != '\'' && source->size) {
                c = source->data[0];
                advance_part(source, 1);
            }
            hfi_textbuf_add_part(word, (hfi_part){&c, 1});
        }
    }
    return !quote;
}

bool
hfi_wordlist_split(hfi_wordlist *list, hfi_part source) {
    bool closed = true;

    skip_gap(&source);
    while (source.size && closed) {
        hfi_textbuf word = {0};

        closed = read_word(&source, &word);
        list->failed = list->failed || word.failed;
        hfi_wordlist_add(list, (hfi_part){word.data, word.size});
        hfi_textbuf_fini(&word);
        skip_gap(&source);
    }
    return closed;
}

bool
hfi_wordlist_is_name(hfi_part part) {
    for (size_t i = 0; i < part.size; i++) {
        char c = part.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return part.size > 0;
}

static void
report_bad_line(hfi_textbuf *err, const char *subject, hfi_part line) {
    hfi_textbuf_format(err, "%s: not NAME=value, ignored: ", subject);
    hfi_textbuf_add_excerpt(err, line);
    hfi_textbuf_add(err, "\n");
}

void
hfi_wordlist_read_environment(hfi_wordlist *list, hfi_part source, const char *subject,
                              hfi_textbuf *err) {
    hfi_part line;
    size_t bad = 0;

    while (hfi_part_next_line(&source, &line)) {
        hfi_part name = line = hfi_part_trim(line);
        hfi_part value = {0, 0};
        const char *mark;

        if (!line.size || line.data[0] == '#')
            continue;
        mark = memchr(line.data, '=', line.size);
        name.size = mark ? (size_t)(mark - line.data) : 0;
        name = hfi_part_trim(name);
        if (!hfi_wordlist_is_name(name)) {
            if (++bad <= HFI_WORDLIST_COMPLAINTS)
                report_bad_line(err, subject, line);
            continue;
        }
        value.data = mark + 1;
        value.size = (size_t)(line.data + line.size - value.data);
        hfi_wordlist_add(list, name);
        hfi_wordlist_add(list, hfi_part_trim(value));
    }
    if (bad > HFI_WORDLIST_COMPLAINTS)
        hfi_textbuf_format(err, "%s: %zu more lines are not NAME=value.\n", subject,
                           bad - HFI_WORDLIST_COMPLAINTS);
}
