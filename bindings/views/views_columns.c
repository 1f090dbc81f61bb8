/* views_columns.c - the data of the views, as flat arrays in bytes.
 *
 * A million calls have become a hundred thousand blocks. These become columns of int64
 * here, without a Python object for each. They are filled with the interpreter
 * attached, since they are small.
 *
 * The archive defines more regions than a window shows, Score-P's hundreds of them. So
 * those to which a row or path refers get new numbers, in the order in which they are
 * met, and the regions are written last.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdlib.h>

#include "recorder/profile.h"
#include "views/call_paths.h"
#include "views/views_columns.h"

/* Bytes for the paths of all rows together, and the least share of each. */
#define COSTS_MAX 60000u
#define COSTS_MIN 50u

/* The regions in the result: the archive's number of each. */
typedef struct used_regions {
    uint32_t *numbers; /* the archive's: ours + 1 */
    uint32_t *regions; /* ours: the archive's */
    uint32_t count;
} used_regions;

static uint32_t
use_region(used_regions *used, uint32_t region) {
    if (!used->numbers[region]) {
        used->regions[used->count++] = region;
        used->numbers[region] = used->count;
    }
    return used->numbers[region] - 1;
}

/* A dict's entry that is bytes for `count` numbers, or NULL. */
static int64_t *
add_column(PyObject *dict, const char *name, size_t count) {
    PyObject *bytes =
        PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * sizeof(int64_t)));
    if (!bytes)
        return NULL;
    int bad = PyDict_SetItemString(dict, name, bytes);
    Py_DECREF(bytes);
    return bad ? NULL : (int64_t *)(void *)PyBytes_AS_STRING(bytes);
}

/* Steals `value`. */
static bool
add_to_dict(PyObject *dict, const char *name, PyObject *value) {
    int bad = value ? PyDict_SetItemString(dict, name, value) : -1;
    Py_XDECREF(value);
    return bad == 0;
}

/* Ticks from `begin` on, in ns. */
static int64_t
lasting_ns(const hfi_archive *archive, uint64_t begin, uint64_t ticks) {
    return (int64_t)(hfi_archive_ns(archive, begin + ticks) -
                     hfi_archive_ns(archive, begin));
}

static PyObject *
row_slices(PyObject *dict, const hfi_archive *archive, const hfi_overview_row *row,
           int64_t origin, used_regions *used) {
    int64_t *begin = add_column(dict, "begin", row->count);
    int64_t *duration = add_column(dict, "duration", row->count);
    int64_t *depth = add_column(dict, "depth", row->count);
    int64_t *region = add_column(dict, "region", row->count);
    int64_t *calls = add_column(dict, "count", row->count);
    int64_t *busy = add_column(dict, "busy", row->count);
    int64_t *longest = add_column(dict, "longest", row->count);
    if (!begin || !duration || !depth || !region || !calls || !busy || !longest)
        return NULL;
    for (size_t i = 0; i < row->count; i++) {
        const hfi_slice *slice = &row->slices[i];
        int joined = slice->calls > 1; /* else they are the duration */
        begin[i] = origin + (int64_t)hfi_archive_ns(archive, slice->begin);
        duration[i] = lasting_ns(archive, slice->begin, slice->length);
        busy[i] = joined ? lasting_ns(archive, slice->begin, slice->busy) : 0;
        longest[i] = joined ? lasting_ns(archive, slice->begin, slice->longest) : 0;
        depth[i] = slice->depth;
        region[i] = use_region(used, slice->region);
        calls[i] = slice->calls;
    }
    return dict;
}

