#!/usr/bin/env python3
"""docker-compose.yml without an engine: its form is checked, and what it runs runs as processes.

Every `bulkhead` service is started with its own command and environment; names of services become
loopback ports, volumes become folders, and the database is the one that BULKHEAD_TEST_POSTGRES
names. Then both gateways serve, a change through either control plane reaches both, one control
plane is killed, and with the other pages, stream, changes and the work of the one that leads go
on; the killed one comes back. Usage: .ci/postgres with deploy/topology.py BIN
"""
import json
import os
import re
import shutil
import signal
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
          "BULKHEAD_DATABASE_PASSWORD": "unused-where-all-are-trusted", "BULKHEAD_ALERT_WEBHOOK": "", "BULKHEAD_ALERT_SECRET": ""}
SERVICE_KEYS = {"build", "image", "command", "environment", "ports", "volumes", "healthcheck",
                "read_only", "cap_drop", "security_opt", "restart", "depends_on", "secrets"}
PLANES = ("control-plane-a", "control-plane-b")
GATEWAYS = ("gateway-a", "gateway-b")
OURS = PLANES + GATEWAYS
DATABASE = "postgres://bulkhead@postgres:5432/bulkhead?sslmode=disable"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_form(compose):
    """What an engine would refuse, and what we promise of our containers."""
    assert set(compose) - {"x-bulkhead", "x-control-plane", "x-gateway"} == {
        "services", "volumes", "secrets"}, set(compose)
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
        for secret in service.get("secrets", []):
            assert secret in compose["secrets"], f"{name}: no secret {secret}"
    postgres = environment(services["postgres"])
    for name in PLANES:
        assert f"--database-url={DATABASE}" in services[name]["command"], name
        assert postgres["POSTGRES_USER"] == postgres["POSTGRES_DB"] == "bulkhead"
        assert postgres["POSTGRES_PASSWORD"] == environment(services[name])["PGPASSWORD"], name
    for name in GATEWAYS:
        dialled = {p.split("=")[1] for p in services[name]["command"] if p.startswith("--control-plane=")}
        assert dialled == {f"http://{plane}:8081" for plane in PLANES}, f"{name} dials {dialled}"
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
        self.binary, self.folder, self.children = binary, folder, {}
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
        text = text.replace(DATABASE, os.environ["BULKHEAD_TEST_POSTGRES"])
        host = r"(control-plane-[ab]|shop|recommender):(\d+)"
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
        log = open(os.path.join(self.folder, f"{name}.log"), "a")
        child = subprocess.Popen([self.binary, *command], stdout=log, stderr=log,
                                 cwd=self.folder, env={**os.environ, **environment(service)})
        self.children[name] = child

    def healthy(self, name):
        test = self.services[name]["healthcheck"]["test"]
        assert test[:2] == ["CMD", "bulkhead"], test
        command = [re.sub(r"127\.0\.0\.1:(\d+)", lambda m: f"127.0.0.1:{self.port(name, m[1])}", part)
                   for part in test[2:]]
        return subprocess.run([self.binary, *command], capture_output=True).returncode == 0

    def until(self, what, probe, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name, child in self.children.items():
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

    def kill(self, name):
        child = self.children.pop(name)
        child.send_signal(signal.SIGKILL)
        child.wait()

    def dashboard(self, plane):
        return f"http://127.0.0.1:{self.port(plane, 8081)}"

    def leads(self, plane):
        return "\nbulkhead_control_leads 1\n" in self.ask(f"{self.dashboard(plane)}/metrics").decode()

    def change(self, plane, limit):
        """A change through this control plane; every gateway runs it, by its own word."""
        key = f"{self.dashboard(plane)}/api/v1/compartments/route%2Fshop"
        answer = json.loads(self.ask(key, "PATCH", json.dumps({"limit": limit}).encode()))

        def in_force(name):
            admin = f"http://127.0.0.1:{self.port(name, 9901)}"
            policy = json.loads(self.ask(f"{admin}/policy"))
            metrics = self.ask(f"{admin}/metrics").decode().splitlines()
            line = 'bulkhead_compartment_limit{bulkhead_compartment="route/shop"'
            limits = {m.split()[-1] for m in metrics if m.startswith(line)}
            return policy["generation"] == answer["generation"] and limits == {str(limit)}
        self.until(f"both run the change of {plane}", lambda: all(map(in_force, GATEWAYS)))

    def shows_all(self, plane):
        def all_run():
            gateways = json.loads(self.ask(f"{self.dashboard(plane)}/api/v1/gateways"))
            return [g["id"] for g in gateways if g["state"] == "running" and g["reporting"]] == [*GATEWAYS]
        self.until(f"{plane} shows both gateways", all_run)
        page = self.ask(f"{self.dashboard(plane)}/gateways").decode()
        assert all(name in page for name in GATEWAYS), page

    def serve(self):
        for name in GATEWAYS:
            for path in ("/", "/recommendations"):
                url = f"http://127.0.0.1:{self.port(name, 8080)}{path}"
                assert self.ask(url) == b"ok", url

    def stop(self):
        for child in reversed(self.children.values()):
            child.terminate()
        for child in self.children.values():
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()


class Events(threading.Thread):
    """The stream of events of one control plane; what it said."""

    def __init__(self, topology, plane):
        super().__init__(daemon=True)
        head = {"authorization": f"Bearer {TOKENS['BULKHEAD_ADMIN_TOKEN']}"}
        request = urllib.request.Request(f"{topology.dashboard(plane)}/api/v1/events", headers=head)
        self.answer, self.lines = urllib.request.urlopen(request, timeout=40), []
        self.start()

    def run(self):
        for line in self.answer:
            self.lines.append(line.decode().strip())


def run(topology):
    for name in OURS:
        topology.start(name)
        topology.until(f"{name} is healthy", lambda: topology.healthy(name))
    topology.serve()
    for limit, plane in enumerate(PLANES, 41):
        topology.change(plane, limit)
        topology.shows_all(plane)
        alerts = json.loads(topology.ask(f"{topology.dashboard(plane)}/api/v1/alerts"))
        assert alerts["alerts"] == [], alerts
    topology.until("one leads", lambda: any(map(topology.leads, PLANES)))
    killed = next(plane for plane in PLANES if topology.leads(plane))
    other = next(plane for plane in PLANES if plane != killed)
    assert not topology.leads(other), "both lead"
    events = Events(topology, other)
    topology.kill(killed)
    topology.serve()
    before = len(events.lines)
    topology.change(other, 43)
    topology.until("the stream goes on", lambda: len(events.lines) > before)
    topology.shows_all(other)
    topology.until("the other leads", lambda: topology.leads(other), 15)
    topology.start(killed)
    topology.until(f"{killed} is back", lambda: topology.healthy(killed))
    topology.change(killed, 44)
    topology.shows_all(killed)
    topology.serve()


def check_prometheus():
    """Both kinds of process are scraped, and Prometheus takes the file and its rules."""
    folder = os.path.join(ROOT, "deploy/prometheus")
    with open(os.path.join(folder, "prometheus.yml")) as text:
        jobs = yaml.safe_load(text)["scrape_configs"]
    targets = {job["job_name"]: job["static_configs"][0]["targets"] for job in jobs}
    assert targets == {"bulkhead": [f"{name}:9901" for name in GATEWAYS],
                       "bulkhead-control": [f"{name}:8081" for name in PLANES]}, targets
    promtool = shutil.which("promtool")
    if promtool is None:
        print("!! prometheus.yml is not checked by promtool: there is none", file=sys.stderr)
        return
    # The secret is where the container has it.
    told = subprocess.run([promtool, "check", "config", "--syntax-only", "prometheus.yml"],
                          cwd=folder, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    told = subprocess.run([promtool, "check", "rules", "bulkhead.rules.yml"], cwd=folder,
                          capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr


def main():
    with open(os.path.join(ROOT, "docker-compose.yml")) as text:
        compose = yaml.safe_load(text)
    check_form(compose)
    check_prometheus()
    with tempfile.TemporaryDirectory() as folder:
        topology = Topology(os.path.abspath(sys.argv[1]), compose, folder)
        try:
            run(topology)
        finally:
            topology.stop()
    print("the topology of docker-compose.yml serves, takes changes and survives a control plane")


if __name__ == "__main__":
    main()
