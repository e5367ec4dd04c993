#!/usr/bin/env python3
"""Bulkhead and nginx (limit_conn) before the same origin, in one run.

    python3 bench/beside_nginx.py [--bin target/release/bulkhead] [--rounds 5] [--seconds 4]

Needs nginx and wrk (Debian packages). Loopback only. Each proxy gets one core (0), load and origin
the other (1). Rounds are interleaved; the medians are printed with their ratio. Only ratios carry
over to another machine.

  proxied   64 kept connections, 64-byte answers: requests/s and CPU seconds for 100,000 requests
  refused   a full compartment (every slot held by a slow call), 64 connections: the same
  refusal   one connection at a full compartment: time to the refusal, p50 and p99
"""
import argparse, json, os, re, shutil, signal, socket, statistics, subprocess, sys, tempfile, time
from pathlib import Path

SLOTS = 64
NGINX = """
worker_processes 1; daemon off; pid {dir}/{name}.pid; error_log {dir}/{name}.err crit;
worker_rlimit_nofile 20000;
events {{ worker_connections 8000; }}
http {{
  access_log off; keepalive_requests {kept}; client_body_temp_path {dir}/{name}-b; proxy_temp_path {dir}/{name}-p;
  fastcgi_temp_path {dir}/{name}-f; uwsgi_temp_path {dir}/{name}-u; scgi_temp_path {dir}/{name}-s;
  {body}
}}
"""
ORIGIN = "server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 '{text}'; }} }}"
PROXY = """
  limit_conn_zone $server_name zone=one:1m; limit_conn_status 503;
  upstream origin {{ server 127.0.0.1:{origin}; keepalive 256; keepalive_requests 100000000; }}
  upstream slow {{ server 127.0.0.1:{slow}; keepalive 256; }}
  server {{ listen 127.0.0.1:{port} backlog=4096; server_name a;
    location /fast {{ limit_conn one 1000; proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    location /full {{ limit_conn one {slots}; proxy_pass http://slow; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_read_timeout 300s; }}
  }}
"""
POLICY = """
schema = 1
[gateway]
capacity = 2000
[upstreams.origin]
endpoints = ["http://127.0.0.1:{origin}"]
limit = 1000
[upstreams.slow]
endpoints = ["http://127.0.0.1:{slow}"]
[[routes]]
id = "fast"
path = "/fast"
upstream = "origin"
[routes.compartment]
limit = 1000
[[routes]]
id = "full"
path = "/full"
upstream = "slow"
[routes.compartment]
limit = {slots}
max_hold = "10m"
[routes.timeout]
attempt = "10m"
total = "10m"
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pinned(core, argv, **kw):
    return subprocess.Popen(["taskset", "-c", str(core), *map(str, argv)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, **kw)


def family(pid):
    kids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *[p for k in kids for p in family(int(k))]]


def cpu_seconds(pid):
    ticks = 0
    for p in family(pid):
        f = Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(f[11]) + int(f[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_for(port):
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"nothing listens on {port}")


def wrk(port, path, seconds, connections=64):
    out = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency",
                          f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True).stdout
    total = int(re.search(r"(\d+) requests in", out)[1])
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    return total, int(bad[1]) if bad else 0, float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])


def loaded(port, pid, path, seconds, want_refused):
    before = cpu_seconds(pid)
    total, bad, rate = wrk(port, path, seconds)
    cpu = (cpu_seconds(pid) - before) / total * 100_000
    expected = total if want_refused else 0
    if bad != expected:
        print(f"  note: {bad} of {total} answers to {path} were not 2xx", file=sys.stderr)
    return rate, cpu


def ask(s, path):
    start = time.perf_counter()
    s.sendall(b"GET %s HTTP/1.1\r\nhost: a\r\n\r\n" % path.encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += s.recv(65536)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])
    while len(rest) < length:
        rest += s.recv(65536)
    return int(head.split()[1]), (time.perf_counter() - start) * 1000, b"close" in head.lower()


def refusals(port, count=2000):
    times, s = [], socket.create_connection(("127.0.0.1", port))
    for _ in range(count):
        status, ms, closes = ask(s, "/full")
        assert status == 503, status
        times.append(ms)
        if closes:
            s = socket.create_connection(("127.0.0.1", port))
        time.sleep(0.0005)
    times.sort()
    return times[len(times) // 2], times[int(len(times) * 0.99)]


def fill(port):
    held = []
    for _ in range(SLOTS):
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(b"GET /full HTTP/1.1\r\nhost: a\r\n\r\n")
        held.append(s)
    time.sleep(0.5)
    return held


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", default="target/release/bulkhead")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=int, default=4)
    a = ap.parse_args()
    for tool in ("nginx", "wrk", "taskset"):
        shutil.which(tool) or sys.exit(f"{tool} is not installed")
    folder, running = Path(tempfile.mkdtemp(prefix="beside-")), []
    os.chmod(folder, 0o755)
    slow = socket.socket()                        # accepts into its backlog and never answers
    slow.bind(("127.0.0.1", 0))
    slow.listen(4096)
    ports = {"origin": free_port(), "port": free_port(), "bulkhead": free_port(), "slow": slow.getsockname()[1]}
    try:
        for name, core, body in (("origin", 1, ORIGIN.format(port=ports["origin"], text="x" * 64)),
                                 ("proxy", 0, PROXY.format(slots=SLOTS, **ports))):
            (folder / f"{name}.conf").write_text(NGINX.format(dir=folder, name=name, body=body, kept=1000 if name == "proxy" else 10**8))
            running.append(pinned(core, ["nginx", "-p", folder, "-c", folder / f"{name}.conf"]))
        (folder / "policy.toml").write_text(POLICY.format(slots=SLOTS, **ports))
        running.append(pinned(0, [Path(a.bin).resolve(), "gateway", "--policy", folder / "policy.toml", "--workers", "1",
                                  "--listen", f"127.0.0.1:{ports['bulkhead']}", "--admin", "127.0.0.1:0"]))
        peers = {"nginx": (ports["port"], running[1].pid), "bulkhead": (ports["bulkhead"], running[2].pid)}
        for port in (ports["origin"], *[p for p, _ in peers.values()]):
            wait_for(port)
        time.sleep(0.5)
        seen = {(n, k): [] for n in peers for k in ("proxied", "refused")}
        for _ in range(a.rounds):
            for name, (port, pid) in peers.items():
                seen[name, "proxied"].append(loaded(port, pid, "/fast", a.seconds, False))
        held, single = [], {}
        for name, (port, _) in peers.items():
            held += fill(port)
        for _ in range(a.rounds):
            for name, (port, pid) in peers.items():
                seen[name, "refused"].append(loaded(port, pid, "/full", a.seconds, True))
        for name, (port, _) in peers.items():
            single[name] = refusals(port)
        report(seen, single)
    finally:
        for p in reversed(running):
            for pid in reversed(family(p.pid)) if p.poll() is None else []:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            p.wait(5)
        shutil.rmtree(folder, ignore_errors=True)


def report(seen, single):
    result = {}
    for kind in ("proxied", "refused"):
        med = {n: [statistics.median(x) for x in zip(*seen[n, kind])] for n in ("nginx", "bulkhead")}
        result[kind] = {n: {"per_s": round(r), "cpu_s_per_100k": round(c, 2)} for n, (r, c) in med.items()}
        result[kind]["ratio"] = {"per_s": round(med["bulkhead"][0] / med["nginx"][0], 2),
                                 "cpu": round(med["bulkhead"][1] / med["nginx"][1], 2)}
    result["refusal_ms"] = {n: {"p50": round(a, 3), "p99": round(b, 3)} for n, (a, b) in single.items()}
    print(json.dumps(result, indent=2))


main()
