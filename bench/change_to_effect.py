#!/usr/bin/env python3
"""From an accepted change of a limit to its effect in the gateway: p50, p99 and the worst.

    python3 bench/change_to_effect.py PATH/TO/bulkhead [CHANGES]

One `bulkhead up`, one client. Each round sends a PATCH and, from the moment its answer is there, asks the
gateway's admin port until the new limit is in force. The contract's bound is 100 ms at p99 on one machine.
"""
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TOKEN = "benchmark-admin-token-0123456789abcdef"
POLICY = """schema = 1
[upstreams.main]
endpoints = ["http://127.0.0.1:9"]
[[routes]]
id = "a"
path = "/"
upstream = "main"
[routes.compartment]
limit = 1
reserved = 0
"""


def connect(address):
    host, port = address.rsplit(":", 1)
    return http.client.HTTPConnection(host, int(port), timeout=10)


def ask(connection, method, path, body=None):
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    data = answer.read()
    if answer.status != 200:
        sys.exit(f"{method} {path}: {answer.status} {data[:200]!r}")
    return json.loads(data)


def limit(admin):
    compartments = ask(admin, "GET", "/compartments")["compartments"]
    return next(c["limit"] for c in compartments if c["key"] == "route/a")


def start(binary, folder):
    (folder / "policy.toml").write_text(POLICY)
    ready = folder / "ready.json"
    process = subprocess.Popen(
        [binary, "up", "--no-login", "--data-dir", folder / "data", "--policy", folder / "policy.toml", "--listen",
         "127.0.0.1:0", "--dashboard", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--ready-file", ready],
        env=os.environ | {"BULKHEAD_ADMIN_TOKEN": TOKEN}, stderr=subprocess.DEVNULL)
    while not ready.exists():
        if process.poll() is not None:
            sys.exit(f"the product ended with {process.returncode}")
        time.sleep(0.01)
    return process, json.loads(ready.read_text())


def main():
    binary, changes = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500
    with tempfile.TemporaryDirectory() as folder:
        process, addresses = start(binary, pathlib.Path(folder))
        try:
            dashboard, admin = connect(addresses["dashboard"]), connect(addresses["admin"])
            stored, effect = [], []
            for n in range(changes):
                began = time.monotonic()
                ask(dashboard, "PATCH", "/api/v1/compartments/route%2Fa", {"limit": 2 + n})
                answered = time.monotonic()
                while limit(admin) != 2 + n:
                    pass
                stored.append(answered - began)
                effect.append(time.monotonic() - answered)
        finally:
            process.terminate()
            process.wait(15)
    for name, times in (("request to answer", stored), ("answer to effect", effect)):
        times.sort()
        at = lambda share: times[min(len(times) - 1, int(len(times) * share))] * 1000
        print(f"{name}: p50 {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms, worst {times[-1] * 1000:.1f} ms ({changes} changes)")


main()
