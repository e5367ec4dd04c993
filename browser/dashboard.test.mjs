// The dashboard in a real browser: a limit changed on the page changes the next answer, with and without
// JavaScript; both pages are accessible in both themes at three widths.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { ask, eventually, launch, start } from './product.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let product;
let browser;

before(async () => {
  product = await start();
  browser = await chromium.launch(launch);
});

after(async () => {
  await browser?.close();
  await product?.stop();
});

/** Opens a page and fails on anything that the browser complains of. */
async function open(target, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(product.page(target));
  return { page, complaints, close: () => context.close() };
}

async function changeLimit(page, limit, comment) {
  await page.fill('#limit', String(limit));
  await page.fill('#comment', comment);
  await Promise.all([page.waitForNavigation(), page.click('#edit button[type=submit]')]);
}

for (const [how, options] of [['with JavaScript', {}], ['without JavaScript', { javaScriptEnabled: false }]]) {
  test(`a limit changed on the page changes the next answer, ${how}`, async () => {
    const late = ask(product.gateway, '/a/hold');
    await eventually(() => product.stub.held.length === 1, 'the held request at the upstream');
    const refused = await ask(product.gateway, '/a');
    assert.equal(refused.status, 503);
    assert.equal(refused.headers['x-bulkhead-reason'], 'route_full');

    const { page, complaints, close } = await open('/compartments/route%2Fa', options);
    // A request that was refused is found again on the page. It is a sample: a report may be lost.
    const ids = [refused.headers['x-request-id']];
    await eventually(async () => {
      if (options.javaScriptEnabled === false) await page.reload();
      const text = await page.textContent('#reasons');
      if (ids.some((id) => text.includes(id))) return true;
      await page.waitForTimeout(300);
      ids.push((await ask(product.gateway, '/a')).headers['x-request-id']);
      return false;
    }, 'a refused request among the newest rejections');
    await changeLimit(page, 2, `more room ${how}`);
    assert.equal(await page.inputValue('#limit'), '2');
    await eventually(async () => (await ask(product.gateway, '/a')).status === 200, 'room for a second request');

    // Back to one, which is no more than is in flight: the page asks twice.
    await changeLimit(page, 1, 'back again');
    if (await page.$('#confirm')) {
      await page.fill('#confirm', 'route/a');
      await Promise.all([page.waitForNavigation(), page.click('#edit button[type=submit]')]);
    }
    assert.equal(await page.inputValue('#limit'), '1');
    product.stub.release();
    assert.equal((await late).text, 'served late');
    assert.deepEqual(complaints, []);
    await close();
  });
}

test('a bad limit comes back with its error beside the field', async () => {
  const { page, close } = await open('/compartments/route%2Fb');
  await changeLimit(page, '1.5', 'half a slot');
  assert.equal(await page.inputValue('#limit'), '1.5');
  assert.equal(await page.getAttribute('#limit', 'aria-invalid'), 'true');
  await close();
});

test('a change of somebody else is shown and not overwritten', async () => {
  const first = await open('/compartments/route%2Fb');
  const second = await open('/compartments/route%2Fb');
  await changeLimit(first.page, 21, 'first');
  await changeLimit(second.page, 22, 'second');
  const text = await second.page.textContent('main');
  assert.match(text, /21/);
  assert.match(text, /22/);
  await first.page.goto(product.page('/compartments/route%2Fb'));
  assert.equal(await first.page.inputValue('#limit'), '21');
  await first.close();
  await second.close();
});

test('figures move without a reload, and what is typed stays', async () => {
  const { page, complaints, close } = await open('/compartments/route%2Fb');
  await page.fill('#comment', 'half typed');
  const before = await page.textContent('main');
  await ask(product.gateway, '/b');
  await page.waitForFunction((old) => document.querySelector('main').textContent !== old, before, { timeout: 8000 });
  assert.equal(await page.inputValue('#comment'), 'half typed');
  assert.deepEqual(complaints, []);
  await close();
});

/** How many requests the page has seen come in, as its own table says. */
const arrived = (page) => page.textContent('#rejected');
const moves = async (page, what) => {
  const before = await arrived(page);
  await ask(product.gateway, '/b');
  await page.waitForFunction((old) => document.querySelector('#rejected').textContent !== old, before, { timeout: 8000 })
    .catch(() => { throw new Error(`figures do not move: ${what}`); });
};

