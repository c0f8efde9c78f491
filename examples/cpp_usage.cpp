/* SPDX-License-Identifier: Apache-2.0 */
// From C++: exceptions for statuses, a unique_ptr for the plan, a lambda for progress.
#include <cmath>
#include <cstdio>
#include <memory>
#include <ringattn/ringattn.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

void check(ra_status status)
{
    if (status != RA_OK)
        throw std::runtime_error(std::string(ra_status_name(status)) + ": " + ra_last_message());
}

using Plan = std::unique_ptr<ra_plan, decltype(&ra_plan_free)>;

Plan make_plan(const ra_problem &problem, const ra_options &options)
{
    ra_plan *plan = nullptr;
    check(ra_plan_create(&problem, &options, &plan));
    return {plan, ra_plan_free};
}

} // namespace

int main()
try {
    constexpr int64_t seq = 500, heads = 4, dim = 32;
    std::vector<float> q(seq * heads * dim), k(q.size()), v(q.size()), o(q.size()), lse(seq * heads);
    uint64_t seed = 0;
    for (auto *values : {&q, &k, &v})
        ra_generate(RA_NORMAL, ++seed, 0, static_cast<int64_t>(values->size()), values->data());
    auto view = [](const std::vector<float> &values, int64_t width) {
        return ra_tensor_dense(values.data(), RA_F32, RA_BHSD, 1, seq, heads, width);
    };
    const ra_tensor tq = view(q, dim), tk = view(k, dim), tv = view(v, dim), to = view(o, dim), tl = view(lse, 1);

    ra_problem problem = RA_PROBLEM_INIT;
    problem.q_len = seq, problem.heads = heads, problem.head_dim = dim;
    problem.pattern = "causal+window:100,0";
    double reached = 0;
    ra_options options = RA_OPTIONS_INIT;
    options.progress_user = &reached;
    options.progress = [](void *user, double done, double total) {
        *static_cast<double *>(user) = done / total;
        return 0;
    };
    const Plan plan = make_plan(problem, options);
    ra_stats stats = RA_STATS_INIT;
    check(ra_forward(plan.get(), &tq, &tk, &tv, &to, &tl, &stats));
    std::printf("%.0f pairs on %d threads, progress reached %.0f%%\n", stats.pairs_visible, stats.threads,
                100 * reached);

    // The first query sees one key, so its output is that key's value and its log-sum-exp is the score.
    double score = 0;
    for (int64_t d = 0; d < dim; d++)
        score += ra_tensor_get(&tq, 0, 0, 0, d) * ra_tensor_get(&tk, 0, 0, 0, d);
    const double lse_error = std::abs(score / std::sqrt(double(dim)) - ra_tensor_get(&tl, 0, 0, 0, 0));
    return std::abs(o[0] - v[0]) < 1e-6 && lse_error < 1e-5 ? 0 : 1;
} catch (const std::exception &failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
