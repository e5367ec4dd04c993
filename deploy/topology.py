#!/usr/bin/env python3
"""docker-compose.yml without an engine: its form is checked, and what it runs runs as processes.

Every `bulkhead` service is started with its own command and environment; names of services become
loopback ports and volumes become folders. Then both gateways serve, one change reaches both, and
the control plane shows both. Usage: topology.py BIN
"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import http.server
import urllib.request

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKENS = {"BULKHEAD_ADMIN_TOKEN": "a" * 40, "BULKHEAD_GATEWAY_TOKEN": "g" * 40,
          "BULKHEAD_ALERT_WEBHOOK": "", "BULKHEAD_ALERT_SECRET": ""}
SERVICE_KEYS = {"build", "image", "command", "environment", "ports", "volumes", "healthcheck",
                "read_only", "cap_drop", "security_opt", "restart", "depends_on"}
OURS = ("control-plane", "gateway-a", "gateway-b")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_form(compose):
    """What an engine would refuse, and what we promise of our containers."""
    assert set(compose) - {"x-bulkhead", "x-gateway"} == {"services", "volumes"}, set(compose)
    services, volumes = compose["services"], compose["volumes"]
    for name, service in services.items():
        unknown = set(service) - SERVICE_KEYS
        assert not unknown, f"{name}: unknown keys {unknown}"
        assert "image" in service or "build" in service, name
        for other in service.get("depends_on", []):
            assert other in services, f"{name} depends on {other}"
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), f"{name}: {port} is not on loopback"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert os.path.exists(os.path.join(ROOT, source)), f"{name}: no {source}"
            else:
                assert source in volumes, f"{name}: no volume {source}"
    published = [p for s in services.values() for p in s.get("ports", [])]
    assert len(published) == len({p.rsplit(":", 1)[0] for p in published}), "a port twice"
    for name in OURS:
        service = services[name]
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert os.path.exists(os.path.join(ROOT, service["build"]["dockerfile"])), name
    with open(os.path.join(ROOT, "deploy/Containerfile")) as text:
        lines = text.read()
    assert "USER 65532:65532" in lines and "ENTRYPOINT" in lines


class Upstream(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")


def environment(service):
    def value(text):
        return re.sub(r"\$\{(\w+):[?-][^}]*\}", lambda m: TOKENS[m[1]], text)
    return {name: value(text) for name, text in service.get("environment", {}).items()}


class Topology:
    def __init__(self, binary, compose, folder):
        self.binary, self.folder, self.children = binary, folder, []
        self.services = compose["services"]
        self.ports = {}
        for name in ("shop", "recommender"):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.ports[f"{name}:80"] = server.server_address[1]

    def port(self, name, inside):
        return self.ports.setdefault(f"{name}:{inside}", free_port())

    def here(self, name, text):
        """A text of a container's as it is on this machine."""
        text = re.sub(r"0\.0\.0\.0:(\d+)", lambda m: f"127.0.0.1:{self.port(name, m[1])}", text)
        host = r"(control-plane|shop|recommender):(\d+)"
        text = re.sub(host, lambda m: f"127.0.0.1:{self.port(m[1], m[2])}", text)
        return text.replace("/data", os.path.join(self.folder, name))

    def start(self, name):
        service = self.services[name]
        os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        policy = os.path.join(self.folder, "policy.toml")
        with open(os.path.join(ROOT, "deploy/policy.toml")) as text, open(policy, "w") as out:
            out.write(self.here(name, text.read()))
        command = [self.here(name, part).replace("/etc/bulkhead/policy.toml", policy)
                   for part in service["command"]]
        log = open(os.path.join(self.folder, f"{name}.log"), "w")
        child = subprocess.Popen([self.binary, *command], stdout=log, stderr=log,
                                 cwd=self.folder, env={**os.environ, **environment(service)})
        self.children.append((name, child))

    def healthy(self, name):
        test = self.services[name]["healthcheck"]["test"]
        assert test[:2] == ["CMD", "bulkhead"], test
        command = [re.sub(r"127\.0\.0\.1:(\d+)", lambda m: f"127.0.0.1:{self.port(name, m[1])}", part)
                   for part in test[2:]]
        return subprocess.run([self.binary, *command], capture_output=True).returncode == 0

    def until(self, what, probe, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name, child in self.children:
                if child.poll() is not None:
                    log = open(os.path.join(self.folder, f"{name}.log")).read()
                    raise SystemExit(f"{name} ended with {child.returncode}\n{log[-2000:]}")
            if probe():
                return
            time.sleep(0.1)
        raise SystemExit(f"not within {seconds} s: {what}")

    def ask(self, url, method="GET", body=None):
        head = {"authorization": f"Bearer {TOKENS['BULKHEAD_ADMIN_TOKEN']}",
                "content-type": "application/json"}
        request = urllib.request.Request(url, method=method, data=body, headers=head)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read()

    def stop(self):
        for _, child in reversed(self.children):
            child.terminate()
        for _, child in self.children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()


def run(topology):
    for name in OURS:
        topology.start(name)
        topology.until(f"{name} is healthy", lambda: topology.healthy(name))
    api = f"http://127.0.0.1:{topology.port('control-plane', 8081)}/api/v1"
    for name in ("gateway-a", "gateway-b"):
        for path in ("/", "/recommendations"):
            url = f"http://127.0.0.1:{topology.port(name, 8080)}{path}"
            assert topology.ask(url) == b"ok", url
    topology.ask(f"{api}/compartments/route%2Fshop", "PATCH", b'{"limit": 41}')

    def both_run_it():
        gateways = json.loads(topology.ask(f"{api}/gateways"))
        return [g["id"] for g in gateways if g["state"] == "running" and g["generation"] == 2] == [
            "gateway-a", "gateway-b"]
    topology.until("both gateways run the change", both_run_it)
    for name in ("gateway-a", "gateway-b"):
        metrics = topology.ask(f"http://127.0.0.1:{topology.port(name, 9901)}/metrics").decode()
        assert 'bulkhead_compartment_limit{bulkhead_compartment="route/shop"' in metrics, metrics
    alerts = json.loads(topology.ask(f"{api}/alerts"))
    assert alerts["alerts"] == [], alerts


def main():
    with open(os.path.join(ROOT, "docker-compose.yml")) as text:
        compose = yaml.safe_load(text)
    check_form(compose)
    with open(os.path.join(ROOT, "deploy/prometheus/prometheus.yml")) as text:
        targets = yaml.safe_load(text)["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == ["gateway-a:9901", "gateway-b:9901"], targets
    with tempfile.TemporaryDirectory() as folder:
        topology = Topology(os.path.abspath(sys.argv[1]), compose, folder)
        try:
            run(topology)
        finally:
            topology.stop()
    print("the topology of docker-compose.yml serves, is healthy and takes a change")


if __name__ == "__main__":
    main()
