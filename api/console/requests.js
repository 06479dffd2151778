// Requests for tenants, quotas, terms, offboardings, incidents and shortages. A form first shows a preview, and sends only the previewed request.

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
/** The option to keep a value. */
const STAYS = ['', 'unchanged'];
const SECRET = 'tenure-cluster-key';

/** The fields without empty values. */
const said = (fields) => Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''));

/** An invalid line of input, as a problem like those of the server. */
function unread(title, detail, remedy) {
  return new Problem(0, { title, detail, remedy });
}

/** The obstacles and reasons, rule by rule, and the plan. */
function previewed(preview) {
  const reasons = (preview.decision ?? preview).reasons ?? [];
  const against = [...(preview.holds ?? []).map((hold) => `hold ${hold.id}: ${hold.reason}`), ...(preview.others ?? [])];
  return [
    preview.decision?.verdict && h('p', 'Policy decision: ', h('b', words(preview.decision.verdict)), '.'),
    preview.excess > 0 && h('p', h('b', `${many(preview.excess, 'unit')} in use must be freed first.`)),
    against.length > 0 && [
      h('p', h('b', 'Must end first:')),
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
    h('p.note', 'Approvers would vote on the plan ', id(preview.digest, { digits: 14 }), '.'),
  ];
}

/** The key of a new cluster, which is shown once and not stored. */
function secret(execution, key, close) {
  return [
    h('p', h('b', 'The key of the cluster is shown only once.'), ' Store it in your secret store.'),
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
        'I have stored the key',
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

/** A form with a preview at `at:plan` and a request at `at`: `body(values)` is the document, `cli(values)` the command line. */
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
          toast('Request submitted.');
          return go('executions', execution);
        });
      const form = h(
        'form',
        {
          oninput: () => {
            show(line, command(cli(typed(form))));
            if (safely(() => JSON.stringify(body(typed(form)))) === tried) return;
            // The preview belongs to another request.
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
          h('button', { type: 'button', 'data-order': 'plan', onclick: see }, 'Preview'),
          does,
          h('button', { type: 'button', onclick: close }, 'Go back'),
        ),
        h('details.more', h('summary', 'Command line'), line),
      );
      show(line, command(cli(typed(form))));
      return form;
    },
    { wide: true },
  );
}