test('all tabs of a browser share one stream, whoever of them leaves', async () => {
  const context = await browser.newContext();
  const streams = new Map();
  let polls = 0;
  const pages = [];
  for (let n = 0; n < 8; n += 1) {
    const page = await context.newPage();
    page.on('request', (request) => {
      const { pathname, searchParams } = new URL(request.url());
      if (pathname === '/live') streams.set(request, page);
      if (searchParams.get('fragment') === 'live') polls += 1;
    });
    page.on('requestfinished', (request) => streams.delete(request));
    page.on('requestfailed', (request) => streams.delete(request));
    await page.goto(product.page('/compartments/route%2Fb'), { timeout: 8000 });
    pages.push(page);
  }
  const leaders = () => [...streams.values()].filter((page) => !page.isClosed());
  await eventually(() => leaders().length === 1, 'one stream');
  for (const page of pages) await moves(page, 'in one of eight tabs');
  assert.equal(leaders().length, 1);
  // Every tab took the whole once when it began to listen; the stream does the rest.
  const asked = polls;
  await moves(pages[0], 'by the stream');
  await moves(pages[7], 'by the stream');
  assert.ok(polls - asked <= 2, `${polls - asked} polls beside the stream`);
  for (let n = 0; n < 2; n += 1) {
    const [leader] = leaders();
    await leader.close();
    pages.splice(pages.indexOf(leader), 1);
    await eventually(() => leaders().length === 1, 'another tab opens the stream');
    await moves(pages[n], 'after the tab with the stream was closed');
  }
  await context.close();
});

test('without a stream the page asks for itself, and says when nobody answers', async () => {
  const { page, close } = await open('/alerts');
  await page.route('**/live?*', (route) => route.abort());
  await page.goto(product.page('/compartments/route%2Fb'));
  await moves(page, 'without a stream');
  await page.route('**fragment=live**', (route) => route.abort());
  await page.waitForFunction(() => /^stale, no answer for \d+ s$/.test(document.querySelector('#badge-words').textContent), null, { timeout: 9000 });
  assert.ok(await page.evaluate(() => document.querySelector('#figures').classList.contains('old')));
  await page.unroute('**fragment=live**');
  await page.waitForFunction(() => document.querySelector('#badge-words').textContent.startsWith('live'), null, { timeout: 9000 });
  assert.ok(!await page.evaluate(() => document.querySelector('#figures').classList.contains('old')));
  await close();
});

test('a tab that is paused stands still and goes on from the present', async () => {
  const { page, complaints, close } = await open('/compartments/route%2Fb');
  await moves(page, 'before the pause');
  await page.click('#pause');
  assert.match(await page.textContent('#badge-words'), /^paused/);
  const before = await arrived(page);
  await ask(product.gateway, '/b');
  await new Promise((resolve) => setTimeout(resolve, 2200));
  assert.equal(await arrived(page), before);
  await page.click('#pause');
  await page.waitForFunction((old) => document.querySelector('#rejected').textContent !== old, before, { timeout: 8000 });
  assert.deepEqual(complaints, []);
  await close();
});

test('the focus and what was opened stay while rows move', async () => {
  const { page, complaints, close } = await open('/compartments?sort=rejected');
  await page.focus('tr[data-key="route/b"] th a');
  const late = ask(product.gateway, '/a/hold');
  await eventually(() => product.stub.held.length === 1, 'the held request at the upstream');
  for (let n = 0; n < 3; n += 1) await ask(product.gateway, '/a');
  const first = () => document.querySelector('#rows tbody tr').dataset.key === 'route/a'
    && document.querySelector('#rows tbody tr').textContent.includes('full');
  await page.waitForFunction(first, null, { timeout: 8000 });
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('href')), '/compartments/route%2Fb');
  product.stub.release();
  await late;
  await page.goto(product.page('/'));
  await page.click('#heat-behind summary');
  const clock = await page.textContent('.clock');
  await page.waitForFunction((old) => document.querySelector('.clock').textContent !== old, clock, { timeout: 8000 });
  await page.waitForTimeout(1500);
  assert.ok(await page.evaluate(() => document.querySelector('#heat-behind').open), 'what was opened stays open');
  assert.deepEqual(complaints, []);
  await close();
});

