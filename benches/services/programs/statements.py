# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sends statements to a database's client program over and over: STATEMENTS PAUSES COMMAND..."""

import itertools
import json
import subprocess
import sys
import time

lines, pauses, command = json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
for line, pause in zip(itertools.cycle(lines), itertools.cycle(pauses)):
    client.stdin.write(line.encode() + b";\n")
    client.stdin.flush()
    time.sleep(pause)