static PyObject *
make_row(const hfi_archive *archive, const hfi_overview_row *row, int64_t origin,
         used_regions *used) {
    hfi_archive_clock clock = hfi_archive_get_clock(archive);
    const char *name = hfi_definitions_get_string(hfi_archive_definitions(archive),
                                                  row->location->name);
    PyObject *dict = Py_BuildValue(
        "{ss,ss,ss,sK,sK,sK,sK,sK,sK}", "host",
        hfi_archive_host(archive, row->location->process), "process",
        hfi_archive_process(archive, row->location->process), "thread", name, "id",
        (unsigned long long)row->location->id, "events",
        (unsigned long long)row->events, "calls", (unsigned long long)row->calls,
        "levels", (unsigned long long)row->levels, "hidden",
        (unsigned long long)row->hidden, "pixel",
        (unsigned long long)((double)row->pixel * 1e9 /
                             (double)clock.ticks_per_second));
    if (dict && !row_slices(dict, archive, row, origin, used))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *
list_rows(const hfi_archive *archive, const hfi_overview *overview, int64_t origin,
          used_regions *used) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < hfi_overview_count_rows(overview); i++) {
        PyObject *row =
            make_row(archive, hfi_overview_get_row(overview, i), origin, used);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *
fill_paths(PyObject *dict, const hfi_overview *overview, const hfi_call_path *paths,
           size_t count, used_regions *used) {
    const hfi_profile *profile = hfi_overview_profile(overview);
    int64_t *region = add_column(dict, "region", count);
    int64_t *depth = add_column(dict, "depth", count);
    int64_t *visits = add_column(dict, "visits", count);
    int64_t *inclusive = add_column(dict, "inclusive", count);
    if (!region || !depth || !visits || !inclusive)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const hfi_calltree_node *node = hfi_calltree_get(profile->tree, paths[i].node);
        region[i] = use_region(used, hfi_overview_region(overview, node->region));
        depth[i] = paths[i].depth;
        visits[i] = (int64_t)node->visits;
        inclusive[i] = (int64_t)node->inclusive;
    }
    return dict;
}

/* One path in a row: where it is in the paths that are shown, and its cost. */
typedef struct row_cost {
    uint32_t path;
    const hfi_path_cost *cost;
} row_cost;

static int
longest_row_first(const void *left, const void *right) {
    const row_cost *a = left, *b = right;
    if (a->cost->inclusive != b->cost->inclusive)
        return a->cost->inclusive > b->cost->inclusive ? -1 : 1;
    return a->path < b->path ? -1 : a->path > b->path;
}

static int
by_path(const void *left, const void *right) {
    const row_cost *a = left, *b = right;
    return a->path < b->path ? -1 : a->path > b->path;
}

static bool
fill_costs(PyObject *row, const row_cost *costs, size_t count) {
    PyObject *dict = PyDict_New();
    int64_t *path = dict ? add_column(dict, "path", count) : NULL;
    int64_t *visits = path ? add_column(dict, "visits", count) : NULL;
    int64_t *inclusive = visits ? add_column(dict, "inclusive", count) : NULL;
    for (size_t i = 0; inclusive && i < count; i++) {
        path[i] = costs[i].path;
        visits[i] = (int64_t)costs[i].cost->visits;
        inclusive[i] = (int64_t)costs[i].cost->inclusive;
    }
    if (!inclusive)
        Py_CLEAR(dict);
    return add_to_dict(row, "costs", dict);
}

/* A row's share of the paths: the longest, if there are more than `costs_max`. A path
 * takes no longer than the one above it, so the kept paths are a tree. `places`: for
 * each node of the profile its path plus one; 0: it isn't shown. */
static bool
add_costs(PyObject *row, const hfi_profile_location *location, const uint32_t *places,
          size_t costs_max) {
    row_cost *costs = PyMem_New(row_cost, location->count + 1);
    size_t count = 0;
    if (!costs) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < location->count; i++) {
        const hfi_path_cost *cost = &location->costs[i];
        if (places[cost->path])
            costs[count++] = (row_cost){places[cost->path] - 1, cost};
    }
    if (count > costs_max) {
        qsort(costs, count, sizeof *costs, longest_row_first);
        count = costs_max;
    }
    qsort(costs, count, sizeof *costs, by_path);
    bool complete = fill_costs(row, costs, count);
    PyMem_Free(costs);
    return complete;
}

