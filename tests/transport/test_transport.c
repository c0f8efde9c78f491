/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scenarios over threads of this process; over MPI they run in test_transport_mpi.
 */
#include "support/random.h"
#include "support/unit.h"
#include "transport/comm.h"
#include "transport/scenario.h"

#include <pthread.h>
#include <string.h>

enum { RANKS_MOST = 8 };

/* ---- Threads --------------------------------------------------------------------------------------------------- */

typedef struct crew {
    atomic_int told[RANKS_MOST];
    peer peers[RANKS_MOST];
} crew;

static void tell_thread(peer *me, int to)
{
    atomic_fetch_add(&((crew *)me->user)->told[to], 1);
}

static bool is_thread_told(peer *me)
{
    atomic_int *told = &((crew *)me->user)->told[me->transport.rank];
    if (!atomic_load(told))
        return false;
    atomic_fetch_sub(told, 1); /* only its own rank takes away */
    return true;
}

static void *play_thread(void *me)
{
    play(me);
    return NULL;
}

/* The peer closes the transport, so the communicator around it must not: only its shell is freed. */
static void open_peer(peer *me, const scenario *s, ra_comm *comm, const fault *fault)
{
    static const harness harness = {tell_thread, is_thread_told};
    me->scenario = s;
    me->harness = &harness;
    me->open = true;
    if (fault)
        assert_int_equal(faulty_wrap(&comm->transport, fault, &me->transport), RA_OK);
    else
        me->transport = comm->transport;
    comm->simulated = true;
    ra_comm_free(comm);
}

static void play_threads(const scenario *s, int ranks, fault_counts *counts)
{
    crew crew = {0};
    ra_comm *comms[RANKS_MOST];
    pthread_t threads[RANKS_MOST];
    fault fault = s->fault;
    fault.counts = counts;
    assert_int_equal(ra_comm_threads(ranks, comms), RA_OK);
    for (int rank = 0; rank < ranks; rank++) {
        assert_int_equal(ra_comm_rank(comms[rank]), rank);
        assert_int_equal(ra_comm_ranks(comms[rank]), ranks);
        open_peer(&crew.peers[rank], s, comms[rank], counts && rank == 0 ? &fault : NULL);
        crew.peers[rank].user = &crew;
    }
    for (int rank = 0; rank < ranks; rank++)
        assert_int_equal(pthread_create(&threads[rank], NULL, play_thread, &crew.peers[rank]), 0);
    for (int rank = 0; rank < ranks; rank++)
        pthread_join(threads[rank], NULL);
    for (int rank = 0; rank < ranks; rank++)
        free_memory(&crew.peers[rank], false);
    for (int rank = 0; rank < ranks; rank++)
        REQUIRE(!crew.peers[rank].failure[0], "%s", crew.peers[rank].failure);
}

static void over_threads(void **state)
{
    (void)state;
    for (int i = 0; i < scenario_count; i++)
        for (int ranks = scenarios[i].ranks; ranks <= RANKS_MOST; ranks += stride(1))
            play_threads(&scenarios[i], ranks, NULL);
}

static void faults_happen_and_show(void **state)
{
    (void)state;
    for (int i = 0; i < fault_scenario_count; i++) {
        fault_counts counts = {0};
        play_threads(&fault_scenarios[i], 2, &counts);
        REQUIRE(counts.happened == 1, "%s: happened %lld times", fault_scenarios[i].name, (long long)counts.happened);
        assert_true(counts.operations >= counts.sends && counts.sends + counts.operations > 0);
    }
}

/* ---- Communicators --------------------------------------------------------------------------------------------- */

static void simulated_communicators(void **state)
{
    (void)state;
    ra_comm *comm;
    assert_int_equal(ra_comm_sim(5, &comm), RA_OK);
    assert_true(comm->simulated);
    assert_int_equal(ra_comm_ranks(comm), 5);
    assert_int_equal(ra_comm_rank(comm), 0);
    ra_comm_free(comm);
    ra_comm_free(NULL);
    assert_int_equal(ra_comm_sim(0, &comm), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "ranks 0: must be >= 1");
    assert_null(comm);
}

static void thread_communicators_in_any_order(void **state)
{
    (void)state;
    ra_comm *comms[4];
    assert_int_equal(ra_comm_threads(4, comms), RA_OK);
    for (int i = 0; i < 4; i++)
        ra_comm_free(comms[(i + 2) % 4]);
    assert_int_equal(ra_comm_threads(0, comms), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "ranks 0: must be 1..4096");
}

static ra_status move_nothing(void *state, int peer, int tag, const ra_segment *segments, int64_t count)
{
    (void)state, (void)peer, (void)tag, (void)segments, (void)count;
    return RA_OK;
}

static ra_status find_nothing(void *state, ra_transport_state *found)
{
    (void)state;
    *found = (ra_transport_state){.waiting_for = -1, .quietest = -1};
    return RA_OK;
}

static void tell_nobody(void *state, const ra_notice *notice)
{
    (void)state, (void)notice;
}

static int abandon_nothing(void *state)
{
    (void)state;
    return 1;
}

static void close_nothing(void *state)
{
    (void)state;
}

static void custom_communicators_are_checked(void **state)
{
    (void)state;
    const ra_transport good = {
        sizeof good,     "own",        1, 2, NULL, NULL, move_nothing, move_nothing, find_nothing, tell_nobody,
        abandon_nothing, close_nothing};
    ra_transport bad = good;
    ra_comm *comm;
    bad.size = 0;
    assert_int_equal(ra_comm_custom(&bad, &comm), RA_ERROR_ARGUMENT);
    bad = good;
    bad.rank = 2;
    assert_int_equal(ra_comm_custom(&bad, &comm), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "transport own: rank 2: must be 0..1");
    bad = good;
    bad.notify = NULL;
    assert_int_equal(ra_comm_custom(&bad, &comm), RA_ERROR_ARGUMENT);
    assert_string_equal(ra_last_message(), "transport own: notify must not be NULL");
    assert_null(comm);
    assert_int_equal(ra_comm_custom(&good, &comm), RA_OK);
    assert_int_equal(ra_comm_rank(comm), 1);
    ra_comm_free(comm); /* closes it, too */
}

static void transports_set_the_message(void **state)
{
    (void)state;
    assert_int_equal(ra_transport_fail(RA_ERROR_PEER, "rank %d is %s", 3, "away"), RA_ERROR_PEER);
    assert_string_equal(ra_last_message(), "rank 3 is away");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_threads),
        cmocka_unit_test(faults_happen_and_show),
        cmocka_unit_test(simulated_communicators),
        cmocka_unit_test(thread_communicators_in_any_order),
        cmocka_unit_test(custom_communicators_are_checked),
        cmocka_unit_test(transports_set_the_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
