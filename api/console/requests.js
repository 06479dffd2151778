// What people ask for: a tenant, another quota, other terms, a way out; that an incident is seen to, or a shortage. What it would come to is shown first, and only what was seen so is asked for.

import { h, show } from './dom.js';
import { Problem, ask, keys, post } from './api.js';
import { dialog, field, quoted, typed } from './dialog.js';
import { refreshSoon } from './live.js';
import { many, words } from './format.js';
import { command, id, toast, trouble } from './components.js';
import { shown } from './plan.js';
import { go } from './route.js';

const YES_NO = [
  ['false', 'no'],
  ['true', 'yes'],
];
/** For what may stay as it is. */
const STAYS = ['', 'stays as it is'];
const SECRET = 'tenure-cluster-key';

/** Fields without those that were left out. */
const said = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''));

/** A line that cannot be read, told as the server tells its own refusals. */
function unread(title, detail, remedy) {
  return new Problem(0, { title, detail, remedy });
}

/** What stands in the way or speaks for it, rule by rule, and the plan. */
function previewed(preview) {
  const reasons = (preview.decision ?? preview).reasons ?? [];
  const against = [...(preview.holds ?? []).map((hold) => `held: ${hold.id}, ${hold.reason}`), ...(preview.others ?? [])];
  return [
    preview.decision?.verdict && h('p', 'Policy says: ', h('b', words(preview.decision.verdict)), '.'),
    preview.excess > 0 && h('p', h('b', `${many(preview.excess, 'unit')} of what is used has to end first.`)),
    against.length > 0 && [
      h('p', h('b', 'What has to end before:')),
      h(
        'ul.plain',
        against.map((line) => h('li', line)),
      ),
    ],
    reasons.length > 0 &&
      h(
        'ul.plain',
        reasons.map((reason) =>
          h(
            'li',
            h('b', words(reason.verdict)),
            ` ${reason.rule}: ${reason.detail}`,
            reason.by && h('span.faint', ` (${reason.by.document} ${reason.by.version}, line ${reason.by.line})`),
          ),
        ),
      ),
    shown(preview.plan),
    h('p.note', 'People would vote on ', id(preview.digest, { digits: 14 }), '.'),
  ];
}

/** The key of a cluster, which is told once and kept by nobody. */
function secret(execution, key, close) {
  return [
    h('p', h('b', 'The key of its cluster. It is shown this once:'), ' keep it where secrets are kept.'),
    command(key),
    h(
      'div.buttons',
      h(
        'button.primary',
        {
          type: 'button',
          onclick: () => {
            close();
            go('executions', execution);
          },
        },
        'I have kept it',
      ),
    ),
  ];
}

function safely(how) {
  try {
    return how();
  } catch {
    return undefined;
  }
}

/**
 * A form whose content can be tried at `at:plan` and is then asked for at `at`: `body(values)` is the document, `cli(values)` the same as a
 * command line.
 */
function request(title, { about, fields, at, body, cli, label, danger = false }) {
  const keyOf = keys();
  let tried = null;
  dialog(
    title,
    (close, whole) => {
      const answer = h('div.answer', { 'aria-live': 'polite' });
      const line = h('div.line');
      const does = h(`button.primary${danger ? '.danger' : ''}`, { type: 'submit', disabled: true }, label);
      const attempt = async (how) => {
        try {
          await how(body(typed(form)));
        } catch (problem) {
          does.disabled = true;
          show(answer, trouble(problem));
        }
      };
      const see = () =>
        form.reportValidity() &&
        attempt(async (document) => {
          const { body: preview } = await post(`${at}:plan`, document);
          tried = JSON.stringify(document);
          does.disabled = false;
          show(answer, previewed(preview));
          answer.scrollIntoView({ block: 'nearest' });
        });
      const send = (document) =>
        ask('POST', at, { body: document, headers: { 'idempotency-key': keyOf(document) } }).then(async (accepted) => {
          const { id: execution } = await accepted.json();
          const key = accepted.headers.get(SECRET);
          refreshSoon();
          if (key) return show(whole, secret(execution, key, close));
          close();
          toast('It is asked for.');
          return go('executions', execution);
        });
      const form = h(
        'form',
        {
          oninput: () => {
            show(line, command(cli(typed(form))));
            if (safely(() => JSON.stringify(body(typed(form)))) === tried) return;
            // What was seen is of another request.
            tried = null;
            does.disabled = true;
            show(answer);
          },
          onsubmit: (event) => {
            event.preventDefault();
            attempt(async (document) => {
              does.disabled = true;
              await send(document);
            });
          },
        },
        about && h('p.note', about),
        h('div.fields', fields.map(field)),
        answer,
        h(
          'div.buttons',
          h('button', { type: 'button', 'data-order': 'plan', onclick: see }, 'See what it comes to'),
          does,
          h('button', { type: 'button', onclick: close }, 'Leave it'),
        ),
        h('details.more', h('summary', 'The same on the command line'), line),
      );
      show(line, command(cli(typed(form))));
      return form;
    },
    { wide: true },
  );
}

