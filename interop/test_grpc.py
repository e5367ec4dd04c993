"""gRPC through the gateway, with the client and the server that people use (grpcio)."""
import os, threading, time, unittest
from concurrent import futures

import grpc

from product import Count, Product, eventually

POLICY = """
schema = 1
[gateway]
capacity = 400
[identify]
by = [{{ header = {{ name = "x-tenant-id", trust = ["127.0.0.0/8"] }} }}]
unknown = "shared"
unknown_limit = 400
[tenants.small]
limit = 1
[upstreams.rpc]
endpoints = ["http://127.0.0.1:{port}"]
http2 = true
[[routes]]
id = "streams"
path = "/t.Streams"
upstream = "rpc"
compartment = {{ limit = 2, stream = {{ limit = 4, idle = "1500ms", max_age = "1h", grpc = true }} }}
[[routes]]
id = "short"
path = "/t.Short"
upstream = "rpc"
compartment = {{ limit = 1, stream = {{ limit = 200, max_age = "1s", grpc = true }} }}
[[routes]]
id = "calls"
path = "/t.Calls"
upstream = "rpc"
compartment = {{ limit = 300, reserved = 0, max_hold = "5s" }}
[[routes]]
id = "one"
path = "/t.One"
upstream = "rpc"
compartment = {{ limit = 1 }}
"""


class Server:
    """Does what the method says; counts who is inside."""

    def __init__(self):
        self.count, self.gone, self.gate, self.seen = Count(), threading.Event(), threading.Event(), []
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods = {"Echo": unary(self.echo), "Fail": unary(self.fail), "Hold": unary(self.hold),
                   "Many": stream(self.many), "Silent": stream(self.silent),
                   "Sum": grpc.stream_unary_rpc_method_handler(self.sum),
                   "Talk": grpc.stream_stream_rpc_method_handler(self.talk)}
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_concurrent_streams", 20)]
        self.server = grpc.server(futures.ThreadPoolExecutor(400), options=options)
        for service in ("Streams", "Short", "Calls", "One"):
            self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t." + service, methods),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def _enter(self, context):
        self.seen.append(dict(context.invocation_metadata()))
        context.add_callback(self.gone.set)

    def echo(self, request, context):
        self._enter(context)
        context.send_initial_metadata((("x-first", "1"),))
        context.set_trailing_metadata((("x-last", "2"), ("x-bulkhead-reason", "fake")))
        return request

    def fail(self, request, context):
        context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")

    def hold(self, request, context):
        self._enter(context)
        with self.count:
            self.gate.wait(5)
        return request

    def many(self, request, context):
        self._enter(context)
        for number in range(int(request)):
            yield str(number).encode() * 500

    def silent(self, request, context):
        self._enter(context)
        with self.count:
            yield b"first"
            while context.is_active():
                time.sleep(0.005)

    def sum(self, requests, context):
        self._enter(context)
        return str(sum(int(one) for one in requests)).encode()

    def talk(self, requests, context):
        self._enter(context)
        with self.count:
            for one in requests:
                yield one + b"!"


class Requests:
    """A request stream that says one thing when it is told."""

    def __init__(self):
        self._there, self._next, self._over = threading.Condition(), [], False

    def say(self, text):
        with self._there:
            self._next.append(text)
            self._there.notify()

    def end(self):
        with self._there:
            self._over = True
            self._there.notify()

    def __iter__(self):
        return self

    def __next__(self):
        with self._there:
            self._there.wait_for(lambda: self._next or self._over, 30)
            if self._next:
                return self._next.pop(0)
            raise StopIteration


