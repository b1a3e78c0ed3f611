// SPDX-License-Identifier: Apache-2.0 OR MIT

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;

/** shares.c in Java. */
class Shares {
	static final long ROUND = 100_000_000;
	static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
	static long sink = 1;

	static long heavy(long until) {
		while (true) {
			long x = sink;
			for (int i = 0; i < 40_000; i++)
				x = x * 6364136223846793005L + 1;
			sink = x;
			long now = THREADS.getCurrentThreadCpuTime();
			if (now >= until)
				return now;
		}
	}

	static long medium(long until) {
		while (true) {
			long x = sink;
			for (int i = 0; i < 40_000; i++)
				x = x * 2862933555777941757L + 1;
			sink = x;
			long now = THREADS.getCurrentThreadCpuTime();
			if (now >= until)
				return now;
		}
	}

	static long light(long until) {
		while (true) {
			long x = sink;
			for (int i = 0; i < 40_000; i++)
				x = x * 3202034522624059733L + 1;
			sink = x;
			long now = THREADS.getCurrentThreadCpuTime();
			if (now >= until)
				return now;
		}
	}

	public static void main(String[] args) throws Exception {
		long[] spent = new long[3], due = new long[3], share = {70, 20, 10};
		long now = THREADS.getCurrentThreadCpuTime();
		for (int n = 0; n < (int) (Double.parseDouble(args[0]) * 1e9 / ROUND); n++) {
			for (int i = 0; i < 3; i++) {
				long begin = now;
				due[i] += ROUND * share[i] / 100;
				long until = begin + due[i] - spent[i];
				now = i == 0 ? heavy(until) : i == 1 ? medium(until) : light(until);
				spent[i] += now - begin;
			}
		}
		long all = ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
		Files.writeString(Path.of(args[1]),
				"heavy " + spent[0] + "\nmedium " + spent[1] + "\nlight " + spent[2] + "\nall " + all + "\n");
	}
}
