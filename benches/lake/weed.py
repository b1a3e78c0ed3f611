# SPDX-License-Identifier: Apache-2.0 OR MIT
"""SeaweedFS, a server of S3, on this machine: scripts/deps.sh peers installs it."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request

from common import system
from common.system import ROOT, Problem

KEYS = {"AWS_ACCESS_KEY_ID": "plumb", "AWS_SECRET_ACCESS_KEY": "of-a-test", "AWS_REGION": "us-east-1"}


def program():
    found = ROOT / "target/peers/bin/weed"
    if not found.is_file():
        raise Problem(f"{found} is missing; scripts/deps.sh peers installs it")
    return found


def ports(count):
    """Nobody listens there, nor 10,000 above, where SeaweedFS has others."""
    def free(port):
        with socket.socket() as a, socket.socket() as b:
            return all(s.connect_ex(("127.0.0.1", p)) for s, p in ((a, port), (b, port + 10_000)))
    return [p for p in range(13_000, 22_000) if free(p)][:count]


class Weed:
    """A server with one bucket, `fleet`; `environment` is what its clients need of AWS's variables."""

    def __init__(self, directory, undo):
        directory.mkdir()
        master, volume, filer, self.port = ports(4)
        rules = {"name": "plumb", "credentials": [{"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}],
                 "actions": ["Read:fleet", "Write:fleet", "List:fleet"]}
        (directory / "s3.json").write_text(json.dumps({"identities": [rules]}))
        words = [program(), "server", f"-dir={directory}", "-ip=127.0.0.1", "-filer", "-s3", "-master.telemetry=false", "-s3.port.iceberg=0",
                 "-s3.port.lance=0", "-volume.max=40", "-master.volumeSizeLimitMB=64", f"-s3.config={directory / 's3.json'}",
                 f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={self.port}"]
        quiet = subprocess.DEVNULL
        self.child = system.spawn(words, stdin=quiet, stdout=quiet, stderr=quiet)
        undo.add(f"kill -9 -- -{self.child.pid}")
        self.endpoint = f"127.0.0.1:{self.port}"
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": f"http://{self.endpoint}", "AWS_EC2_METADATA_DISABLED": "true"}
        until = time.monotonic() + 60
        while not self.bucket(filer) or socket.socket().connect_ex(("127.0.0.1", self.port)):
            if time.monotonic() > until or self.child.poll() is not None:
                raise Problem("SeaweedFS does not answer")
            time.sleep(0.1)

    def bucket(self, filer):
        """Buckets are directories of the filer."""
        try:
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{filer}/buckets/fleet/", method="POST"), timeout=5).close()
        except urllib.error.HTTPError as error:
            return error.code == 409
        except OSError:
            return False
        return True
