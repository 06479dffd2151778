// Certificates of destruction: exceptions first, then the record of each asset, and how to verify offline.

import { h, show } from './dom.js';
import { ask } from './api.js';
import { many, number, time, words } from './format.js';
import { filters, list } from './list.js';
import {
  command,
  empty,
  execution,
  facts,
  heading,
  id,
  into,
  json,
  loading,
  more,
  save,
  section,
  slot,
  state,
  table,
  tenant,
  toast,
  trouble,
} from './components.js';
import { told } from './plan.js';
import { here, place } from './route.js';

export const title = 'Certificates';

export function render(root) {
  const {
    parts: [, name],
    params,
  } = here();
  if (name) return one(root, name);
  show(
    root,
    heading('Certificates of destruction', {
      about: 'Signed result of each offboarding; verify it with the issuer’s public key.',
    }),
    filters([
      { name: 'tenant', label: 'tenant' },
      { name: 'kind', label: 'kind', hint: 'complete' },
    ]),
    slot('list'),
  );
  const { tenant: whose, kind } = params;
  return list(into(root, 'list'), {
    path: '/v1/certificates',
    params: { tenant: whose, kind },
    href: (row) => place('certificates', row.id),
    caption: 'Certificates',
    every: 15_000,
    none: empty('No certificate has been issued yet.', 'Each offboarding ends with a signed certificate.'),
    columns: [
      { label: 'certificate', cell: (row) => id(row.id, { href: place('certificates', row.id) }) },
      { label: 'tenant', cell: (row) => tenant(row.tenant) },
      { label: 'title', kind: 'wide', cell: (row) => row.title },
      { label: 'kind', cell: (row) => words(row.kind) },
      {
        label: 'not destroyed',
        kind: 'number',
        cell: (row) => (row.exceptions ? h('b', number(row.exceptions)) : '0'),
      },
      { label: 'issued', cell: (row) => time(row.issued_at) },
      {
        label: 'signed',
        cell: (row) => state(row.signed ? 'signed' : 'waiting', { label: row.signed ? 'signed' : 'not yet' }),
      },
      { label: 'withdrawn', cell: (row) => (row.withdrawn ? state('withdrawn') : 'no') },
    ],
  });
}

/** The bytes of a part, as text. */
function decoded(text) {
  return new TextDecoder().decode(Uint8Array.from(atob(text), (letter) => letter.codePointAt(0)));
}

async function one(root, name) {
  show(root, loading('Loading the certificate'));
  try {
    const answer = await ask('GET', `/v1/certificates/${encodeURIComponent(name)}`);
    const file = await answer.text();
    const envelope = JSON.parse(file);
    const cover = JSON.parse(decoded(envelope.payload));
    const assets = (envelope.pages ?? []).flatMap((page) => JSON.parse(decoded(page)).assets ?? []);
    const withdrawn = answer.headers.get('tenure-withdrawn');
    show(root, ...whole(name, file, envelope, cover, assets, withdrawn));
  } catch (problem) {
    show(root, heading('Certificate', { back: [place('certificates'), 'Certificates'] }), trouble(problem));
  }
}

