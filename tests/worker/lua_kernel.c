/* lua_kernel.c - a kernel for Lua 5.4, written from holdfast/worker.h and holdfast/kernel.h.
 *
 *   lua_kernel CONNECTION_FILE     the frontend
 *   lua_kernel --worker ...        the workers
 *
 * A cell is a chunk of Lua; if it is an expression, its value is the result. Variables
 * are globals. Nil, booleans, numbers, strings and tables of these are saved. Other values,
 * such as functions, are not saved. An isolated cell doesn't have them, and says why.
 *
 * A table is saved as a text that Lua can run: a value that two variables share is two
 * values afterwards, so a table that is met twice, or within itself, stays.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lua5.4/lauxlib.h>
#include <lua5.4/lua.h>
#include <lua5.4/lualib.h>

#include <holdfast/commands.h>
#include <holdfast/worker.h>

#define DEPTH_MAX 100
#define KEY_MAX   200

static hf_worker *the_worker;
static lua_State *lua;

/* ---- values as text -------------------------------------------------------------- */

/* Whether the table at the top was met before: the one at `seen` has those. */
static int
note_table(int seen) {
    lua_pushvalue(lua, -1);
    int is_known = lua_rawget(lua, seen) != LUA_TNIL;
    lua_pop(lua, 1);
    if (is_known)
        return 1;
    lua_pushvalue(lua, -1);
    lua_pushboolean(lua, 1);
    lua_rawset(lua, seen);
    return 0;
}

static const char *write_value(FILE *file, int seen, int depth);

static const char *
write_table(FILE *file, int seen, int depth) {
    const char *why = NULL;
    if (note_table(seen))
        return "a table in it is reached by two ways";
    if (depth == DEPTH_MAX)
        return "it is nested too deeply";
    if (lua_getmetatable(lua, -1)) {
        lua_pop(lua, 1);
        return "a table in it has a metatable";
    }
    fputc('{', file);
    lua_checkstack(lua, 8);
    for (lua_pushnil(lua); why == NULL && lua_next(lua, -2) != 0;) {
        fputc('[', file);
        lua_pushvalue(lua, -2);
        why = write_value(file, seen, depth + 1);
        lua_pop(lua, 1);
        fputs("]=", file);
        if (why == NULL)
            why = write_value(file, seen, depth + 1);
        fputc(',', file);
        lua_pop(lua, why == NULL ? 1 : 2);
    }
    fputc('}', file);
    return why;
}

/* Write the value at the top. Returns why it can't be saved, or NULL. */
static const char *
write_value(FILE *file, int seen, int depth) {
    static char why[64];
    size_t size;
    const char *text;
    switch (lua_type(lua, -1)) {
    case LUA_TBOOLEAN:
        fputs(lua_toboolean(lua, -1) ? "true" : "false", file);
        return NULL;
    case LUA_TNUMBER:
        if (lua_isinteger(lua, -1))
            fprintf(file, "0x%llx", (unsigned long long)lua_tointeger(lua, -1));
        else if (isfinite(lua_tonumber(lua, -1)))
            fprintf(file, "%a", lua_tonumber(lua, -1));
        else
            fputs(isnan(lua_tonumber(lua, -1)) ? "(0/0)"
                  : lua_tonumber(lua, -1) > 0  ? "(1/0)"
                                               : "(-1/0)",
                  file);
        return NULL;
    case LUA_TSTRING:
        text = lua_tolstring(lua, -1, &size);
        fputc('"', file);
        for (size_t i = 0; i < size; i++)
            fprintf(file, "\\%03u", (unsigned char)text[i]);
        fputc('"', file);
        return NULL;
    case LUA_TTABLE:
        return write_table(file, seen, depth);
    default:
        snprintf(why, sizeof why, "a %s can't be saved", luaL_typename(lua, -1));
        return why;
    }
}

/* ---- variables --------------------------------------------------------------------- */

/* Globals of Lua itself aren't the user's: their names are in the registry. */
static int
is_own(const char *name) {
    lua_getfield(lua, LUA_REGISTRYINDEX, "own");
    int is = lua_getfield(lua, -1, name) != LUA_TNIL;
    lua_pop(lua, 2);
    return is;
}

/* Save the value at the top under this name. The stack begins with the tables that were
 * met. */
