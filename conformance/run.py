"""The API against its own description: a control plane of its own, asked by schemathesis.

    conformance/run.py BINARY SCHEMATHESIS [SECONDS]

Starts `bulkhead up` on loopback in a folder of its own, with a policy to play with, and has every
call asked with what its description allows and what it does not: no server error, no answer that
is not described (status, media type, headers, schema), no method beyond those, no way in without a
token. The stream of events is left out: it does not end.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

CONFIG = pathlib.Path(__file__).resolve().parent / "schemathesis.toml"
TOKEN = "conformance-admin-token-0123456789abcdef"
CHECKS = ",".join((
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_headers_conformance", "response_schema_conformance", "negative_data_rejection",
    "unsupported_method", "allow_header_conformance", "ignored_auth", "missing_required_header",
))
POLICY = """schema = 1
[gateway]
capacity = 200
[plans.free]
limit = 5
[tenants.acme]
plan = "free"
[upstreams.main]
endpoints = ["http://127.0.0.1:9"]
limit = 90
[[routes]]
id = "a"
path = "/a"
upstream = "main"
compartment = { limit = 30 }
[[routes.fallback]]
kind = "static"
status = 200
content_type = "application/json"
body = "[]"
"""


def start(binary, folder):
    """The process and where its API is, once it serves."""
    (folder / "policy.toml").write_text(POLICY)
    ready = folder / "ready.json"
    environment = os.environ | {"BULKHEAD_ADMIN_TOKEN": TOKEN}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [binary, "up", "--data-dir", folder / "data", "--policy", folder / "policy.toml",
             "--listen", "127.0.0.1:0", "--dashboard", "127.0.0.1:0", "--admin", "127.0.0.1:0",
             "--ready-file", ready], env=environment, stdout=log, stderr=log)
    end = time.monotonic() + 30
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > end:
            sys.exit((folder / "log").read_text(errors="replace"))
        time.sleep(0.05)
    return process, f"http://{json.loads(ready.read_text())['dashboard']}/api/v1"


def main():
    binary, schemathesis = sys.argv[1:3]
    seconds = sys.argv[3] if len(sys.argv) > 3 else "120"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        process, url = start(binary, folder)
        try:
            begun = time.monotonic()
            run = subprocess.run(
                [schemathesis, "--config-file", CONFIG, "run", f"{url}/openapi.json", "--url", url, "--checks", CHECKS,
                 "--phases", "examples,coverage,fuzzing", "--max-time", seconds,
                 "--max-examples", "40", "--request-timeout", "20", "--exclude-path", "/events",
                 "--header", f"Authorization: Bearer {TOKEN}", "--warnings", "off",
                 "--continue-on-failure", "--no-shrink", "--seed", "1"],
                cwd=folder, timeout=int(seconds) + 240)
            print(f"-- schemathesis: {time.monotonic() - begun:.0f} s")
            if process.poll() is not None:
                sys.exit("the server is gone:\n" + (folder / "log").read_text(errors="replace"))
            sys.exit(run.returncode)
        finally:
            process.terminate()
            process.wait(timeout=40)


main()