/* Rows and the profile's locations are the same, in one order. */
static bool
add_row_costs(PyObject *rows, const hfi_profile *profile, const hfi_call_path *paths,
              size_t count) {
    Py_ssize_t row_count = PyList_GET_SIZE(rows);
    if (row_count < 2 || (size_t)row_count != profile->location_count)
        return true; /* the paths are those of the one row */
    size_t share = COSTS_MAX / (size_t)row_count;
    uint32_t *places =
        PyMem_Calloc(hfi_calltree_count(profile->tree) + 1, sizeof *places);
    bool complete = places != NULL;
    if (!complete)
        PyErr_NoMemory();
    for (size_t i = 0; complete && i < count; i++)
        places[paths[i].node] = (uint32_t)i + 1;
    for (Py_ssize_t i = 0; complete && i < row_count; i++)
        complete = add_costs(PyList_GET_ITEM(rows, i), &profile->locations[i], places,
                             share > COSTS_MIN ? share : COSTS_MIN);
    PyMem_Free(places);
    return complete;
}

static PyObject *
make_paths(const hfi_overview *overview, size_t paths_max, PyObject *rows,
           used_regions *used) {
    const hfi_profile *profile = hfi_overview_profile(overview);
    hfi_call_path *paths;
    size_t count;
    if (hfi_call_paths_order(profile, paths_max, &paths, &count) != HF_OK)
        return PyErr_NoMemory();
    PyObject *dict = PyDict_New();
    if (dict && (!fill_paths(dict, overview, paths, count, used) ||
                 !add_row_costs(rows, profile, paths, count)))
        Py_CLEAR(dict);
    free(paths);
    return dict;
}

/* Regions with the same name, file and line are one function. Find the function of each
 * region. */
static bool
name_functions(const hfi_flat *flat, const hfi_profile *profile, uint32_t *regions) {
    size_t count = hfi_definitions_count_regions(profile->definitions);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t function;
        if (hfi_definitions_add_region(
                flat->definitions, hfi_profile_name(profile, i),
                hfi_profile_file(profile, i),
                hfi_definitions_get_region(profile->definitions, i)->line,
                HFI_REGION_FUNCTION, &function) != HF_OK ||
            function >= flat->function_count)
            return false;
        regions[function] = i;
    }
    return true;
}

static PyObject *
fill_function_table(PyObject *dict, const hfi_overview *overview, const hfi_flat *flat,
                    const uint32_t *regions, used_regions *used) {
    size_t count = flat->function_count;
    int64_t *region = add_column(dict, "region", count);
    int64_t *visits = add_column(dict, "visits", count);
    int64_t *inclusive = add_column(dict, "inclusive", count);
    int64_t *exclusive = add_column(dict, "exclusive", count);
    if (!region || !visits || !inclusive || !exclusive)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        region[i] = use_region(used, hfi_overview_region(overview, regions[i]));
        visits[i] = (int64_t)flat->functions[i].calls;
        inclusive[i] = (int64_t)flat->functions[i].inclusive;
        exclusive[i] = (int64_t)flat->functions[i].exclusive;
    }
    return dict;
}

static PyObject *
make_table(const hfi_overview *overview, used_regions *used) {
    const hfi_profile *profile = hfi_overview_profile(overview);
    hfi_flat *flat = NULL;
    uint32_t *regions =
        PyMem_New(uint32_t, hfi_definitions_count_regions(profile->definitions) + 1);
    PyObject *dict = NULL;
    if (!regions || hfi_flat_create(profile, &flat) != HF_OK ||
        !name_functions(flat, profile, regions))
        PyErr_NoMemory();
    else
        dict = PyDict_New();
    if (dict && !fill_function_table(dict, overview, flat, regions, used))
        Py_CLEAR(dict);
    hfi_flat_close(flat);
    PyMem_Free(regions);
    return dict;
}