static hf_status
save_one(hf_worker *worker, const char *name, hf_error *reterr) {
    char *text = NULL;
    size_t size = 0;
    int top = lua_gettop(lua);
    FILE *file = open_memstream(&text, &size);
    if (file == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory to save %s", name);
    const char *why = write_value(file, 1, 0);
    fclose(file);
    hf_value value = {.struct_size = sizeof value,
                      .key = name,
                      .key_size = strlen(name),
                      .codec = 1,
                      .payload = text,
                      .payload_size = size};
    hf_status status = why != NULL
                           ? hf_worker_remove(worker, name, strlen(name), reterr)
                           : hf_worker_put(worker, &value, reterr);
    if (status == HF_OK && why != NULL)
        status = hf_worker_stays(worker, name, why, reterr);
    lua_settop(lua, top);
    free(text);
    return status;
}

typedef struct visit {
    hf_worker *worker;
    hf_error *error;
    hf_status status;
} visit;

/* A variable that is nil now is gone from the store, too. */
static int
remove_if_gone(void *context, const hf_entry *entry) {
    visit *at = context;
    lua_pushglobaltable(lua);
    lua_pushlstring(lua, entry->key, entry->key_size);
    if (lua_rawget(lua, -2) == LUA_TNIL)
        at->status =
            hf_worker_remove(at->worker, entry->key, entry->key_size, at->error);
    lua_pop(lua, 2);
    return at->status == HF_OK ? 0 : HF_STOP;
}

static hf_status
save(void *context, hf_worker *worker, hf_error *reterr) {
    visit at = {worker, reterr, HF_OK};
    hf_snapshot *now = NULL;
    (void)context;
    lua_settop(lua, 0);
    lua_newtable(lua); /* of the tables that were met */
    lua_pushglobaltable(lua);
    for (lua_pushnil(lua); at.status == HF_OK && lua_next(lua, -2) != 0;) {
        const char *name =
            lua_type(lua, -2) == LUA_TSTRING ? lua_tostring(lua, -2) : NULL;
        if (name != NULL && strlen(name) < KEY_MAX && !is_own(name))
            at.status = save_one(worker, name, reterr);
        lua_pop(lua, 1);
    }
    lua_settop(lua, 0);
    if (at.status == HF_OK)
        at.status = hf_snapshot_acquire(hf_worker_session(worker), &now, reterr);
    if (at.status == HF_OK) {
        hf_status status = hf_snapshot_each(now, remove_if_gone, &at, reterr);
        at.status = at.status == HF_OK ? status : at.status;
    }
    hf_snapshot_release(now);
    return at.status;
}

static int
bind_one(void *context, const hf_entry *before, const hf_entry *after) {
    visit *at = context;
    const hf_entry *entry = after != NULL ? after : before;
    lua_pushglobaltable(lua);
    lua_pushlstring(lua, entry->key, entry->key_size);
    lua_pushnil(lua);
    if (after != NULL) {
        lua_pushliteral(lua, "return ");
        lua_pushlstring(lua, entry->payload, entry->payload_size);
        lua_concat(lua, 2);
        if (luaL_loadbufferx(lua, lua_tostring(lua, -1), lua_rawlen(lua, -1), "=saved",
                             "t") != LUA_OK ||
            lua_pcall(lua, 0, 1, 0) != LUA_OK)
            at->status =
                hf_error_set(at->error, HF_E_CORRUPT, "%.200s", lua_tostring(lua, -1));
        lua_replace(lua, -3);
        lua_pop(lua, 1);
    }
    if (at->status == HF_OK)
        lua_rawset(lua, -3);
    lua_settop(lua, 0);
    return at->status == HF_OK ? 0 : HF_STOP;
}

static hf_status
bind_variables(void *context, hf_worker *worker, const hf_worker_binding *binding,
               hf_error *reterr) {
    visit at = {worker, reterr, HF_OK};
    (void)context;
    hf_status status =
        hf_snapshot_diff(binding->before, binding->now, bind_one, &at, reterr);
    return at.status != HF_OK ? at.status : status;
}

/* ---- cells ------------------------------------------------------------------------- */

static int
print(lua_State *state) {
    int count = lua_gettop(state);
    for (int i = 1; i <= count; i++) {
        size_t size;
        const char *text = luaL_tolstring(state, i, &size);
        (void)!hf_worker_write(the_worker, 0, text, size, NULL);
        (void)!hf_worker_write(the_worker, 0, i < count ? "\t" : "\n", 1, NULL);
        lua_pop(state, 1);
    }
    if (count == 0)
        (void)!hf_worker_write(the_worker, 0, "\n", 1, NULL);
    return 0;
}

static int
read_line(lua_State *state) {
    char *line = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status =
        hf_worker_input(the_worker, luaL_optstring(state, 1, ""), 0, &line, &error);
    if (status != HF_OK)
        return luaL_error(state, "%s",
                          status == HF_INTERRUPTED ? "interrupted" : error.message);
    lua_pushstring(state, line);
    free(line);
    return 1;
}

static void
stop_if_interrupted(lua_State *state, lua_Debug *debug) {
    (void)debug;
    lua_sethook(state, NULL, 0, 0);
    luaL_error(state, "interrupted");
}

/* In the handler of SIGINT: Lua allows lua_sethook there. */
static void
cancel(void *context) {
    (void)context;
    lua_sethook(lua, stop_if_interrupted,
                LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

static int
to_text(lua_State *state) {
    luaL_tolstring(state, 1, NULL);
    return 1;
}

/* The value at the top as a text; its own __tostring may fail. */
static const char *
text_of_top(size_t *ret_size) {
    lua_pushcfunction(lua, to_text);
    lua_insert(lua, -2);
    if (lua_pcall(lua, 1, 1, 0) != LUA_OK || lua_type(lua, -1) != LUA_TSTRING)
        lua_pushliteral(lua, "a value without a text");
    return lua_tolstring(lua, -1, ret_size);
}

static hf_status
show(hf_worker *worker, hf_error *reterr) {
    size_t size;
    if (lua_isnoneornil(lua, -1))
        return HF_OK;
    const char *text = text_of_top(&size);
    const hf_mime item = {"text/plain", text, size};
    return hf_worker_show(worker, 1, &item, 1, reterr);
}

static hf_status
execute(void *context, hf_worker *worker, const hf_worker_request *request,
        hf_error *reterr) {
    char name[32];
    (void)context;
    lua_settop(lua, 0);
    snprintf(name, sizeof name, "=In[%lld]", (long long)request->number);
    lua_pushliteral(lua, "return ");
    lua_pushlstring(lua, request->code, request->code_size);
    lua_concat(lua, 2);
    int loaded =
        luaL_loadbufferx(lua, lua_tostring(lua, 1), lua_rawlen(lua, 1), name, "t");
    if (loaded != LUA_OK) {
        lua_settop(lua, 0);
        loaded = luaL_loadbufferx(lua, request->code, request->code_size, name, "t");
    }
    if (loaded != LUA_OK || lua_pcall(lua, 0, 1, 0) != LUA_OK) {
        lua_sethook(lua, NULL, 0, 0);
        const char *text = text_of_top(NULL);
        return hf_worker_is_interrupted(worker)
                   ? HF_INTERRUPTED
                   : hf_error_set(reterr, HF_E_INVALID, "%s", text);
    }
    lua_sethook(lua, NULL, 0, 0);
    return show(worker, reterr);
}

/* ---- the program -------------------------------------------------------------------- */

static hf_status
prepare(void *context, hf_error *reterr) {
    (void)context;
    lua = luaL_newstate();
    if (lua == NULL)
        return hf_error_set(reterr, HF_E_NOMEM, "no memory for Lua");
    luaL_openlibs(lua);
    lua_register(lua, "print", print);
    lua_register(lua, "input", read_line);
    lua_newtable(lua);
    lua_pushglobaltable(lua);
    for (lua_pushnil(lua); lua_next(lua, -2) != 0;) {
        lua_pushvalue(lua, -2);
        lua_insert(lua, -2);
        lua_rawset(lua, 1);
    }
    lua_pop(lua, 1);
    lua_setfield(lua, LUA_REGISTRYINDEX, "own");
    return HF_OK;
}

static hf_status
begin(void *context, hf_worker *worker, hf_worker_role role, hf_error *reterr) {
    (void)context, (void)role, (void)reterr;
    the_worker = worker;
    return HF_OK;
}

static int
serve(const char *program, const char *connection_file) {
    const char *worker[] = {program, "--worker", NULL};
    const hf_kernel_options options = {
        .struct_size = sizeof options,
        .connection_file = connection_file,
        .worker_argv = worker,
        .kernel_info = "{\"implementation\": \"lua\", \"banner\": \"" LUA_RELEASE "\","
                       " \"language_info\": {\"name\": \"lua\", \"version\": \"5.4\","
                       " \"mimetype\": \"text/x-lua\", \"file_extension\": \".lua\"}}",
        .label = "lua",
        .commands = hf_kernel_commands_common(),
        .comment = "--"};
    hf_kernel *kernel = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_kernel_create(&options, &kernel, &error);
    if (status == HF_OK)
        status = hf_kernel_run(kernel, &error);
    if (status != HF_OK)
        fprintf(stderr, "lua_kernel: %s\n", error.message);
    hf_kernel_close(kernel);
    return status != HF_OK;
}

int
main(int argc, char **argv) {
    const hf_worker_language language = {.struct_size = sizeof language,
                                         .prepare = prepare,
                                         .begin = begin,
                                         .execute = execute,
                                         .cancel = cancel,
                                         .save = save,
                                         .bind = bind_variables};
    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return hf_worker_main(&language, argc, argv);
    return argc > 1 ? serve(argv[0], argv[1]) : 2;
}
