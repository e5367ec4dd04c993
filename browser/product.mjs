// Starts what the browser tests look at: a scripted upstream and `bulkhead up`, on loopback and free ports.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';

const binary = process.env.BULKHEAD_BIN
  ?? path.resolve(process.env.CARGO_TARGET_DIR ?? path.join('..', 'target'), 'release', 'bulkhead');

/** Asks `probe` until it gives something, or fails after ten seconds. */
export async function eventually(probe, what) {
  const end = Date.now() + 10_000;
  while (Date.now() < end) {
    const seen = await probe();
    if (seen) return seen;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within 10 s: ${what}`);
}

/** One request; `{status, headers, text}`. */
export function ask(address, target, headers = {}) {
  const [host, port] = address.split(':');
  return new Promise((resolve, reject) => {
    const request = http.get({ host, port, path: target, headers, agent: false }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve({
        status: answer.statusCode, headers: answer.headers, text: Buffer.concat(parts).toString(),
      }));
    });
    request.on('error', reject);
  });
}

/** An upstream that holds every request to `/…/hold` until `release()`. */
async function upstream() {
  const held = [];
  const server = http.createServer((request, response) => {
    if (request.url.endsWith('/hold')) held.push(response); else response.end('served');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    held,
    release: () => held.splice(0).forEach((response) => response.end('served late')),
    stop: () => server.closeAllConnections() ?? server.close(),
  };
}

/** The two routes `a` (limit 1) and `b`, and one in shadow. */
const routes = (url) => `schema = 1
[upstreams.main]
endpoints = ["${url}"]
[[routes]]
id = "a"
path = "/a"
upstream = "main"
owner = "a-team"
compartment = { limit = 1 }
[[routes]]
id = "b"
path = "/b"
upstream = "main"
compartment = { limit = 20, reserved = 10, queue = 2, queue_wait = "20ms", stream = { limit = 4 } }
[[routes]]
id = "watched"
path = "/watched"
upstream = "main"
compartment = { limit = 1, mode = "shadow" }
`;

/** The product with the policy that `text` makes of the upstream's URL; stop it with `stop()`. `env` is added to its environment; with `login` people sign in. */
export async function start(env = {}, text = routes, { login = false } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'bulkhead-browser-'));
  const stub = await upstream();
  const policy = path.join(folder, 'policy.toml');
  writeFileSync(policy, text(stub.url));
  const ready = path.join(folder, 'ready.json');
  const log = [];
  const child = spawn(binary, ['up', ...(login ? [] : ['--no-login']), '--policy', policy, '--data-dir', path.join(folder, 'data'),
    '--listen', '127.0.0.1:0', '--dashboard', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--ready-file', ready],
  { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } });
  child.stderr.on('data', (part) => log.push(part));
  const failed = new Promise((_, reject) => child.once('error', reject));
  await Promise.race([failed, eventually(() => existsSync(ready) || child.exitCode !== null, 'a ready file')]);
  if (child.exitCode !== null) throw new Error(`bulkhead ended: ${Buffer.concat(log)}`);
  const { gateway: [gateway], dashboard } = JSON.parse(readFileSync(ready, 'utf8'));
  return {
    gateway, dashboard, stub,
    log: () => Buffer.concat(log).toString(),
    page: (target) => `http://${dashboard}${target}`,
    async stop() {
      stub.release();
      stub.stop();
      if (child.exitCode === null) {
        child.kill('SIGTERM');
        await Promise.race([once(child, 'exit'), new Promise((r) => setTimeout(r, 8000))]);
        if (child.exitCode === null) child.kill('SIGKILL');
      }
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Debian's Chromium, headless; root needs it without a sandbox. */
export const launch = {
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
};
