#!/usr/bin/env python3
"""A real OTLP receiver gets spans, metrics and log events, with equal trace ids.

    pip install oteltap
    python3 interop/otlp.py [--bin target/release/bulkhead]

Starts oteltap (OTLP over HTTP), a small origin and `bulkhead up`, all on loopback; sends one request
that is answered and one that a compartment refuses, each within a trace of its own, and reads what
arrived. Exits 0 when everything did and the process then ended in time.
"""
import argparse, json, os, signal, socket, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SERVED, REFUSED = "11111111111111111111111111111111", "22222222222222222222222222222222"
TOKEN = "interop-admin-token-of-40-characters-000"


class Origin(BaseHTTPRequestHandler):
    """Answers at once; `/hold` when it is told to. Keeps the trace context of each request."""
    contexts, go = [], threading.Event()

    def do_GET(self):
        Origin.contexts.append(self.headers.get("traceparent"))
        if self.path == "/hold":
            Origin.go.wait(30)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url, trace=None):
    headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"} if trace else {}
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


def until(what, is_so, seconds=30):
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"not in time: {what}")
        time.sleep(0.05)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--bin", default="target/release/bulkhead")
    bulkhead = args.parse_args().bin
    folder = Path(tempfile.mkdtemp(prefix="bulkhead-interop-"))
    origin = ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    port, lines = free_port(), []
    tap = subprocess.Popen([sys.executable, "-m", "oteltap", "--port", str(port)], stdout=subprocess.PIPE, text=True)
    threading.Thread(target=lambda: [lines.append(line) for line in tap.stdout], daemon=True).start()
    policy = folder / "policy.toml"
    policy.write_text(f"""schema = 1
[upstreams.origin]
endpoints = ["http://127.0.0.1:{origin.server_port}"]
[[routes]]
id = "a"
path = "/"
upstream = "origin"
[routes.compartment]
limit = 1
""")
    ready = folder / "ready.json"
    env = dict(os.environ, BULKHEAD_ADMIN_TOKEN=TOKEN, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
               OTEL_BSP_SCHEDULE_DELAY="100", OTEL_BLRP_SCHEDULE_DELAY="100", OTEL_METRIC_EXPORT_INTERVAL="500",
               OTEL_SERVICE_NAME="interop")
    until("oteltap listens", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
    up = subprocess.Popen([bulkhead, "up", "--policy", policy, "--data-dir", folder / "data", "--ready-file", ready,
                           "--listen", "127.0.0.1:0", "--dashboard", "127.0.0.1:0", "--admin", "127.0.0.1:0"],
                          env=env, stderr=open(folder / "log", "w"))
    try:
        until("bulkhead is ready", ready.exists)
        where = json.loads(ready.read_text())
        url = f"http://{where['gateway'][0]}"
        holder = threading.Thread(target=get, args=(f"{url}/hold", SERVED))
        holder.start()
        until("the origin holds a request", lambda: Origin.contexts)
        assert get(f"{url}/no", REFUSED) == 503, "the compartment has one slot"
        Origin.go.set()
        holder.join()
        request = urllib.request.Request(f"http://{where['dashboard']}/api/v1/policy",
                                         headers={"authorization": f"Bearer {TOKEN}"})
        assert urllib.request.urlopen(request, timeout=10).status == 200
        text = lambda: "".join(lines)
        wanted = {
            "server and client span of the served request": lambda: text().count(SERVED) >= 2,
            "span and log event of the refused one": lambda: text().count(REFUSED) >= 2,
            "the log event's name": lambda: "bulkhead.request.rejected" in text(),
            "the policy's log event": lambda: "bulkhead.policy.applied" in text(),
            "the gateway's instruments": lambda: "bulkhead.compartment.permit.hold.duration" in text(),
            "the control plane's instruments": lambda: "bulkhead.control.gateways" in text(),
            "the control plane's span": lambda: "GET /api/v1/policy" in text(),
            "durations by the conventions": lambda: "http.client.request.duration" in text(),
        }
        for what, is_so in wanted.items():
            until(what, is_so)
        sent = Origin.contexts[0]
        assert sent.startswith(f"00-{SERVED}-") and sent.endswith("-01"), sent
        until("the origin's parent is the span that was sent", lambda: sent.split("-")[2] in text())
        began = time.monotonic()
        up.send_signal(signal.SIGTERM)
        assert up.wait(20) == 0
        print(f"ok: {len(lines)} records; ended after {time.monotonic() - began:.1f} s")
        (folder / "records.ndjson").write_text(text())
        print(folder / "records.ndjson")
    except BaseException:
        print((folder / "log").read_text()[-3000:], "".join(lines)[-3000:], sep="\n", file=sys.stderr)
        raise
    finally:
        for process in (up, tap):
            process.kill()


main()