/** `serving production 8`, a workspace a line: the name, the class, and GPUs of its own. */
function workspaces(text) {
  const lines = text.split('\n').map((line) => line.trim()).filter(Boolean);
  return lines.map((line) => {
    const [name, kind, gpus, ...rest] = line.split(/\s+/);
    if (!kind || rest.length || (gpus !== undefined && !/^\d+$/.test(gpus))) {
      throw unread(
        'A workspace cannot be read',
        `“${line}” is no name, class and number of GPUs`,
        'write a line such as “serving production 8”; the number may be left out',
      );
    }
    return said({ name, class: kind, quotas: gpus && { gpus: Number(gpus) } });
  });
}

function tenancy(values) {
  const spaces = workspaces(values.workspaces);
  const within = values.data_residency.split(/[\s,]+/).filter(Boolean);
  return said({
    name: values.name,
    tenant: {
      tier: values.tier,
      isolation: values.isolation,
      data_residency: within.length > 1 ? within : within[0],
      allow_preemption: values.allow_preemption === 'true',
      allow_gpu_sharing: values.allow_gpu_sharing === 'true',
    },
    workspaces: spaces.length ? spaces : undefined,
    entitlement: said({
      gpu_model: values.gpu_model,
      gpus: Number(values.gpus),
      region: values.region,
      from: values.from,
      to: values.to,
    }),
  });
}

/** Asks for a tenant. */
export function onboard() {
  request('Onboard a tenant', {
    at: '/v1/tenants',
    label: 'Ask for it',
    about: 'What a form does not have, such as compliance or limits of storage, can be said in a file: docs/policy.md has every key.',
    body: tenancy,
    cli: (values) => `tenure tenant onboard -f ${values.name || 'acme'}.yaml --dry-run`,
    fields: [
      { name: 'name', label: 'Name', required: true, hint: 'acme', note: 'small letters, digits and dashes; it cannot be changed' },
      { name: 'tier', label: 'Tier', kind: 'select', required: true, options: ['enterprise', 'standard', 'research'] },
      {
        name: 'isolation',
        label: 'Isolation',
        kind: 'select',
        required: true,
        options: [
          ['dedicated', 'nodes of its own'],
          ['dedicated_cluster', 'a cluster of its own'],
          ['shared_slices', 'nodes of its own, GPUs in slices'],
        ],
      },
      { name: 'data_residency', label: 'Data stays in', required: true, value: 'any', note: 'any, eu-only, or a list such as eu, us' },
      { name: 'allow_preemption', label: 'Its work may be preempted, so that it may borrow', kind: 'select', required: true, options: YES_NO },
      { name: 'allow_gpu_sharing', label: 'Its workspaces may share a GPU', kind: 'select', required: true, options: YES_NO },
      { name: 'gpu_model', label: 'GPU model', required: true, hint: 'H100' },
      { name: 'gpus', label: 'GPUs', kind: 'number', required: true, hint: '16' },
      { name: 'region', label: 'Region', note: 'without one, any that residency allows' },
      { name: 'from', label: 'From', kind: 'date' },
      { name: 'to', label: 'To', kind: 'date' },
      {
        name: 'workspaces',
        label: 'Workspaces',
        kind: 'area',
        hint: 'serving production 8\nresearch research',
        note: 'one a line: name, class (production, research, batch, dev), GPUs of its own',
      },
    ],
  });
}

/** Asks for another quota of a tenant's workspace. */
export function requota(tenant, spaces) {
  const resources = [...new Set(spaces.flatMap((space) => Object.keys(space.use ?? {})))];
  request(`Another quota for ${tenant}`, {
    at: '/v1/quota-requests',
    label: 'Ask for it',
    about: 'Less is given up once nothing more is used than is left; more may take people’s agreement.',
    body: (values) =>
      said({ tenant, workspace: values.workspace, resource: values.resource, to: Number(values.to), until: values.until && `${values.until}T00:00:00Z`, reason: values.reason }),
    cli: (values) =>
      `tenure quota set ${tenant}/${values.workspace} ${values.resource} ${values.to || '8'} --reason ${quoted(values.reason || 'why')} --dry-run`,
    fields: [
      { name: 'workspace', label: 'Workspace', kind: 'select', required: true, options: spaces.map((space) => space.name) },
      { name: 'resource', label: 'Resource', kind: 'select', required: true, options: resources },
      { name: 'to', label: 'Its own, from then on', kind: 'number', required: true },
      { name: 'until', label: 'Until', kind: 'date', note: 'goes back by itself then' },
      { name: 'reason', label: 'Why', kind: 'area', rows: 2, required: true },
    ],
  });
}

/** Asks that a tenant leaves. */
export function leave(tenant) {
  request(`Offboard ${tenant}`, {
    at: '/v1/offboardings',
    label: 'Ask for it',
    danger: true,
    about: 'It is frozen first, and may fetch its data. Then its data is destroyed, once people have agreed to what was found.',
    body: (values) => said({ tenant, basis: values.basis, reference: values.reference, reason: values.reason }),
    cli: (values) =>
      `tenure tenant offboard ${tenant} --basis ${values.basis} --reference ${quoted(values.reference || 'contract 12')} --reason ${quoted(values.reason || 'why')} --dry-run`,
    fields: [
      {
        name: 'basis',
        label: 'On what ground',
        kind: 'select',
        required: true,
        options: ['contract_end', 'tenant_request', 'erasure_request', 'legal_order'].map((name) => [name, words(name)]),
      },
      { name: 'reference', label: 'Reference', hint: 'contract 12, line 4' },
      { name: 'reason', label: 'Why', kind: 'area', rows: 2, required: true },
    ],
  });
}

