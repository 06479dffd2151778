// The console: its pages, the frame around them, and keyboard shortcuts.

import { h, settle, show } from './dom.js';
import { Problem, forget, getOr, hasToken, isStaff, may, me, onSignedOut, readiness, signIn, whoAmI } from './api.js';
import { dialog } from './dialog.js';
import { tick } from './format.js';
import { stopPolling, onState, stopAll, watch } from './live.js';
import { empty, heading, loading, trouble } from './components.js';
import { here, place } from './route.js';
import { login } from './page-login.js';
import { cameBack, end, isBack } from './signin.js';
import * as overview from './page-overview.js';
import * as approvals from './page-approvals.js';
import * as executions from './page-executions.js';
import * as execution from './page-execution.js';
import * as fleet from './page-fleet.js';
import * as borrowing from './page-borrowing.js';
import * as workloads from './page-workloads.js';
import * as tenants from './page-tenants.js';
import * as certificates from './page-certificates.js';
import * as schedules from './page-schedules.js';
import * as audit from './page-audit.js';
import * as policies from './page-policies.js';
import * as system from './page-system.js';

/** All pages: name in the URL, letter of the shortcut after `g`, and who sees the page. */
const PAGES = [
  { name: '', label: 'Overview', letter: 'o', page: overview, group: 'Now' },
  { name: 'approvals', label: 'Approvals', letter: 'a', page: approvals, group: 'Now' },
  { name: 'stuck', label: 'Stuck', letter: 's', page: executions.stuck, group: 'Now' },
  { name: 'executions', label: 'Executions', letter: 'e', page: executions, one: execution, group: 'Now' },
  { name: 'fleet', label: 'Fleet', letter: 'f', page: fleet, group: 'Capacity' },
  { name: 'borrowing', label: 'Borrowing', letter: 'b', page: borrowing, group: 'Capacity' },
  { name: 'workloads', label: 'Workloads', letter: 'w', page: workloads, group: 'Capacity' },
  { name: 'tenants', label: 'Tenants', letter: 't', page: tenants, group: 'Tenants' },
  { name: 'certificates', label: 'Certificates', letter: 'c', page: certificates, group: 'Tenants' },
  { name: 'schedules', label: 'Schedules', letter: 'd', page: schedules, group: 'Administration', staff: true },
  { name: 'policies', label: 'Policies', letter: 'p', page: policies, group: 'Administration', staff: true },
  { name: 'audit', label: 'Audit', letter: 'u', page: audit, group: 'Administration', verb: 'read_audit' },
  { name: 'system', label: 'System', letter: 'y', page: system, group: 'Administration', staff: true },
];

const app = document.getElementById('app');
let standing = null;
let shown = null;

const visible = (page) => (!page.staff || isStaff()) && (!page.verb || may(page.verb));

function frame() {
  const groups = [...new Set(PAGES.map((page) => page.group))];
  const link = (page) =>
    h(
      'li',
      h(
        'a',
        { href: place(page.name), 'data-page': page.name },
        page.label,
        h('span.count', { 'data-count': page.name, hidden: true }),
      ),
    );
  show(
    app,
    h(
      'header.top',
      { key: 'top' },
      h(
        'button.menu',
        {
          type: 'button',
          'aria-expanded': 'false',
          'aria-controls': 'nav',
          onclick: (event) => menu(event.currentTarget),
        },
        '☰',
        h('span.offscreen', 'Menu'),
      ),
      h('a.brand', { href: '#/' }, h('span.mark', { 'aria-hidden': 'true' }, 'T'), h('b', 'Tenure')),
      h('div', { id: 'simulated', still: 'simulated' }),
      h('div.grow'),
      h('span', { id: 'live', still: 'live', role: 'status' }),
      h(
        'button',
        { type: 'button', class: 'plain', onclick: theme, title: 'Light or dark' },
        '◐',
        h('span.offscreen', 'Light or dark'),
      ),
      h('button', { type: 'button', class: 'plain keys-help', onclick: keysHelp, title: 'Keyboard shortcuts (?)' }, '?'),
      h('span.who', { title: me.roles?.join(', ') }, me.name, me.tenant && h('small', ` of ${me.tenant}`)),
      h('button', { type: 'button', 'data-out': '', onclick: () => end().then(() => out()) }, 'Sign out'),
    ),
    h(
      'nav.side',
      { key: 'nav', id: 'nav', 'aria-label': 'Pages' },
      groups.map((group) => {
        const inside = PAGES.filter((page) => page.group === group && visible(page));
        return inside.length > 0 && [h('h2', group), h('ul', inside.map(link))];
      }),
    ),
    h('main', { key: 'main', id: 'main', tabindex: '-1', still: 'main' }),
  );
}

function menu(button) {
  const open = document.body.classList.toggle('menu-open');
  button.setAttribute('aria-expanded', String(open));
}