for (const javaScriptEnabled of [true, false]) {
  test(`what another limit would do is asked by a form, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async () => {
    const { page, complaints, close } = await open('/compartments/route%2Fb', { javaScriptEnabled });
    await page.fill('#ask-limit', '7');
    await Promise.all([page.waitForNavigation(), page.click('#what-if button')]);
    assert.match(page.url(), /what_if=7/);
    assert.match(await page.textContent('#answer'), /what-if route\/b --limit 7/);
    await page.goto(product.page('/advice'));
    await page.fill('#ask-key', 'route/b');
    await page.fill('#ask-limit', 'many');
    await Promise.all([page.waitForNavigation(), page.click('#what-if button')]);
    assert.match(await page.textContent('#ask-error'), /whole number/);
    assert.equal(await page.inputValue('#ask-key'), 'route/b');
    assert.deepEqual(complaints, []);
    await close();
  });
}

test('a limit in shadow refuses nobody, is told, and is enforced by its button', async () => {
  const late = ask(product.gateway, '/watched/hold');
  await eventually(() => product.stub.held.length === 1, 'the held request at the upstream');
  assert.equal((await ask(product.gateway, '/watched')).status, 200, 'beyond the limit, and let through');
  const { page, complaints, close } = await open('/shadow');
  await page.waitForFunction(() => document.querySelector('#watch-0').textContent.includes('1 of 2'), null, { timeout: 8000 });
  assert.match(await page.textContent('#watch-0'), /route_full/);
  product.stub.release();
  assert.equal((await late).text, 'served late');
  await page.fill('#why-0', 'watched long enough');
  await Promise.all([page.waitForNavigation(), page.click('#step-0 button')]);
  if (await page.$('#confirm')) {
    await page.fill('#confirm', 'route/watched');
    await Promise.all([page.waitForNavigation(), page.click('#edit button[type=submit]')]);
  }
  assert.equal(await page.inputValue('#mode'), 'enforce');
  const held = ask(product.gateway, '/watched/hold');
  await eventually(() => product.stub.held.length === 1, 'one request in the only slot');
  const refused = async () => (await ask(product.gateway, '/watched')).status === 503;
  await eventually(refused, 'the limit to refuse');
  product.stub.release();
  await held;
  // And back: what was just stored can be undone.
  await Promise.all([page.waitForNavigation(), page.click('#saved button')]);
  assert.equal(await page.inputValue('#mode'), 'shadow');
  assert.deepEqual(complaints, []);
  await close();
});

test('what else a route has is changed in the same form, with each error at its field', async () => {
  const { page, complaints, close } = await open('/compartments/route%2Fb');
  await page.click('#more-fields summary');
  await page.fill('#queue_wait', '20');
  await page.fill('#class_reserve', '3');
  await Promise.all([page.waitForNavigation(), page.click('#edit button[type=submit]')]);
  assert.match(await page.textContent('#queue_wait-error'), /250ms/);
  assert.equal(await page.inputValue('#class_reserve'), '3');
  await page.fill('#queue_wait', '30ms');
  await Promise.all([page.waitForNavigation(), page.click('#edit button[type=submit]')]);
  assert.match(await page.textContent('#saved'), /is stored/);
  assert.equal(await page.inputValue('#queue_wait'), '30ms');
  assert.match(await page.textContent('#rules'), /The last 3\sslots are kept from sheddable/);
  assert.deepEqual(complaints.filter((line) => !line.includes('422')), []);
  await close();
});

for (const colorScheme of ['light', 'dark']) {
  for (const width of [360, 768, 1440]) {
    test(`pages are accessible, ${colorScheme}, ${width} px`, async () => {
      const targets = ['/', '/alerts', '/shadow', '/compartments', '/compartments?state=problems&sort=full_1h', '/routes',
        '/routes?method=GET&path=%2Fa&find=a', '/advice',
        '/advice?key=route%2Fa&limit=2', '/compartments/route%2Fa', '/compartments/route%2Fb', '/compartments/gateway'];
      for (const target of targets) {
        // The page's own policy lets no foreign script in, so axe comes in past it.
        const { page, close } = await open(target, { colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => globalThis.axe.run());
        assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`), [], target);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${target} is ${wide} px wider than the window`);
        await close();
      }
    });
  }
}