/** Asks for other terms of a tenant. */
export function reterm(tenant) {
  const flag = (text) => (text ? text === 'true' : undefined);
  request(`Other terms for ${tenant}`, {
    at: '/v1/sla-changes',
    label: 'Ask for it',
    about: 'People always agree to it, also where it promises less. It is made once everything that the new terms promise holds.',
    body: (values) =>
      said({
        tenant,
        tier: values.tier,
        isolation: values.isolation,
        allow_preemption: flag(values.allow_preemption),
        allow_gpu_sharing: flag(values.allow_gpu_sharing),
        not_before: values.not_before && `${values.not_before}T00:00:00Z`,
        reason: values.reason,
      }),
    cli: () => `tenure sla change -f ${tenant}-terms.yaml --dry-run`,
    fields: [
      { name: 'tier', label: 'Tier', kind: 'select', options: [STAYS, 'enterprise', 'standard', 'research'] },
      {
        name: 'isolation',
        label: 'Isolation',
        kind: 'select',
        options: [STAYS, ['dedicated_nodes', 'nodes of its own'], ['shared_slices', 'nodes of its own, GPUs in slices']],
      },
      { name: 'allow_preemption', label: 'Its work may be preempted, so that it may borrow', kind: 'select', options: [STAYS, ...YES_NO] },
      { name: 'allow_gpu_sharing', label: 'Its workspaces may share a GPU', kind: 'select', options: [STAYS, ...YES_NO] },
      { name: 'not_before', label: 'Not before', kind: 'date', note: 'the window that the tenant chose, in UTC' },
      { name: 'reason', label: 'Why', kind: 'area', rows: 2, required: true },
    ],
  });
}

/** What an incident of each kind has to name, and how it is told on the command line. */
const CONCERNS = {
  gpu_fault: ['node', (values) => ({ node: values.subject }), (values) => `--node ${values.subject || 'n-1'}`],
  key_leak: ['cluster', (values) => ({ cluster: values.subject }), (values) => `--cluster ${values.subject || 'eu-1'}`],
  isolation_breach: ['tenants', (values) => ({ tenants: listed(values.subject) }), (values) => tenantsOf(values.subject || 'acme')],
  other: [
    'tenants',
    (values) => ({ what: values.what, tenants: listed(values.subject) }),
    (values) => `--what ${quoted(values.what || 'what')} ${tenantsOf(values.subject)}`,
  ],
};

const listed = (text) => text.split(/[\s,]+/).filter(Boolean);
const tenantsOf = (text) => listed(text).map((name) => `--tenant ${name}`).join(' ');

/** Reports an incident; of a node, if one is named. */
export function report(node) {
  request(node ? `Something is wrong with ${node}` : 'Report an incident', {
    at: '/v1/incidents',
    label: 'Report it',
    danger: true,
    about: 'It is contained first, which disturbs whom it concerns. Then it is mended, and people look at what happened.',
    body: (values) => said({ kind: values.kind, evidence: values.evidence, ...said(CONCERNS[values.kind][1](values)) }),
    cli: (values) =>
      ['tenure incident report', values.kind, CONCERNS[values.kind][2](values), '--evidence', quoted(values.evidence || 'what was seen'), '--dry-run'].join(' '),
    fields: [
      { name: 'kind', label: 'What kind', kind: 'select', required: true, options: Object.keys(CONCERNS).map((name) => [name, words(name)]) },
      { name: 'subject', label: 'What or whom it concerns', value: node, note: 'of a GPU fault the node, of a leaked key the cluster, else tenants' },
      { name: 'what', label: 'What it is', note: 'where it is none of the other kinds' },
      { name: 'evidence', label: 'What was seen', kind: 'area', rows: 3, required: true },
    ],
  });
}

/** Says that a model runs short in a region. */
export function short() {
  request('Capacity runs short', {
    at: '/v1/capacity-exhaustions',
    label: 'Look for some',
    about: 'What policy lists is tried, the mildest first: loans are looked at before anybody is asked to give way.',
    body: (values) => said({ region: values.region, model: values.model, wanted: values.wanted && Number(values.wanted), reason: values.reason }),
    cli: (values) =>
      `tenure capacity short ${values.region || 'eu'} ${values.model || 'H100'}${values.wanted ? ` --wanted ${values.wanted}` : ''} --dry-run`,
    fields: [
      { name: 'region', label: 'Region', required: true, hint: 'eu' },
      { name: 'model', label: 'GPU model', required: true, hint: 'H100' },
      { name: 'wanted', label: 'GPUs beside those on waitlists', kind: 'number' },
      { name: 'reason', label: 'What told of it', kind: 'area', rows: 2 },
    ],
  });
}