/** Banners of every page: simulated platform and failed health checks. */
function watchHeader() {
  watch(
    (signal) => readiness(signal),
    ({ checks }) => {
      const platform = checks?.find((check) => check.name === 'platform');
      const failing = checks?.filter((check) => !check.ok) ?? [];
      const simulated = platform?.facts?.simulated ?? [];
      const real = platform?.facts?.real ?? [];
      show(
        document.getElementById('simulated'),
        failing.length > 0 &&
          h('a.banner.bad', { href: '#/system' }, `not ready: ${failing.map((check) => check.name).join(', ')}`),
        simulated.length > 0 &&
          h(
            'span.banner.sim',
            { title: platform.says },
            real.length ? `simulated: ${simulated.join(', ')}` : 'simulated platform',
          ),
      );
    },
    { every: 15_000 },
  );
  watch(
    (signal) => getOr({ items: [] }, '/v1/approvals', { limit: 200 }, { signal }),
    ({ items }) => count('approvals', items.filter((item) => !approvals.barred(item)).length),
    { every: 5000, hears: approvals.STREAM, aside: true },
  );
  watch(
    (signal) => getOr({ items: [] }, '/v1/stuck', { limit: 100 }, { signal }),
    ({ items, next, channels = [] }) => count('stuck', items.length + channels.length, next && '+'),
    { every: 5000 },
  );
}

/** Shows a count next to the name of a page. */
function count(name, number, more) {
  const node = document.querySelector(`[data-count="${name}"]`);
  if (!node) return;
  node.hidden = !number;
  node.textContent = `${number}${more || ''}`;
}

function pageOf({ parts }) {
  const page = PAGES.find((each) => each.name === (parts[0] ?? ''));
  return page && parts.length > 1 && page.one ? { ...page, page: page.one } : page;
}

function draw() {
  const now = here();
  const page = pageOf(now);
  const key = now.parts.join('/');
  const main = document.getElementById('main');
  stopAll();
  watchHeader();
  if (standing !== key) {
    main.replaceChildren();
    document.body.classList.remove('menu-open');
    if (standing !== null) {
      main.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    standing = key;
  }
  for (const link of document.querySelectorAll('nav.side a')) {
    if (link.dataset.page === (now.parts[0] ?? '')) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (!page) {
    show(
      main,
      heading('Page not found'),
      empty(`There is no page at ${location.hash}.`, h('a', { href: '#/' }, 'Back to the overview')),
    );
    return;
  }
  document.title = `${page.page.title} · Tenure`;
  shown = page;
  try {
    page.page.render(main);
  } catch (problem) {
    show(main, heading(page.label), trouble(problem));
    throw problem;
  }
  settle(main);
}

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  try {
    localStorage.setItem('tenure.theme', root.dataset.theme);
  } catch {
    /* then only for this page */
  }
  dispatchEvent(new Event('theme'));
}

function out(problem) {
  stopPolling();
  forget();
  standing = null;
  document.title = 'Sign in · Tenure';
  document.body.classList.remove('signed-in');
  app.replaceChildren();
  login(app, begin, problem);
}

async function begin() {
  if (isBack()) {
    show(app, loading());
    try {
      await signIn(await cameBack());
    } catch (problem) {
      return out(problem);
    }
  }
  if (!hasToken()) return out();
  try {
    if (!me) {
      show(app, loading());
      await whoAmI();
    }
  } catch (problem) {
    if (problem.status === 401) return out(problem);
    show(app, h('main.login', { id: 'main' }, trouble(problem, { again: begin })));
    return undefined;
  }
  app.replaceChildren();
  document.body.classList.add('signed-in');
  frame();
  onState((state) => {
    const [word, why] = {
      live: ['live', 'the server sends changes'],
      asking: ['asking', 'the console polls the server'],
      paused: ['paused', 'no requests while the page is hidden'],
      offline: ['no answer; asking again', 'the page may be out of date'],
    }[state];
    const node = document.getElementById('live');
    if (node) show(node, h(`span.live.${state}`, { title: why }, word));
  });
  draw();
  return undefined;
}

function keysHelp() {
  const row = (keys, what) =>
    h(
      'div',
      h(
        'dt',
        keys.map((key) => h('kbd', key)),
      ),
      h('dd', what),
    );
  dialog('Keyboard shortcuts', () =>
    h(
      'dl.keys',
      row(['?'], 'shortcuts'),
      row(['j', 'k'], 'next and previous item of a list'),
      row(['Enter'], 'open the item'),
      row(['/'], 'go to the filter'),
      row(['r'], 'reload now'),
      row(['Esc'], 'close the dialog'),
      PAGES.filter(visible).map((page) => row(['g', page.letter], page.label)),
    ),
  );
}

/** Moves to the next or previous row of a list. */
function walk(step) {
  const rows = [...document.querySelectorAll('#main [data-row]')];
  if (!rows.length) return;
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + step))];
  const link = row.querySelector('a, button') ?? row;
  link.focus();
  row.scrollIntoView({ block: 'nearest' });
}

let after = 0;
addEventListener('keydown', (event) => {
  if (!me || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (event.target instanceof Element && event.target.matches('input, textarea, select')) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const led = Date.now() - after < 1500;
  after = 0;
  const page = led && PAGES.find((each) => each.letter === event.key && visible(each));
  const does = {
    '?': keysHelp,
    j: () => walk(1),
    k: () => walk(-1),
    r: () => draw(),
    '/': () => document.querySelector('[data-search], input[type=search]')?.focus(),
    g: () => {
      after = Date.now();
    },
  };
  if (page) location.hash = place(page.name);
  else if (does[event.key]) does[event.key]();
  else return;
  event.preventDefault();
});

addEventListener('hashchange', () => {
  if (me) draw();
});
addEventListener('theme', () => shown?.page.retheme?.());
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  document.getElementById('main')?.focus();
});
onSignedOut(out);
setInterval(tick, 1000);
begin();
