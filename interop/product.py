"""A whole product before servers of the real libraries: started, asked, stopped. Loopback only, every wait bounded."""
import atexit, http.client, json, os, signal, subprocess, tempfile, threading, time
from urllib.parse import quote

PATIENCE_S = 10


def eventually(what, probe, seconds=PATIENCE_S):
    """Waits until probe() is true and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = probe()
        if seen:
            return seen
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what}")


class Count:
    """How many are inside, and the most there ever were. The servers' own judge."""

    def __init__(self):
        self._lock, self.now, self.peak, self.all = threading.Lock(), 0, 0, 0

    def __enter__(self):
        with self._lock:
            self.now, self.all = self.now + 1, self.all + 1
            self.peak = max(self.peak, self.now)

    def __exit__(self, *_):
        with self._lock:
            self.now -= 1


class Product:
    """`bulkhead up` with this policy."""

    def __init__(self, binary, policy):
        self._dir = tempfile.TemporaryDirectory()
        path = lambda name: os.path.join(self._dir.name, name)
        with open(path("policy.toml"), "w") as file:
            file.write(policy)
        self._log = open(path("log"), "w+")
        command = [binary, "up", "--listen", "127.0.0.1:0", "--dashboard", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                   "--no-login", "--data-dir", path("data"), "--policy", path("policy.toml"),
                   "--ready-file", path("ready"), "--drain-timeout", "1s"]
        self._process = subprocess.Popen(command, stderr=self._log, stdout=self._log)
        atexit.register(self.stop)
        eventually("the product to be ready", lambda: self._is_ready(path("ready")), 30)
        with open(path("ready")) as file:
            ready = json.load(file)
        self.gateway, self.dashboard, self.admin = ready["gateway"][0], ready["dashboard"], ready["admin"]

    def _is_ready(self, path):
        if self._process.poll() is not None:
            self._log.seek(0)
            raise AssertionError("it ended: " + self._log.read())
        return os.path.exists(path)

    def stop(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def ask(self, at, method, path, body=None):
        connection = http.client.HTTPConnection(at, timeout=PATIENCE_S)
        headers = {"content-type": "application/json"} if body else {}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status < 400, f"{method} {path}: {answer.status} {text!r}"
        return json.loads(text)

    def figures(self, key):
        """What the gateway says of one compartment."""
        all_of_them = self.ask(self.admin, "GET", "/compartments")["compartments"]
        return next(one for one in all_of_them if one["key"] == key)

    def in_flight(self, key, count, seconds=PATIENCE_S):
        eventually(f"{count} in flight in {key}", lambda: self.figures(key)["in_flight"] == count, seconds)

    def set_limit(self, key, limit):
        """By the API, as an operator does; returns when the gateway has it."""
        body = json.dumps({"limit": limit, "comment": "a test"})
        self.ask(self.dashboard, "PATCH", "/api/v1/compartments/" + quote(key, safe=""), body)
        eventually(f"{key} to have its limit", lambda: self.figures(key)["limit"] == limit)
