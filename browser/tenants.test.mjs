// Tenants in a real browser: the first steps from an empty policy to a request that arrived, keys that
// are shown once, rotated and revoked, a tenant that is suspended and deleted; with and without JavaScript.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { ask, eventually, launch, start } from './product.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let browser;

before(async () => { browser = await chromium.launch(launch); });
after(async () => { await browser?.close(); });

async function open(product, target, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(product.page(target));
  return { page, complaints, close: () => context.close() };
}

async function send(page, form, fields = {}) {
  for (const [name, text] of Object.entries(fields)) {
    const field = page.locator(`${form} [name=${name}]`);
    if (await field.evaluate((one) => one.tagName) === 'SELECT') await field.selectOption(text);
    else await field.fill(text);
  }
  await Promise.all([page.waitForNavigation(), page.click(`${form} button[type=submit]`)]);
}

const key = (text) => ({ 'x-api-key': text });

for (const [how, options] of [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }]]) {
  test(`the first steps lead to a request that arrived, ${how}`, async () => {
    const product = await start({}, () => 'schema = 1\n');
    try {
      const { page, close } = await open(product, '/', options);
      await Promise.all([page.waitForNavigation(), page.click('#welcome')]);
      // What is refused keeps what was typed, at its field.
      await send(page, '#upstream', { id: 'shop', endpoint: 'ftp://nowhere', limit: '40' });
      assert.match(await page.textContent('#w-endpoint-error'), /http/);
      assert.equal(await page.inputValue('#w-id'), 'shop');
      assert.equal(await page.inputValue('#w-limit'), '40');
      await send(page, '#upstream', { endpoint: product.stub.url });
      // It can be left, and gone on with.
      await page.goto(product.page('/compartments'));
      await page.goto(product.page('/welcome'));
      await send(page, '#route', { id: 'all', path: '/', limit: 'many' });
      assert.match(await page.textContent('#w-limit-error'), /many/);
      await send(page, '#route', { limit: '20' });
      await send(page, '#tenant', { id: '<script>', limit: '3' });
      assert.match(await page.textContent('#w-id-error'), /1 to 128/);
      assert.equal(await page.inputValue('#w-id'), '<script>');
      await send(page, '#tenant', { id: 'acme' });
      const made = await page.textContent('#made-key');
      assert.match(made, /^bht_[0-9a-f]{64}$/);
      assert.ok((await page.textContent('#curl')).includes(made));
      assert.match(await page.textContent('#arrived-words'), /Nothing yet|No gateway reports/);
      await eventually(async () => (await ask(product.gateway, '/', key(made))).status === 200, 'let in');
      assert.equal((await ask(product.gateway, '/')).status, 401);
      await eventually(async () => {
        if (options.javaScriptEnabled === false) await page.reload();
        return /arrived/.test(await page.textContent('#arrived-words'));
      }, 'the page says that it arrived');
      await page.reload();
      assert.equal(await page.locator('#made-key').count(), 0, 'a key is shown once');
      await close();
    } finally {
      await product.stop();
    }
  });

  test(`a tenant is made, given keys, suspended and deleted, ${how}`, async () => {
    const product = await start({}, (url) => `schema = 1
identify = { by = [{ api_key = { header = "x-api-key" } }], unknown = "reject" }
plans = { pro = { limit = 5 } }
upstreams = { main = { endpoints = ["${url}"] } }
routes = [{ id = "a", path = "/", upstream = "main", compartment = { limit = 9 } }]
`);
    try {
      const { page, complaints, close } = await open(product, '/tenants', options);
      await send(page, '#new', { id: 'acme', plan: 'pro', limit: '-3' });
      assert.match(await page.textContent('#f-limit-error'), /-3/);
      await send(page, '#new', { limit: '' });
      assert.match(page.url(), /\/tenants\/acme$/);
      await send(page, '#new-key', { label: 'first' });
      const first = await page.textContent('#made-key');
      const address = page.url();
      await eventually(async () => (await ask(product.gateway, '/', key(first))).status === 200, 'let in');
      await page.goto(address);
      assert.equal(await page.locator('#made-key').count(), 0, 'its address shows it once');
      assert.ok(!(await page.content()).includes(first));

      const old = await page.locator('#k-replaces option').nth(1).getAttribute('value');
      await send(page, '#new-key', { label: 'second', replaces: old, overlap: '1h' });
      const second = await page.textContent('#made-key');
      await eventually(async () => (await ask(product.gateway, '/', key(second))).status === 200, 'both let in');
      assert.equal((await ask(product.gateway, '/', key(first))).status, 200);
      await Promise.all([page.waitForNavigation(), page.click('#keys li:first-child button')]);
      assert.match(await page.textContent('#said'), /revoked/);
      await eventually(async () => (await ask(product.gateway, '/', key(first))).status === 401, 'refused');

      await send(page, '#suspend', { name: 'acm' });
      assert.match(await page.textContent('#suspend-error'), /acme/);
      assert.equal((await ask(product.gateway, '/', key(second))).status, 200);
      await send(page, '#suspend', { name: 'acme' });
      await eventually(async () => (await ask(product.gateway, '/', key(second))).status === 403, 'suspended');
      await send(page, '#suspend');
      await eventually(async () => (await ask(product.gateway, '/', key(second))).status === 200, 'resumed');

      // Somebody publishes meanwhile: what was typed stays.
      const other = await open(product, '/tenants/acme', options);
      await send(other.page, '#change', { limit: '4' });
      await other.close();
      await send(page, '#change', { limit: '2' });
      assert.match(await page.textContent('#conflict'), /Somebody published meanwhile/);
      assert.equal(await page.inputValue('#f-limit'), '2');

      await send(page, '#delete', { name: 'acm' });
      assert.match(await page.textContent('#delete-error'), /acme/);
      await send(page, '#delete', { name: 'acme' });
      assert.match(page.url(), /\/tenants\?/);
      assert.match(await page.textContent('#said'), /deleted/);
      await eventually(async () => (await ask(product.gateway, '/', key(second))).status === 401, 'gone');
      const ours = complaints.filter((text) => !/status of 4(12|22)/.test(text));
      assert.deepEqual(ours, []);
      await close();
    } finally {
      await product.stop();
    }
  });
}

test('the pages are accessible in both themes at three widths', async () => {
  const product = await start({}, (url) => `schema = 1
identify = { by = [{ api_key = { header = "x-api-key" } }], unknown = "shared", unknown_limit = 5 }
plans = { pro = { limit = 5 } }
upstreams = { main = { endpoints = ["${url}"] } }
routes = [{ id = "a", path = "/", upstream = "main", compartment = { limit = 9 } }]
tenants = { acme = { plan = "pro", api_keys = ["sha256:${'ab'.repeat(32)}"] }, beta = { limit = 2, suspended = true } }
`);
  try {
    for (const colorScheme of ['light', 'dark']) {
      for (const width of [360, 768, 1440]) {
        for (const target of ['/tenants', '/tenants/acme', '/welcome']) {
          const { page, close } = await open(product, target, { colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
          await page.evaluate(axe);
          const { violations } = await page.evaluate(() => globalThis.axe.run());
          const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`);
          assert.deepEqual(found, [], `${target} ${colorScheme} ${width}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
          assert.equal(wide, false, `${target} is wider than ${width}`);
          await close();
        }
      }
    }
  } finally {
    await product.stop();
  }
});
