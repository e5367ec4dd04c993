"""WebSocket and event streams through the gateway, with the client and the server that people use (websockets)."""
import http.client, http.server, os, threading, time, unittest

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve

from product import Count, Product, eventually

POLICY = """
schema = 1
[upstreams.ws]
endpoints = ["http://127.0.0.1:{ws}"]
[upstreams.events]
endpoints = ["http://127.0.0.1:{events}"]
[[routes]]
id = "chat"
path = "/chat"
upstream = "ws"
compartment = {{ limit = 1, stream = {{ limit = 5, idle = "30s", max_age = "1h" }} }}
timeout = {{ total = "500ms", body_idle = "300ms" }}
[[routes]]
id = "idle"
path = "/idle"
upstream = "ws"
compartment = {{ limit = 1, stream = {{ limit = 5, idle = "700ms" }} }}
[[routes]]
id = "age"
path = "/age"
upstream = "ws"
compartment = {{ limit = 1, stream = {{ limit = 5, max_age = "700ms" }} }}
[[routes]]
id = "events"
path = "/events"
upstream = "events"
compartment = {{ limit = 1, stream = {{ limit = 2, idle = "30s" }} }}
timeout = {{ total = "500ms", body_idle = "300ms" }}
"""


class Events(http.server.BaseHTTPRequestHandler):
    """One event at once, one for each tenth of a second, until the other side leaves."""

    count, protocol_version = Count(), "HTTP/1.1"

    def do_GET(self):
        with self.count:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"d\r\ndata: first\n\n\r\n")
                    time.sleep(0.1)
            except OSError:
                self.close_connection = True

    def log_message(self, *_):
        pass


class WebSocket(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.count, cls.codes = Count(), []
        cls.server = serve(cls.handle, "127.0.0.1", 0, max_size=None, compression=None)
        cls.events = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Events)
        for server in (cls.server, cls.events):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        ports = {"ws": cls.server.socket.getsockname()[1], "events": cls.events.server_address[1]}
        cls.product = Product(os.environ["BULKHEAD"], POLICY.format(**ports))

    @classmethod
    def tearDownClass(cls):
        cls.product.stop()

    @classmethod
    def handle(cls, connection):
        with cls.count:
            try:
                for message in connection:
                    if message == "close":
                        connection.close(4001, "as asked")
                    else:
                        connection.send(message)
            except ConnectionClosed:
                pass
        cls.codes.append(connection.close_code)

    def tearDown(self):
        for route in ("chat", "idle", "age", "events"):
            self.product.in_flight(f"route/{route}/stream", 0)
            figures = self.product.figures(f"route/{route}/stream")
            self.assertEqual(figures["admitted"], figures["completed"], route)

    def opened(self):
        """One that is closed after the test."""
        return self.enterContext(self.open())

    def open(self, path="/chat", **more):
        return connect(f"ws://{self.product.gateway}{path}", max_size=None, close_timeout=2, **more)

    def refused(self, path="/chat"):
        with self.assertRaises(InvalidStatus) as caught:
            self.open(path)
        answer = caught.exception.response
        return answer.status_code, answer.headers["x-bulkhead-reason"], answer.headers["x-bulkhead-compartment"]

    def test_text_bytes_pings_and_close_codes(self):
        with self.open() as client:
            client.send("grüße")
            self.assertEqual(client.recv(5), "grüße")
            client.send(b"\x00\xff" * 1000)
            self.assertEqual(client.recv(5), b"\x00\xff" * 1000)
            self.assertTrue(client.ping().wait(5), "a pong")
            client.send("close")
            with self.assertRaises(ConnectionClosed):
                client.recv(5)
            self.assertEqual((client.close_code, client.close_reason), (4001, "as asked"))
        client = self.opened()
        client.close(4002, "mine")
        eventually("the code at the server", lambda: 4002 in self.codes)

    def test_many_frames_and_large_ones(self):
        with self.open(compression=None) as client:
            sender = threading.Thread(target=lambda: [client.send(str(number)) for number in range(5000)])
            sender.start()
            self.assertEqual([client.recv(10) for _ in range(5000)], [str(number) for number in range(5000)])
            sender.join()
            large = os.urandom(8 << 20)
            client.send(large)
            self.assertTrue(client.recv(20) == large)

    def test_a_stream_outlives_the_bounds_of_calls(self):
        with self.open() as client:
            time.sleep(1)
            client.send("still")
            self.assertEqual(client.recv(5), "still")

    def test_many_at_once_hold_the_limit(self):
        before, results, barrier = self.count.all, [], threading.Barrier(50)
        hold = threading.Event()

        def one():
            barrier.wait()
            try:
                with self.open():
                    results.append(101)
                    hold.wait(10)
            except InvalidStatus as error:
                results.append(error.response.status_code)
        threads = [threading.Thread(target=one) for _ in range(50)]
        for thread in threads:
            thread.start()
        eventually("all answers", lambda: len(results) == 50)
        self.assertEqual((results.count(101), results.count(503)), (5, 45))
        self.assertEqual((self.count.now, self.count.all - before), (5, 5), "at the server, which is the judge")
        self.assertLessEqual(self.count.peak, 5)
        hold.set()
        for thread in threads:
            thread.join()

    def test_idleness_and_age_end_it(self):
        for path in ("/idle", "/age"):
            start = time.monotonic()
            with self.open(path) as client, self.assertRaises(ConnectionClosed):
                while path == "/age":
                    client.send("tick")
                    client.recv(5)
                client.recv(5)
            self.assertEqual(client.close_code, 1006, path)
            self.assertTrue(0.6 < time.monotonic() - start < 3, path)

    def test_a_lowered_limit_kills_nothing(self):
        key = "route/chat/stream"
        clients = [self.opened() for _ in range(4)]
        self.product.set_limit(key, 2)
        figures = self.product.figures(key)
        self.assertEqual((figures["in_flight"], figures["limit"]), (4, 2), "2 over, draining")
        for client in clients:
            client.send("still here")
            self.assertEqual(client.recv(5), "still here")
        self.assertEqual(self.refused(), (503, "stream_full", key))
        for client in clients[:3]:
            client.close()
        self.product.in_flight(key, 1)
        with self.open() as client:
            client.send("again")
            self.assertEqual(client.recv(5), "again")
        clients[3].close()
        self.product.set_limit(key, 0)
        self.assertEqual(self.refused(), (503, "closed", key))
        self.product.set_limit(key, 5)

    def test_events_come_at_once_and_hold_a_slot(self):
        open_ones = []
        for accept in ("text/event-stream", "*/*"):
            client = http.client.HTTPConnection(self.product.gateway, timeout=5)
            start = time.monotonic()
            client.request("GET", "/events", headers={"accept": accept})
            answer = client.getresponse()
            self.assertEqual(answer.readline(), b"data: first\n")
            self.assertLess(time.monotonic() - start, 0.5)
            open_ones.append((client, answer))
        self.product.in_flight("route/events/stream", 2)
        self.assertEqual(self.product.figures("route/events")["in_flight"], 0)
        for accept in ("text/event-stream", "*/*"):
            client = http.client.HTTPConnection(self.product.gateway, timeout=5)
            client.request("GET", "/events", headers={"accept": accept})
            answer = client.getresponse()
            self.assertEqual((answer.status, answer.headers["x-bulkhead-reason"]), (503, "stream_full"))
            client.close()
        time.sleep(0.8)
        for client, answer in open_ones:
            self.assertEqual(answer.readline(), b"\n")
            answer.close()
            client.close()
        eventually("the server to be let go", lambda: Events.count.now == 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