static PyObject *
make_regions(const hfi_archive *archive, const used_regions *used) {
    static const char *const kinds[] = {[HFI_REGION_FUNCTION] = "function",
                                        [HFI_REGION_GENERATOR] = "function",
                                        [HFI_REGION_C_FUNCTION] = "c_function",
                                        [HFI_REGION_USER] = "user",
                                        [HFI_REGION_ARTIFICIAL] = "artificial"};
    const hfi_definitions *definitions = hfi_archive_definitions(archive);
    PyObject *dict = PyDict_New();
    PyObject *names = PyList_New(used->count), *files = PyList_New(used->count);
    PyObject *lines = PyList_New(used->count), *kind = PyList_New(used->count);
    PyObject *waits = PyList_New(used->count);
    bool complete = dict && names && files && lines && kind && waits;
    for (uint32_t i = 0; complete && i < used->count; i++) {
        const hfi_region *region =
            hfi_definitions_get_region(definitions, used->regions[i]);
        PyList_SET_ITEM(names, i,
                        PyUnicode_FromString(
                            hfi_definitions_get_string(definitions, region->name)));
        PyList_SET_ITEM(files, i,
                        PyUnicode_FromString(
                            hfi_definitions_get_string(definitions, region->file)));
        PyList_SET_ITEM(lines, i, PyLong_FromUnsignedLong(region->line));
        PyList_SET_ITEM(kind, i, PyUnicode_FromString(kinds[region->kind]));
        PyList_SET_ITEM(waits, i,
                        PyBool_FromLong(hfi_archive_waits(archive, used->regions[i])));
        complete = !PyErr_Occurred();
    }
    complete = complete && PyDict_SetItemString(dict, "name", names) == 0 &&
               PyDict_SetItemString(dict, "file", files) == 0 &&
               PyDict_SetItemString(dict, "line", lines) == 0 &&
               PyDict_SetItemString(dict, "kind", kind) == 0 &&
               PyDict_SetItemString(dict, "waits", waits) == 0;
    Py_XDECREF(names);
    Py_XDECREF(files);
    Py_XDECREF(lines);
    Py_XDECREF(kind);
    Py_XDECREF(waits);
    if (!complete)
        Py_CLEAR(dict);
    return dict;
}

bool
hfi_views_fill(PyObject *dict, const hfi_archive *archive, const hfi_overview *overview,
               int64_t origin, size_t paths_max) {
    hfi_archive_clock clock = hfi_archive_get_clock(archive);
    size_t regions = hfi_definitions_count_regions(hfi_archive_definitions(archive));
    used_regions used = {PyMem_Calloc(regions + 1, sizeof(uint32_t)),
                         PyMem_Calloc(regions + 1, sizeof(uint32_t)), 0};
    bool complete = used.numbers && used.regions;
    if (!complete)
        PyErr_NoMemory();
    complete =
        complete &&
        add_to_dict(dict, "realtime", PyLong_FromUnsignedLongLong(clock.realtime)) &&
        add_to_dict(dict, "length",
                    PyLong_FromUnsignedLongLong(
                        hfi_archive_ns(archive, clock.begin + clock.length))) &&
        add_to_dict(dict, "host", PyUnicode_FromString(hfi_archive_host(archive, 0))) &&
        add_to_dict(dict, "processes",
                    PyLong_FromSize_t(hfi_archive_count_processes(archive))) &&
        add_to_dict(dict, "events",
                    PyLong_FromUnsignedLongLong(hfi_overview_count_events(overview))) &&
        add_to_dict(dict, "collapsed",
                    PyLong_FromUnsignedLongLong(
                        hfi_profile_count_collapsed(hfi_overview_profile(overview)))) &&
        add_to_dict(dict, "rows", list_rows(archive, overview, origin, &used)) &&
        add_to_dict(dict, "paths",
                    make_paths(overview, paths_max, PyDict_GetItemString(dict, "rows"),
                               &used)) &&
        add_to_dict(dict, "table", make_table(overview, &used)) &&
        add_to_dict(dict, "regions", make_regions(archive, &used));
    PyMem_Free(used.numbers);
    PyMem_Free(used.regions);
    return complete;
}
