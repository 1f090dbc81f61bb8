/* wordlist.c - lists of words: command-line arguments and environment settings.
 *
 * Memory failures are remembered as in text.c. Arguments are cut with the quoting of a
 * POSIX shell because that is how the same person writes them on a command line;
 * nothing is expanded, so what a cell says is what the recorder gets. Environment
 * values are taken literally, quotes included, as %env does: a value that means one
 * thing here and another there would be worse than one quote too many.
 */
#include "commands/text.h"

#include <stdlib.h>
#include <string.h>

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
reserve(hfi_wordlist *list) {
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
hfi_wordlist_add(hfi_wordlist *list, hfi_span word) {
    char *copy;

    if (!reserve(list))
        return;
    copy = malloc(word.length + 1);
    if (!copy) {
        list->failed = true;
        return;
    }
    if (word.length)
        memcpy(copy, word.start, word.length);
    copy[word.length] = '\0';
    list->words[list->count++] = copy;
    list->words[list->count] = NULL;
}

char **
hfi_wordlist_take(hfi_wordlist *list) {
    char **words;

    if (!reserve(list))
        return NULL;
    words = list->words;
    *list = (hfi_wordlist)HFI_WORDLIST_INIT;
    return words;
}

void
hfi_wordlist_copy(hfi_wordlist *list, const hfi_wordlist *from) {
    for (size_t i = 0; i < from->count; i++)
        hfi_wordlist_add(list, hfi_span_of(from->words[i]));
}

static bool
is_gap(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

static void
advance(hfi_span *source, size_t count) {
    source->start += count;
    source->length -= count;
}

/* Skip what stands between words. */
static void
skip_gap(hfi_span *source) {
    while (source->length) {
        if (source->start[0] == '#') {
            const char *end = memchr(source->start, '\n', source->length);
            advance(source, end ? (size_t)(end - source->start) : source->length);
        } else if (is_gap(source->start[0])) {
            advance(source, 1);
        } else {
            return;
        }
    }
}

/* One word into `word`. False: a quote is not closed. */
static bool
read_word(hfi_span *source, hfi_text *word) {
    char quote = 0;

    while (source->length && (quote || !is_gap(source->start[0]))) {
        char c = source->start[0];

        advance(source, 1);
        if (quote && c == quote) {
            quote = 0;
        } else if (!quote && (c == '\'' || c == '"')) {
            quote = c;
        } else {
            if (c == '\\' && quote != '\'' && source->length) {
                c = source->start[0];
                advance(source, 1);
            }
            hfi_text_add_span(word, (hfi_span){&c, 1});
        }
    }
    return !quote;
}

bool
hfi_wordlist_split(hfi_wordlist *list, hfi_span source) {
    bool closed = true;

    skip_gap(&source);
    while (source.length && closed) {
        hfi_text word = HFI_TEXT_INIT;

        closed = read_word(&source, &word);
        list->failed = list->failed || hfi_text_failed(&word);
        hfi_wordlist_add(list, (hfi_span){word.data, word.length});
        hfi_text_fini(&word);
        skip_gap(&source);
    }
    return closed;
}

bool
hfi_wordlist_is_name(hfi_span span) {
    for (size_t i = 0; i < span.length; i++) {
        char c = span.start[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

        if (!letter && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return span.length > 0;
}

static void
complain(hfi_text *err, const char *subject, hfi_span line) {
    hfi_text_add_format(err, "%s: not NAME=value, ignored: ", subject);
    hfi_text_add_excerpt(err, line);
    hfi_text_add(err, "\n");
}

void
hfi_wordlist_read_environment(hfi_wordlist *list, hfi_span source, const char *subject,
                              hfi_text *err) {
    hfi_span line;
    size_t bad = 0;

    while (hfi_span_next_line(&source, &line)) {
        hfi_span name = line = hfi_span_trim(line);
        hfi_span value = {0, 0};
        const char *mark;

        if (!line.length || line.start[0] == '#')
            continue;
        mark = memchr(line.start, '=', line.length);
        name.length = mark ? (size_t)(mark - line.start) : 0;
        name = hfi_span_trim(name);
        if (!hfi_wordlist_is_name(name)) {
            if (++bad <= HFI_WORDLIST_COMPLAINTS)
                complain(err, subject, line);
            continue;
        }
        value.start = mark + 1;
        value.length = (size_t)(line.start + line.length - value.start);
        hfi_wordlist_add(list, name);
        hfi_wordlist_add(list, hfi_span_trim(value));
    }
    if (bad > HFI_WORDLIST_COMPLAINTS)
        hfi_text_add_format(err, "%s: %zu more lines are not NAME=value.\n", subject,
                            bad - HFI_WORDLIST_COMPLAINTS);
}
