// SPDX-License-Identifier: Apache-2.0 OR MIT
// shares.c in C++: heavy is a member of a template, and all that it does is in a function that the
// compiler inlines; so both have 70 %, and `churn` has no symbol.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

static uint64_t cpu(clockid_t clock)
{
	timespec t;

	clock_gettime(clock, &t);
	return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

[[gnu::always_inline]] static inline uint64_t churn(uint64_t x)
{
	// Long beside the clock, which is not inlined and costs up to 2 us where system calls are traced.
	for (int i = 0; i < 400000; i++)
		x = x * 6364136223846793005ULL + 1;
	return x;
}

namespace known
{
template <typename Number> struct Worker {
	Number sink = 1;

	[[gnu::noinline]] uint64_t heavy(uint64_t until)
	{
		uint64_t now;

		do {
			sink = churn(sink);
			now = cpu(CLOCK_THREAD_CPUTIME_ID);
		} while (now < until);
		return now;
	}
};

template <typename Number> [[gnu::noinline]] uint64_t medium(std::vector<Number> &sink, uint64_t until)
{
	uint64_t now;

	do {
		for (int i = 0; i < 10000; i++)
			for (Number &x : sink)
				x = x * 2862933555777941757ULL + 1;
		now = cpu(CLOCK_THREAD_CPUTIME_ID);
	} while (now < until);
	return now;
}

[[gnu::noinline]] uint64_t light(volatile uint64_t &sink, uint64_t until)
{
	uint64_t now;

	do {
		for (int i = 0; i < 10000; i++)
			sink = sink * 3202034522624059733ULL + 1;
		now = cpu(CLOCK_THREAD_CPUTIME_ID);
	} while (now < until);
	return now;
}
} // namespace known

int main(int argc, char **argv)
{
	const uint64_t round = 100000000;
	uint64_t spent[3] = {}, due[3] = {}, now;
	known::Worker<uint64_t> worker;
	std::vector<uint64_t> many(4, 1);
	volatile uint64_t one = 1;
	FILE *truth = argc < 3 ? nullptr : fopen(argv[2], "w");

	if (!truth)
		return 2;
	now = cpu(CLOCK_THREAD_CPUTIME_ID);
	for (int n = 0; n < atof(argv[1]) * 1e9 / double(round); n++) {
		for (int i = 0; i < 3; i++) {
			const uint64_t begin = now;

			due[i] += round * (i == 0 ? 70 : i == 1 ? 20 : 10) / 100;
			const uint64_t until = begin + due[i] - spent[i];

			now = i == 0   ? worker.heavy(until)
			      : i == 1 ? known::medium(many, until)
				       : known::light(one, until);
			spent[i] += now - begin;
		}
	}
	fprintf(truth, "heavy %llu\nmedium %llu\nlight %llu\nall %llu\n", (unsigned long long)spent[0],
		(unsigned long long)spent[1], (unsigned long long)spent[2],
		(unsigned long long)cpu(CLOCK_PROCESS_CPUTIME_ID));
	return fclose(truth) != 0;
}
