// People in a real browser: set-up by the one-time link, sign-in, what a role may, secrets that are shown once.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { eventually, launch, start } from './product.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const password = 'a long pass phrase of 2026';
let product;
let browser;

before(async () => {
  product = await start({}, undefined, { login: true });
  browser = await chromium.launch(launch);
});

after(async () => {
  await browser?.close();
  await product?.stop();
});

async function send(page, form) {
  await Promise.all([page.waitForNavigation(), page.click(`${form} button[type=submit]`)]);
}

async function setUp(page, link, name) {
  await page.goto(link);
  if (name) await page.fill('#username', name);
  await page.fill('#password', password);
  await send(page, '#set-up');
}

async function signIn(page, name) {
  await page.goto(product.page('/login'));
  await page.fill('#username', name);
  await page.fill('#password', password);
  await send(page, '#sign-in');
}

async function accessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] }));
  assert.deepEqual(found.violations.map((one) => `${one.id}: ${one.nodes[0].html}`), [], what);
}

test('the first user is set up, invites another one, who may less', async () => {
  const link = await eventually(() => /\/setup\?code=[\w]+/.exec(product.log())?.[0], 'a link in the log');
  const admin = await (await browser.newContext()).newPage();
  await admin.goto(product.page(link));
  await accessible(admin, 'set-up');
  await setUp(admin, product.page(link), 'ann');
  await accessible(admin, 'sign-in');
  await signIn(admin, 'ann');
  assert.match(await admin.textContent('#who'), /ann\s+admin/);

  await admin.goto(product.page('/settings'));
  await admin.fill('#user-name', 'eve');
  await send(admin, '#user-new');
  const invitation = await admin.textContent('#made code');
  assert.match(invitation, /\/setup\?code=/);
  await admin.reload();
  assert.equal(await admin.$('#made'), null, 'a link is shown once');

  await admin.fill('#token-name', 'deploy');
  await send(admin, '#token-new');
  const token = await admin.textContent('#made code');
  assert.match(token, /^bhk_/);
  await accessible(admin, 'settings');
  await admin.reload();
  assert.ok(!(await admin.content()).includes(token), 'a token is shown once');
  const read = await fetch(product.page('/api/v1/policy'), { headers: { authorization: `Bearer ${token}` } });
  assert.equal(read.status, 200);

  const viewer = await (await browser.newContext()).newPage();
  await setUp(viewer, invitation.trim(), '');
  await signIn(viewer, 'eve');
  await viewer.goto(product.page('/compartments/route%2Fa'));
  assert.ok(await viewer.isDisabled('#edit button[type=submit]'));
  assert.match(await viewer.textContent('#edit .needs'), /operator/);
  await viewer.goto(product.page('/settings'));
  assert.equal(await viewer.$('#user-new'), null);
  await accessible(viewer, 'settings of a viewer');

  // A change of the role ends the session at once.
  await admin.goto(product.page('/settings'));
  const row = admin.locator('tr[data-key=eve]');
  await row.locator('summary').click();
  await row.locator('select[name=role]').selectOption('operator');
  await Promise.all([admin.waitForNavigation(), row.locator('button[value=role]').click()]);
  await viewer.goto(product.page('/'));
  assert.match(viewer.url(), /\/login/);
  await signIn(viewer, 'eve');
  await viewer.goto(product.page('/compartments/route%2Fa'));
  assert.ok(await viewer.isEnabled('#edit button[type=submit]'));
  await Promise.all([viewer.waitForNavigation(), viewer.click('form[action="/logout"] button')]);
  await viewer.goto(product.page('/settings'));
  assert.match(viewer.url(), /\/login/);
});