function whole(name, file, envelope, { certificate: said, checks }, assets, withdrawn) {
  const excepted = assets.filter((asset) => asset.exception);
  const short = said.tombstone?.tenant ?? name;
  return [
    heading(said.title, {
      back: [place('certificates'), 'Certificates'],
      about: [
        id(said.id, { whole: true }),
        ' · issued ',
        time(said.issued_at),
        ' by ',
        said.issuer,
        withdrawn && [' · ', state('withdrawn'), ' ', time(withdrawn)],
      ],
      aside: h(
        'div.buttons',
        h(
          'button.primary',
          { type: 'button', onclick: () => save(`${short}-certificate.json`, 'application/json', file) },
          'Download signed file',
        ),
        h('button', { type: 'button', onclick: () => page(name, short) }, 'Download page'),
        h('button', { type: 'button', onclick: () => print() }, 'Print'),
      ),
    }),
    section(
      'Not destroyed or not checked',
      { key: 'exceptions' },
      excepted.length
        ? h(
            'div.callout.bad',
            h('b', `${many(excepted.length, 'asset')} without a valid record:`),
            h(
              'ul',
              excepted.map((asset) => h('li', h('code', asset.locator ?? asset.id), ' ', told(asset.exception))),
            ),
          )
        : h(
            'p',
            state('good', { as: 'ok', label: 'no exceptions' }),
            ` Each of the ${many(said.inventory.assets, 'asset')} has a valid record.`,
          ),
      said.retained.length > 0 &&
        h(
          'div.callout.wait',
          h('b', 'Retained by a rule:'),
          h(
            'ul',
            said.retained.map((kept) => h('li', told(kept))),
          ),
        ),
      (said.repairs ?? []).length > 0 &&
        h(
          'div.callout.wait',
          h('b', 'Repaired or stated by operators:'),
          h(
            'ul',
            said.repairs.map((repair) => h('li', told(repair))),
          ),
        ),
      h('h3', 'Outside the scope of the check'),
      h(
        'ul',
        said.not_checked.map((outside) => h('li', h('b', outside.location), `: ${outside.why}`)),
      ),
      h('h3', 'Not proved by this certificate'),
      h(
        'ul',
        said.caveats.map((caveat) => h('li', caveat)),
      ),
    ),
    section(
      'Scope',
      { key: 'what' },
      facts({
        tenant: tenant(short),
        kind: words(said.kind),
        scope: told(said.scope),
        basis: told(said.legal_basis),
        requested: [said.request.by, ' ', time(said.request.at)],
        'destruction began': time(said.pivot_at),
        results: told(said.results),
        policy: said.policies.map((policy) => `${policy.name} ${policy.version}`).join(', '),
        software: `${said.software.name} ${said.software.version}`,
        offboarding: execution(said.id),
      }),
    ),
    section(
      'Assets',
      { key: 'assets', note: many(assets.length, 'asset') },
      table(
        [
          { label: 'asset', kind: 'wide', cell: (row) => h('code', row.locator ?? row.id) },
          { label: 'data', cell: (row) => words(row.data_class) },
          {
            label: 'method',
            kind: 'wide',
            cell: (row) =>
              row.record
                ? words(row.record.method ?? row.record.technique ?? 'recorded')
                : h('b', 'no valid record'),
          },
          {
            label: 'result',
            cell: (row) => row.record && state('ok', { label: words(row.record.result?.is ?? 'recorded') }),
          },
          { label: 'when', cell: (row) => row.record && time(row.record.ended_at) },
          { label: '', cell: (row) => more('details', json(row)) },
        ],
        assets.slice(0, 300),
        { caption: 'Assets' },
      ),
      assets.length > 300 && h('p.note', `The file has ${assets.length - 300} more.`),
    ),
    section(
      'Approvers',
      { key: 'approvals' },
      h(
        'ul.plain',
        said.approvals.map((approval) =>
          h(
            'li',
            h('b', words(approval.gate)),
            ', granted ',
            time(approval.granted_at),
            h(
              'ul',
              approval.votes.map((vote) =>
                h(
                  'li',
                  `${vote.name} (${vote.roles.join(', ')})`,
                  vote.break_glass && h('b', ' (break-glass)'),
                  vote.reason && h('q', vote.reason),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
    section(
      'Verify without this server',
      { key: 'verify', note: 'Get the issuer’s public key in another way than the certificate.' },
      command(`tenure certificate verify ${short}-certificate.json --key issuer.pem`),
      h('p', 'Exit code 0: valid, with a list of the proved facts. Exit code 1: lists every changed field.'),
      facts({
        signatures: envelope.signatures.map((signature) => id(signature.keyid, { digits: 18 })),
        inventory: id(said.inventory.digest, { digits: 18 }),
        'audit head': said.audit_head && [
          id(said.audit_head.digest, { digits: 18 }),
          ` after ${number(said.audit_head.entries)} entries`,
        ],
      }),
      checks && more('Checks at the time of issue', h('div', told(checks))),
    ),
  ];
}

/** The server's page with the result of the verification. */
async function page(name, short) {
  try {
    const answer = await ask('GET', `/v1/certificates/${encodeURIComponent(name)}`, { accept: 'text/html' });
    save(`${short}-certificate.html`, 'text/html', await answer.text());
  } catch (problem) {
    toast(problem.message);
  }
}
