# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Three functions that live one after the other, two at least with their code at one address: python3 reused.py SECONDS TRUTH."""

import os
import sys
import time

SOURCE = """
def {}(until):
    x = 1
    while True:
        for _ in range(2000):
            x = (x * 69069 + 1) & 0xFFFFFFFF
        if (now := clock()) >= until:
            return now
"""


def main():
    spent, places = {}, set()
    for name, share in {"heavy": 0.7, "medium": 0.2, "light": 0.1}.items():
        names = {"clock": time.thread_time_ns}
        exec(compile(SOURCE.format(name), "jobs.py", "exec"), names)
        function = names.pop(name)
        places.add(id(function.__code__))
        begin = time.thread_time_ns()
        spent[name] = function(begin + int(float(sys.argv[1]) * share * 1e9)) - begin
        del function, names
    assert len(places) < 3, "each has an address of its own"
    with open(sys.argv[2], "w") as truth:
        for name, ns in spent.items():
            print(name, ns, file=truth)
        print("all", time.process_time_ns(), file=truth)
        print("pid", os.getpid(), file=truth)


main()