class Grpc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.product = Product(os.environ["BULKHEAD"], POLICY.format(port=cls.server.port))

    @classmethod
    def tearDownClass(cls):
        cls.product.stop()
        cls.server.server.stop(0)

    def setUp(self):
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(self.product.gateway, options=options)
        self.server.gone.clear()
        self.server.gate.clear()

    def tearDown(self):
        self.server.gate.set()
        self.channel.close()
        for key in ("route/streams/stream", "route/short/stream", "route/calls", "route/one", "upstream/rpc"):
            self.product.in_flight(key, 0)
            figures = self.product.figures(key)
            self.assertEqual(figures["admitted"], figures["completed"], key)

    def unary(self, path, request=b"x", **more):
        return self.channel.unary_unary(path)(request, timeout=more.pop("timeout", 10), **more)

    def talk(self, path="/t.Streams/Talk", **more):
        requests = Requests()
        return requests, self.channel.stream_stream(path)(requests, **more)

    def refused(self, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        error = caught.exception
        fields = {**dict(error.initial_metadata() or ()), **dict(error.trailing_metadata() or ())}
        return error.code(), error.details(), fields.get("x-bulkhead-compartment")

    def test_unary_with_fields_and_trailers(self):
        answer, call = self.channel.unary_unary("/t.Calls/Echo").with_call(b"hello", metadata=[("x-mine", "3")])
        self.assertEqual(answer, b"hello")
        self.assertEqual(dict(call.initial_metadata())["x-first"], "1")
        trailers = dict(call.trailing_metadata())
        self.assertEqual((trailers["x-last"], trailers.get("x-bulkhead-reason")), ("2", None))
        seen = self.server.seen[-1]
        self.assertEqual((seen["x-mine"], "x-request-id" in seen), ("3", True))

    def test_a_server_that_streams(self):
        answers = list(self.channel.unary_stream("/t.Streams/Many")(b"2000"))
        self.assertEqual(answers, [str(number).encode() * 500 for number in range(2000)])

    def test_a_client_that_streams(self):
        answer = self.channel.stream_unary("/t.Streams/Sum")(str(number).encode() for number in range(1000))
        self.assertEqual(answer, b"499500")

    def test_both_at_once_without_a_buffer_between(self):
        requests, answers = self.talk()
        for number in range(100):
            requests.say(b"%d" % number)
            self.assertEqual(next(answers), b"%d!" % number)
        requests.end()
        self.assertEqual(list(answers), [])
        self.assertEqual(answers.code(), grpc.StatusCode.OK)

    def test_large_messages_both_ways(self):
        large = os.urandom(5 << 20)
        self.assertTrue(self.unary("/t.Calls/Echo", large, timeout=30) == large)

    def test_a_status_of_the_server_is_passed_on_as_it_is(self):
        code, details, compartment = self.refused(lambda: self.unary("/t.Calls/Fail"))
        self.assertEqual((code, details, compartment), (grpc.StatusCode.NOT_FOUND, "no such thing", None))

    def test_a_deadline_ends_the_call_at_the_server_too(self):
        start = time.monotonic()
        code, _, _ = self.refused(lambda: list(self.channel.unary_stream("/t.Streams/Silent")(b"x", timeout=0.4)))
        self.assertEqual(code, grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertLess(time.monotonic() - start, 1.5)
        self.assertTrue(self.server.gone.wait(1))

    def test_a_cancelled_call_is_cancelled_at_the_server(self):
        requests, answers = self.talk()
        requests.say(b"a")
        next(answers)
        self.server.gone.clear()
        start = time.monotonic()
        answers.cancel()
        self.assertTrue(self.server.gone.wait(1))
        print(f"cancel to cancelled at the server: {(time.monotonic() - start) * 1000:.1f} ms")
        self.product.in_flight("route/streams/stream", 0, 1)
        requests.end()

    def test_streams_hold_their_slots_and_the_next_one_is_unavailable(self):
        talks = [self.talk() for _ in range(4)]
        for requests, answers in talks:
            requests.say(b"a")
            self.assertEqual(next(answers), b"a!")
        self.assertEqual(self.product.figures("route/streams/stream")["in_flight"], 4)
        self.assertEqual(self.product.figures("route/streams")["in_flight"], 0)
        want = (grpc.StatusCode.UNAVAILABLE, "stream_full", "route/streams/stream")
        self.assertEqual(self.refused(lambda: self.unary("/t.Streams/Echo")), want)
        self.assertEqual(self.server.count.now, 4)
        for requests, _ in talks:
            requests.end()
        for _, answers in talks:
            self.assertEqual(list(answers), [])
        self.assertEqual(self.unary("/t.Streams/Echo"), b"x")

    def test_other_routes_refuse_in_grpcs_own_words_too(self):
        with futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(self.unary, "/t.One/Hold")
            self.product.in_flight("route/one", 1)
            want = (grpc.StatusCode.UNAVAILABLE, "route_full", "route/one")
            self.assertEqual(self.refused(lambda: self.unary("/t.One/Echo")), want)
            self.server.gate.set()
            self.assertEqual(first.result(), b"x")
        code, details, _ = self.refused(lambda: self.unary("/nowhere/Echo"))
        self.assertEqual((code, details), (grpc.StatusCode.UNIMPLEMENTED, "no_route"))

    def test_a_tenant_that_is_full_is_exhausted(self):
        as_small = [("x-tenant-id", "small")]
        with futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(self.unary, "/t.Calls/Hold", metadata=as_small)
            self.product.in_flight("tenant/small", 1)
            want = (grpc.StatusCode.RESOURCE_EXHAUSTED, "tenant_full", "tenant/small")
            self.assertEqual(self.refused(lambda: self.unary("/t.Calls/Echo", metadata=as_small)), want)
            self.server.gate.set()
            first.result()

    def test_silence_and_age_end_a_stream(self):
        for path, reason, least, most in (("/t.Streams/Silent", "stream_idle", 1.3, 4), ("/t.Short/Talk", "stream_age", 0.9, 3)):
            start = time.monotonic()
            if reason == "stream_idle":
                answers = self.channel.unary_stream(path)(b"x")
                call = lambda: list(answers)
            else:
                requests, answers = self.talk(path)

                def call():
                    while True:
                        requests.say(b"a")
                        next(answers)
                        time.sleep(0.05)
            code, details, _ = self.refused(call)
            self.assertEqual((code, details), (grpc.StatusCode.UNAVAILABLE, reason))
            self.assertTrue(least < time.monotonic() - start < most, f"{reason}: {time.monotonic() - start}")

    def test_a_burst_opens_as_many_connections_as_the_server_asks_for(self):
        before = self.server.count.all
        with futures.ThreadPoolExecutor(90) as pool:
            calls = [pool.submit(self.unary, "/t.Calls/Hold", timeout=30) for _ in range(90)]
            # The server allows 20 streams on a connection.
            eventually("90 at the server", lambda: self.server.count.now == 90)
            self.server.gate.set()
            self.assertEqual([call.result() for call in calls], [b"x"] * 90)
        self.assertEqual(self.server.count.all - before, 90)


if __name__ == "__main__":
    unittest.main(verbosity=2)
