/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and runs gradients over ranks, after a forward pass into scratch files. See gradient_ring.h. */
#include "gradient_ring.h"

#include "job.h"
#include "report.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The plans --------------------------------------------------------------------------------------------------- */

static ra_dtype output_dtype(const run_job *run, const gradient_files *files)
{
    return files->output_path ? files->output.tensor.dtype : run->inputs.query.tensor.dtype;
}

static int plan_backward(run_job *run, const gradient_files *files)
{
    ra_ring_options *o = &run->over.options;
    int code = run_job_spread(run, &run->over, "gradient", output_dtype(run, files), true);
    o->backward = 1;
    o->gradients = 0;
    o->gradients_kept = 0;
    for (int i = 0; i < GRADIENTS; i++) {
        o->gradients |= files->paths[i] ? 1u << i : 0;
        o->gradients_kept |= files->paths[i] && !tensor_file_is_null(files->paths[i]) ? 1u << i : 0;
    }
    o->d_lse = files->lse_gradient_path != NULL;
    o->d_output_dtype = files->output_gradient.tensor.dtype;
    o->d_q_dtype = run->results[RA_GRADIENT_QUERY].shape.dtype;
    o->d_k_dtype = run->results[RA_GRADIENT_KEY].shape.dtype;
    o->d_v_dtype = run->results[RA_GRADIENT_VALUE].shape.dtype;
    return code ? code : ring_run_plan(&run->over);
}

/* On as many ranks as the gradients. */
static int plan_forward(gradient_ring *ring, run_job *run, const gradient_files *files)
{
    int code = run_job_spread(run, &ring->forward, "forward", output_dtype(run, files), true);
    ring->forward.options.ranks = run->over.ranks;
    return code ? code : ring_run_plan(&ring->forward);
}

int gradient_ring_plan(gradient_ring *ring, run_job *run, const gradient_files *files)
{
    int code = plan_backward(run, files);
    return code || files->output_path ? code : plan_forward(ring, run, files);
}

/* ---- Scratch files ----------------------------------------------------------------------------------------------- */

/*
 * Beside the first gradient that is a file, or `other`, if that is not NULL; else where temporary files are, by the
 * number of the first process.
 */
static void place_scratch(const run_job *run, const char *other, char *place, size_t size)
{
    const char *temporary = getenv("TMPDIR");
    uint64_t number = job_rank() == 0 ? (uint64_t)getpid() : 0;
    job_add(&number, 1);
    const char *beside = other;
    for (int i = run->result_count - 1; i >= 0; i--)
        if (run->results[i].path && !tensor_file_is_null(run->results[i].path))
            beside = run->results[i].path;
    char part[PATH_MAX];
    if (beside)
        snprintf(place, size, "%s", tensor_file_part(beside, part, sizeof part));
    else
        snprintf(place, size, "%s/ringattn-%llu", temporary && *temporary ? temporary : "/tmp",
                 (unsigned long long)number);
}

static char *joined(const char *place, const char *end)
{
    size_t size = strlen(place) + strlen(end) + 1;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s%s", place, end);
    return path;
}

typedef int (*file_maker)(tensor_file *file, const char *path, tensor_axes axes, const tensor_shape *shape);

static int make_scratch(const gradient_ring *ring, const attention_files *in, gradient_files *files, file_maker maker)
{
    const tensor_shape output = output_shape(in, in->query.tensor.dtype), lse = lse_shape(in);
    int code = maker(&files->output, ring->output_path, (tensor_axes)in->layout, &output);
    return code ? code : maker(&files->lse, ring->lse_path, AXES_BHS, &lse);
}

int gradient_ring_create(gradient_ring *ring, run_job *run, gradient_files *files, const char *other)
{
    char place[PATH_MAX + 64];
    int code = EXIT_OK;
    if (files->output_path)
        return EXIT_OK;
    place_scratch(run, other, place, sizeof place);
    ring->output_path = joined(place, ".forward-output.safetensors");
    ring->lse_path = joined(place, ".forward-lse.npy");
    if (!ring->output_path || !ring->lse_path)
        code = report(EXIT_USAGE, "%s: out of memory", place);
    if (!code && job_rank() == 0)
        code = make_scratch(ring, &run->inputs, files, tensor_file_create);
    code = job_agree(code);
    if (!code && job_rank() > 0)
        code = make_scratch(ring, &run->inputs, files, tensor_file_join);
    return job_agree(code);
}

/* ---- The runs ---------------------------------------------------------------------------------------------------- */

/*
 * Run the forward pass. No process reads its results before all processes have written theirs. A process that failed
 * ends the job with its own message.
 */
static int run_forward(gradient_ring *ring, tensor_file *const files[])
{
    int code = ring_run_execute(&ring->forward, files);
    return code ? code : job_agree(EXIT_OK);
}

int gradient_ring_run(gradient_ring *ring, run_job *run, gradient_files *f)
{
    attention_files *in = &run->inputs;
    tensor_file *const files[RING_FILES] = {&in->query,
                                            &in->key,
                                            &in->value,
                                            &f->output,
                                            &f->lse,
                                            &f->output_gradient,
                                            &f->lse_gradient,
                                            &f->gradients[RA_GRADIENT_QUERY],
                                            &f->gradients[RA_GRADIENT_KEY],
                                            &f->gradients[RA_GRADIENT_VALUE]};
    int code = f->output_path ? EXIT_OK : run_forward(ring, files);
    if (!code)
        code = ring_run_execute(&run->over, files);
    return code ? code : run_job_gather(run);
}

double gradient_ring_seconds_forward(const gradient_ring *ring)
{
    return ring->forward.seconds;
}

void gradient_ring_free(gradient_ring *ring)
{
    ring_run_free(&ring->forward);
    free(ring->output_path);
    free(ring->lse_path);
}
