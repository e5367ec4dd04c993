// Changes in a real browser: review by a second person, a change that nobody keeps, two people at the same value.
// The browser is one person (let in without a login on loopback), the admin token is another one.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { eventually, launch, start } from './product.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const token = 'browser-tests-admin-token-0123456789';
let product;
let browser;

before(async () => {
  product = await start({ BULKHEAD_ADMIN_TOKEN: token });
  browser = await chromium.launch(launch);
});

after(async () => {
  await browser?.close();
  await product?.stop();
});

async function open(target) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(product.page(target));
  return { page, complaints, close: () => context.close() };
}

/** A call of the other person. */
async function api(method, path, body) {
  const headers = { authorization: `Bearer ${token}` };
  if (body) headers['content-type'] = 'application/json';
  const answer = await fetch(product.page(`/api/v1${path}`), { method, headers, body: body && JSON.stringify(body) });
  return { status: answer.status, body: await answer.json() };
}

const limitOf = async (id) => (await api('GET', '/policy')).body.routes.find((route) => route.id === id).compartment.limit;

async function press(page, selector) {
  await Promise.all([page.waitForNavigation(), page.click(selector)]);
}

async function propose(page, id, limit, comment) {
  await page.goto(product.page(`/compartments/route%2F${id}`));
  await page.fill('#limit', String(limit));
  await page.fill('#comment', comment);
  await press(page, '#edit button[type=submit]');
  assert.match(page.url(), /\/changes\/\d+$/);
  return page.url().split('/').pop();
}

test('a change is reviewed by a second person and published', async () => {
  assert.equal((await api('PATCH', '/settings', { approvals: 'all' })).status, 200);
  const { page, complaints, close } = await open('/changes');
  await page.waitForSelector('#second');
  const number = await propose(page, 'b', 21, '<script>alert(1)</script> lunch');
  assert.equal(await limitOf('b'), 20);
  assert.match(await page.textContent('main'), /<script>alert\(1\)<\/script> lunch/);
  assert.equal(await page.isDisabled('#approve button'), true, 'who wrote it cannot approve it');
  assert.match(await page.textContent('#approve'), /another person/);
  assert.equal(await page.isDisabled('#publish button'), true);
  assert.equal((await api('POST', `/changes/${number}/approve`, { comment: 'fine' })).status, 200);
  await page.reload();
  await press(page, '#publish button');
  assert.match(await page.textContent('#state'), /published/);
  assert.equal(await limitOf('b'), 21);
  await eventually(async () => /runs/.test(await page.textContent('#answers')), 'the answer of the gateway');
  // And back: nothing watches it any more, so that is a change of its own, for a second person.
  await press(page, '#revert button');
  assert.match(await page.textContent('#state'), new RegExp(`draft[^]*reverts change ${number}`));
  assert.equal(await limitOf('b'), 21);
  const back = page.url().split('/').at(-1);
  assert.equal((await api('POST', `/changes/${back}/approve`)).status, 200);
  await page.reload();
  await press(page, '#publish button');
  assert.equal(await limitOf('b'), 20);
  assert.deepEqual(complaints, []);
  await close();
});

test('two people at the same value: both are shown, and one is chosen', async () => {
  const first = await open('/');
  const second = await open('/');
  const mine = await propose(first.page, 'b', 23, 'first');
  const late = await propose(second.page, 'b', 24, 'second');
  for (const number of [mine, late]) assert.equal((await api('POST', `/changes/${number}/approve`)).status, 200);
  await first.page.reload();
  await press(first.page, '#publish button');
  assert.equal(await limitOf('b'), 23);
  // The other tab still shows its page of before: nothing is overwritten.
  await second.page.reload();
  const said = await second.page.textContent('#conflict');
  assert.match(said, /23/);
  assert.match(said, /24/);
  assert.equal(await second.page.isDisabled('#publish button'), true);
  await press(second.page, '#rebase button[value=mine]');
  // Somebody chose: it has to be looked at again.
  assert.match(await second.page.textContent('#state'), /draft/);
  assert.equal((await api('POST', `/changes/${late}/approve`)).status, 200);
  await second.page.reload();
  await press(second.page, '#publish button');
  assert.equal(await limitOf('b'), 24);
  await first.close();
  await second.close();
});

test('a change that nobody keeps goes by itself, and one that is kept stays', async () => {
  assert.equal((await api('PATCH', '/settings', { approvals: 'off' })).status, 200);
  const before = await limitOf('b');
  const publish = async (limit) => {
    const { body } = await api('POST', '/changes', { compartments: { 'route/b': { limit } } });
    assert.equal((await api('POST', `/changes/${body.number}/publish`, { confirm_within: '4s' })).status, 200);
    return body.number;
  };
  const goes = await publish(30);
  const { page, complaints, close } = await open(`/changes/${goes}`);
  assert.match(await page.textContent('#reverts'), /Reverting in/);
  assert.equal(await limitOf('b'), 30);
  await eventually(async () => /taken back/.test(await page.textContent('#state')), 'the page to say so by itself');
  assert.equal(await limitOf('b'), before);
  const stays = await publish(31);
  await page.goto(product.page(`/changes/${stays}`));
  await press(page, '#keep button');
  await new Promise((resolve) => setTimeout(resolve, 5000));
  assert.equal(await limitOf('b'), 31);
  assert.deepEqual(complaints, []);
  await close();
});

test('a dangerous edit asks twice and waits to be kept', async () => {
  const { page, close } = await open('/compartments/route%2Fb');
  await page.fill('#limit', '12');
  await page.fill('#comment', 'half of it');
  await press(page, '#edit button[type=submit]');
  await page.fill('#confirm', 'route/b');
  await press(page, '#edit button[type=submit]');
  assert.match(await page.textContent('#keeps'), /Reverting in/);
  assert.equal(await limitOf('b'), 12);
  await press(page, '#saved form[action$="/undo"] button');
  assert.equal(await limitOf('b'), 31);
  await close();
});

test('the pages are accessible in both themes at three widths', async () => {
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [360, 768, 1440]) {
      const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 } });
      const page = await context.newPage();
      for (const target of ['/changes', '/changes/1', '/generations/1']) {
        await page.goto(product.page(target));
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => globalThis.axe.run());
        const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' | ')}`);
        assert.deepEqual(found, [], `${target} ${colorScheme} ${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
        assert.equal(wide, false, `${target} scrolls sideways at ${width}`);
      }
      await context.close();
    }
  }
});
