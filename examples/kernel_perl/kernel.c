/* kernel.c - a Jupyter kernel for Perl: libholdfast-kernel with a worker in Perl.
 *
 *   kernel CONNECTION_FILE WORKER
 *
 * The library has the sockets, the queue and the processes; worker.pl runs the cells.
 */
#include <stdio.h>

#include <holdfast/commands.h>

int
main(int argc, char **argv) {
    const char *worker[] = {"perl", argc > 2 ? argv[2] : "worker.pl", NULL};
    hf_kernel_options options = {
        .struct_size = sizeof options,
        .connection_file = argc > 1 ? argv[1] : "kernel.json",
        .worker_argv = worker,
        .kernel_info = "{\"implementation\": \"perl\", \"banner\": \"Perl\","
                       " \"language_info\": {\"name\": \"perl\", \"version\": \"5\","
                       " \"mimetype\": \"text/x-perl\", \"file_extension\": \".pl\"}}",
        .label = "perl",
        .commands = hf_kernel_commands_common(),
        .comment = "#"};
    hf_kernel *kernel = NULL;
    hf_error error = HF_ERROR_INIT;
    hf_status status = hf_kernel_create(&options, &kernel, &error);
    if (status == HF_OK)
        status = hf_kernel_run(kernel, &error);
    if (status != HF_OK)
        fprintf(stderr, "kernel: %s\n", error.message);
    hf_kernel_close(kernel);
    return status != HF_OK;
}
