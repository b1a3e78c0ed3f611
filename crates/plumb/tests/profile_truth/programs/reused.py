# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Three functions that live one after the other, two at least with their code and their name where those of another were:
python3 reused.py SECONDS TRUTH."""

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


def spend(word, ns, places):
    """The name in small letters is made anew, so that nothing but the function keeps it."""
    names = {"clock": time.thread_time_ns}
    exec(compile(SOURCE.format(word.lower()), "jobs.py", "exec"), names)
    function = names.pop(word.lower())
    places.append((id(function.__code__), id(function.__code__.co_name)))
    begin = time.thread_time_ns()
    return function(begin + ns) - begin


def main():
    spent, places = {}, []
    for word, share in {"HEAVY": 0.7, "MEDIUM": 0.2, "LIGHT": 0.1}.items():
        spent[word] = spend(word, int(float(sys.argv[1]) * share * 1e9), places)
    with open(sys.argv[2], "w") as truth:
        for word, ns in spent.items():
            print(word.lower(), ns, file=truth)
        print("all", time.process_time_ns(), file=truth)
        print("pid", os.getpid(), file=truth)
    assert len({code for code, _ in places}) < 3, "each has an address of its own"


main()
