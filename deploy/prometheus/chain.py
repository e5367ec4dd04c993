#!/usr/bin/env python3
"""From a gateway under load to a webhook: Prometheus scrapes, a rule fires, Alertmanager tells.

The rules are those beside this file with every window a tenth as long. Everything listens on
loopback, in a folder of its own, and is ended by its process id. Usage: chain.py BIN
"""
import http.server
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
FIRED_S_MAX, RESOLVED_S_MAX = 60, 100
CALLERS = 8


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def shortened(text):
    """Every window a tenth, evaluated each second."""
    tenth = {"2m": "12s", "90s": "9s", "5m": "30s", "1h": "6m"}
    text = re.sub(r"\[(2m|90s|5m|1h)\]", lambda m: f"[{tenth[m[1]]}]", text)
    return text.replace("interval: 15s", "interval: 1s").replace("for: 5m", "for: 30s")


class Quiet(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status=200):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


def serve(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


class Chain:
    def __init__(self, binary, folder):
        self.folder, self.children, self.notices = folder, [], []
        self.loading = False
        self.upstream = serve(self.slow_upstream())
        self.receiver = serve(self.webhook())
        self.ready = os.path.join(folder, "ready.json")
        policy = self.write("policy.toml", f"""schema = 1
[upstreams.main]
endpoints = ["http://127.0.0.1:{self.upstream}"]
[[routes]]
id = "a"
path = "/"
upstream = "main"
[routes.compartment]
limit = 2
""")
        self.start("gateway", [binary, "gateway", "--policy", policy, "--listen", "127.0.0.1:0",
                               "--admin", "127.0.0.1:0", "--ready-file", self.ready])
        self.until("the gateway serves", 30, lambda: os.path.exists(self.ready))
        ready = json.load(open(self.ready))
        self.gateway = ready["gateway"][0] if isinstance(ready["gateway"], list) else ready["gateway"]
        self.admin = ready["admin"]
        self.start_stack()

    def start_stack(self):
        with open(os.path.join(HERE, "bulkhead.rules.yml")) as rules:
            self.write("bulkhead.rules.yml", shortened(rules.read()))
        manager, metrics = free_port(), free_port()
        config = self.write("alertmanager.yml", f"""route:
  receiver: webhook
  group_by: [alertname, bulkhead_compartment]
  group_wait: 1s
  group_interval: 2s
  repeat_interval: 1h
receivers:
  - name: webhook
    webhook_configs:
      - url: http://127.0.0.1:{self.receiver}/
        send_resolved: true
""")
        self.start("alertmanager", [
            "prometheus-alertmanager", f"--config.file={config}", "--cluster.listen-address=",
            f"--storage.path={self.folder}/alertmanager",
            f"--web.listen-address=127.0.0.1:{manager}"])
        config = self.write("prometheus.yml", f"""global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: [bulkhead.rules.yml]
scrape_configs:
  - job_name: bulkhead
    static_configs: [{{ targets: ["{self.admin}"] }}]
alerting:
  alertmanagers:
    - static_configs: [{{ targets: ["127.0.0.1:{manager}"] }}]
""")
        self.start("prometheus", [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{metrics}"])
        self.prometheus = f"http://127.0.0.1:{metrics}"
        up = lambda: self.query('up{job="bulkhead"}') == [1.0]
        self.until("Prometheus scrapes the gateway", 40, up)
        saturated = 'bulkhead_compartment_time_seconds_total{state="saturated"}'
        self.until("seconds at the limit are exposed", 10, lambda: self.query(saturated))

    def query(self, expression):
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self.prometheus}/api/v1/query?{query}", timeout=2) as got:
                result = json.load(got)["data"]["result"]
        except OSError:
            return None
        return [float(row["value"][1]) for row in result]

    def slow_upstream(chain):
        class Handler(Quiet):
            def do_GET(self):
                time.sleep(0.2)
                self.answer()
        return Handler

    def webhook(chain):
        class Handler(Quiet):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                chain.notices.append(json.loads(body))
                self.answer()
        return Handler

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def start(self, name, command):
        log = open(os.path.join(self.folder, f"{name}.log"), "w")
        child = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self.children.append((name, child))

    def until(self, what, seconds, probe):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name, child in self.children:
                if child.poll() is not None:
                    raise SystemExit(f"{name} ended with {child.returncode}: {self.log(name)}")
            if probe():
                return
            time.sleep(0.1)
        logs = "\n".join(f"-- {name}\n{self.log(name)}" for name, _ in self.children)
        raise SystemExit(f"not within {seconds} s: {what}\n{logs}\nnotices: {self.notices}")

    def log(self, name):
        with open(os.path.join(self.folder, f"{name}.log")) as log:
            return "".join(log.readlines()[-15:])

    def call(self, pause_s):
        """One caller, until the load ends."""
        while self.loading:
            try:
                urllib.request.urlopen(f"http://{self.gateway}/", timeout=5).read()
            except OSError:
                pass
            time.sleep(pause_s)

    def load(self, callers, pause_s):
        self.loading = True
        threads = [threading.Thread(target=self.call, args=(pause_s,)) for _ in range(callers)]
        for thread in threads:
            thread.start()
        return threads

    def unload(self, threads):
        self.loading = False
        for thread in threads:
            thread.join()

    def seen(self, status, name="BulkheadCompartmentRefusing"):
        return [alert for notice in self.notices for alert in notice["alerts"]
                if alert["status"] == status and alert["labels"]["alertname"] == name
                and alert["labels"]["bulkhead_compartment"] == "route/a"]

    def stop(self):
        for _, child in reversed(self.children):
            child.terminate()
        for _, child in self.children:
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()


def main():
    binary = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        chain = Chain(binary, folder)
        try:
            run(chain)
        finally:
            chain.stop()


def run(chain):
    calm = chain.load(1, 0.2)
    time.sleep(5)
    assert not chain.seen("firing"), f"calm traffic fired: {chain.notices}"
    chain.unload(calm)
    began = time.monotonic()
    full = chain.load(CALLERS, 0.02)
    chain.until("the webhook is told", FIRED_S_MAX, lambda: chain.seen("firing"))
    fired = time.monotonic() - began
    alert = chain.seen("firing")[0]
    assert alert["labels"]["severity"] == "page", alert
    assert "route/a keeps refusing requests" in alert["annotations"]["summary"], alert
    chain.unload(full)
    calm, ended = chain.load(1, 0.2), time.monotonic()
    chain.until("the end is told", RESOLVED_S_MAX, lambda: chain.seen("resolved"))
    chain.unload(calm)
    pages = {(a["fingerprint"], a["startsAt"]) for a in chain.seen("firing")}
    assert len(pages) == 1, f"one page, not {pages}"
    print(f"fired after {fired:.0f} s, resolved {time.monotonic() - ended:.0f} s after the end")


if __name__ == "__main__":
    main()