/** `serving production 8`, one workspace per line: name, class and own GPUs. */
function workspaces(text) {
  const lines = text.split('\n').map((line) => line.trim()).filter(Boolean);
  return lines.map((line) => {
    const [name, kind, gpus, ...rest] = line.split(/\s+/);
    if (!kind || rest.length || (gpus !== undefined && !/^\d+$/.test(gpus))) {
      throw unread(
        'Invalid workspace',
        `“${line}” is not a name, class and number of GPUs`,
        'write a line such as “serving production 8”; the number is optional',
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

/** Requests the onboarding of a tenant. */
export function onboard() {
  request('Onboard a tenant', {
    at: '/v1/tenants',
    label: 'Submit request',
    about: 'A YAML file can set more, such as compliance or storage limits: docs/policy.md lists every key.',
    body: tenancy,
    cli: (values) => `tenure tenant onboard -f ${values.name || 'acme'}.yaml --dry-run`,
    fields: [
      { name: 'name', label: 'Name', required: true, hint: 'acme', note: 'lower-case letters, digits and dashes; cannot be changed later' },
      { name: 'tier', label: 'Tier', kind: 'select', required: true, options: ['enterprise', 'standard', 'research'] },
      {
        name: 'isolation',
        label: 'Isolation',
        kind: 'select',
        required: true,
        options: [
          ['dedicated', 'own nodes'],
          ['dedicated_cluster', 'own cluster'],
          ['shared_slices', 'own nodes, GPU slices'],
        ],
      },
      { name: 'data_residency', label: 'Data residency', required: true, value: 'any', note: 'any, eu-only, or a list such as eu, us' },
      { name: 'allow_preemption', label: 'Allow preemption (needed to borrow)', kind: 'select', required: true, options: YES_NO },
      { name: 'allow_gpu_sharing', label: 'Allow GPU sharing between workspaces', kind: 'select', required: true, options: YES_NO },
      { name: 'gpu_model', label: 'GPU model', required: true, hint: 'H100' },
      { name: 'gpus', label: 'GPUs', kind: 'number', required: true, hint: '16' },
      { name: 'region', label: 'Region', note: 'empty: any region that the residency allows' },
      { name: 'from', label: 'From', kind: 'date' },
      { name: 'to', label: 'To', kind: 'date' },
      {
        name: 'workspaces',
        label: 'Workspaces',
        kind: 'area',
        hint: 'serving production 8\nresearch research',
        note: 'one per line: name, class (production, research, batch, dev), own GPUs',
      },
    ],
  });
}

/** Requests a quota change of a workspace. */
export function requota(tenant, spaces) {
  const resources = [...new Set(spaces.flatMap((space) => Object.keys(space.use ?? {})))];
  request(`Change quota of ${tenant}`, {
    at: '/v1/quota-requests',
    label: 'Submit request',
    about: 'A decrease waits until usage fits the new quota; an increase may need approval.',
    body: (values) =>
      said({ tenant, workspace: values.workspace, resource: values.resource, to: Number(values.to), until: values.until && `${values.until}T00:00:00Z`, reason: values.reason }),
    cli: (values) =>
      `tenure quota set ${tenant}/${values.workspace} ${values.resource} ${values.to || '8'} --reason ${quoted(values.reason || 'why')} --dry-run`,
    fields: [
      { name: 'workspace', label: 'Workspace', kind: 'select', required: true, options: spaces.map((space) => space.name) },
      { name: 'resource', label: 'Resource', kind: 'select', required: true, options: resources },
      { name: 'to', label: 'New own quota', kind: 'number', required: true },
      { name: 'until', label: 'Until', kind: 'date', note: 'the old quota returns then' },
      { name: 'reason', label: 'Reason', kind: 'area', rows: 2, required: true },
    ],
  });
}

/** Requests the offboarding of a tenant. */
export function leave(tenant) {
  request(`Offboard ${tenant}`, {
    at: '/v1/offboardings',
    label: 'Submit request',
    danger: true,
    about: 'The tenant is frozen and can export its data. After approval of the inventory, its data is destroyed.',
    body: (values) => said({ tenant, basis: values.basis, reference: values.reference, reason: values.reason }),
    cli: (values) =>
      `tenure tenant offboard ${tenant} --basis ${values.basis} --reference ${quoted(values.reference || 'contract 12')} --reason ${quoted(values.reason || 'why')} --dry-run`,
    fields: [
      {
        name: 'basis',
        label: 'Legal basis',
        kind: 'select',
        required: true,
        options: ['contract_end', 'tenant_request', 'erasure_request', 'legal_order'].map((name) => [name, words(name)]),
      },
      { name: 'reference', label: 'Reference', hint: 'contract 12, line 4' },
      { name: 'reason', label: 'Reason', kind: 'area', rows: 2, required: true },
    ],
  });
}

/** Requests a change of a tenant's terms. */
export function reterm(tenant) {
  const flag = (text) => (text ? text === 'true' : undefined);
  request(`Change terms of ${tenant}`, {
    at: '/v1/sla-changes',
    label: 'Submit request',
    about: 'Always needs approval. The change is made when all conditions of the new terms are met.',
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
        options: [STAYS, ['dedicated_nodes', 'own nodes'], ['shared_slices', 'own nodes, GPU slices']],
      },
      { name: 'allow_preemption', label: 'Allow preemption (needed to borrow)', kind: 'select', options: [STAYS, ...YES_NO] },
      { name: 'allow_gpu_sharing', label: 'Allow GPU sharing between workspaces', kind: 'select', options: [STAYS, ...YES_NO] },
      { name: 'not_before', label: 'Not before', kind: 'date', note: 'the window that the tenant chose, in UTC' },
      { name: 'reason', label: 'Reason', kind: 'area', rows: 2, required: true },
    ],
  });
}

/** The fields of each type of incident, and its command line. */
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

/** Reports an incident, with a node if one is given. */
export function report(node) {
  request(node ? `Report an incident on ${node}` : 'Report an incident', {
    at: '/v1/incidents',
    label: 'Submit report',
    danger: true,
    about: 'The incident is contained first, which disturbs affected tenants. Then it is repaired and reviewed.',
    body: (values) => said({ kind: values.kind, evidence: values.evidence, ...said(CONCERNS[values.kind][1](values)) }),
    cli: (values) =>
      ['tenure incident report', values.kind, CONCERNS[values.kind][2](values), '--evidence', quoted(values.evidence || 'what was seen'), '--dry-run'].join(' '),
    fields: [
      { name: 'kind', label: 'Type', kind: 'select', required: true, options: Object.keys(CONCERNS).map((name) => [name, words(name)]) },
      { name: 'subject', label: 'Affected object', value: node, note: 'node for a GPU fault, cluster for a leaked key, otherwise tenants' },
      { name: 'what', label: 'Description', note: 'only for the type other' },
      { name: 'evidence', label: 'Evidence', kind: 'area', rows: 3, required: true },
    ],
  });
}

/** Reports a shortage of a GPU model in a region. */
export function short() {
  request('Report a shortage', {
    at: '/v1/capacity-exhaustions',
    label: 'Submit report',
    about: 'Applies the measures of the policy one after another, the mildest first, such as a reclaim of overdue loans. Costly or disruptive measures need approval.',
    body: (values) => said({ region: values.region, model: values.model, wanted: values.wanted && Number(values.wanted), reason: values.reason }),
    cli: (values) =>
      `tenure capacity short ${values.region || 'eu'} ${values.model || 'H100'}${values.wanted ? ` --wanted ${values.wanted}` : ''} --dry-run`,
    fields: [
      { name: 'region', label: 'Region', required: true, hint: 'eu' },
      { name: 'model', label: 'GPU model', required: true, hint: 'H100' },
      { name: 'wanted', label: 'Missing GPUs (without waitlists)', kind: 'number' },
      { name: 'reason', label: 'Source of the report', kind: 'area', rows: 2 },
    ],
  });
}
