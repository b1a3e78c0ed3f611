# SPDX-License-Identifier: Apache-2.0 OR MIT
"""shares.c in Python: python3 -X perf shares.py SECONDS TRUTH."""

import sys
import time

ROUND = 100_000_000


def heavy(until):
    x = 1
    while True:
        for _ in range(2000):
            x = (x * 69069 + 1) & 0xFFFFFFFF
        if (now := time.thread_time_ns()) >= until:
            return now


def medium(until):
    x = 1
    while True:
        for _ in range(2000):
            x = (x * 69069 + 3) & 0xFFFFFFFF
        if (now := time.thread_time_ns()) >= until:
            return now


def light(until):
    x = 1
    while True:
        for _ in range(2000):
            x = (x * 69069 + 5) & 0xFFFFFFFF
        if (now := time.thread_time_ns()) >= until:
            return now


def main():
    work = {heavy: 70, medium: 20, light: 10}
    spent, due = dict.fromkeys(work, 0), dict.fromkeys(work, 0)
    now = time.thread_time_ns()
    for _ in range(int(float(sys.argv[1]) * 1e9 / ROUND)):
        for function, share in work.items():
            begin = now
            due[function] += ROUND * share // 100
            now = function(begin + due[function] - spent[function])
            spent[function] += now - begin
    with open(sys.argv[2], "w") as truth:
        for function, ns in spent.items():
            print(function.__name__, ns, file=truth)
        print("all", time.process_time_ns(), file=truth)


main()
