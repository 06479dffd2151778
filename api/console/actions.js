// The commands of an operator to an execution. Each dialog first shows the effect, from a dry run where the API has one.

import { h, show } from './dom.js';
import { get, keys, may, post } from './api.js';
import { WHY, change, dialog, field, quoted, typed } from './dialog.js';
import { many, words } from './format.js';
import { refreshSoon } from './live.js';
import { command, json, more, toast, trouble } from './components.js';
import { brief } from './plan.js';

/** The trail's entries that would be undone, the last first. */
const undoable = (item) => item.trail.filter((mark) => mark.fate !== 'undone' && mark.fate !== 'kept').reverse();

function order(verb) {
  return (item) =>
    ({ reason }, { key }) =>
      post(`/v1/executions/${item.id}:${verb}`, { reason }, { key, match: item.revision });
}

function answered(said) {
  return ({ status, body }) =>
    status === 202 ? `A second person must confirm: tenure proposals second ${body.proposal}` : said;
}

const ORDERS = {
  retry: {
    verb: 'repair',
    label: 'Retry now',
    possible: (item) => item.open && item.phase !== 'paused',
    preview: (item) =>
      item.phase === 'parked'
        ? [
            'Retries the failed state ',
            h('b', words(item.state)),
            '. If it fails again, it is parked again.',
          ]
        : 'Retries a waiting attempt now, and checks awaited conditions again.',
    said: 'Retry started.',
  },
  pause: {
    verb: 'repair',
    label: 'Pause',
    possible: (item) => item.open && !item.paused_by,
    preview: () =>
      'Pauses between two steps. The running step ends first. Votes are still counted, and take effect after a resume.',
    said: 'It pauses after the running step.',
  },
  resume: {
    verb: 'repair',
    label: 'Resume',
    possible: (item) => item.open && Boolean(item.paused_by),
    preview: () => 'Continues from its present state.',
    said: 'Resumed.',
  },
  cancel: {
    verb: 'cancel',
    label: 'Cancel',
    danger: true,
    possible: (item) => item.open && !item.cancelled_by,
    preview: (item) => {
      if (item.pivot) return [h('b', 'It is past its point of no return'), ', so it cannot be cancelled.'];
      const marks = undoable(item);
      if (!marks.length) return 'No completed action must be undone.';
      return [
        h('p', `Undoes ${many(marks.length, 'action')}, the last first:`),
        h(
          'ol.undoes',
          marks.map((mark) => h('li', h('b', mark.undo), ' ', h('span.faint', brief(mark.arguments)))),
        ),
      ];
    },
    said: 'Rollback started.',
  },
  terminate: {
    verb: 'terminate',
    label: 'Terminate',
    danger: true,
    possible: (item) => item.open,
    confirm: (item) => item.subject,
    preview: (item) => [
      h('p', h('b', 'Terminates without undoing anything.'), ' Completed actions stay in effect, and are listed as left behind:'),
      h(
        'ul',
        undoable(item).map((mark) => h('li', mark.action, ' ', h('span.faint', brief(mark.arguments)))),
      ),
    ],
    said: 'Terminated. See the effects that it left behind.',
  },
};

/** The buttons of an execution: only possible and permitted commands. */
export function buttons(item, diagram) {
  const made = Object.entries(ORDERS)
    .filter(([, one]) => one.possible(item))
    .map(([name, one]) =>
      h(
        `button${one.danger ? '.danger' : ''}`,
        {
          key: name,
          type: 'button',
          'data-order': name,
          disabled: !may(one.verb),
          title: may(one.verb) ? undefined : `Requires the permission ${words(one.verb)}`,
          onclick: () =>
            change(`${one.label}: ${item.subject}`, {
              preview: one.preview(item),
              fields: [WHY],
              label: one.label,
              danger: one.danger,
              confirm: one.confirm?.(item),
              cli: ({ reason }) => `tenure executions ${name} ${item.id} --reason ${quoted(reason || 'why')}`,
              does: order(name)(item),
              done: answered(one.said),
            }),
        },
        `${one.label}…`,
      ),
    );
  const signals = signalsOf(diagram, item.state);
  const [first, ...rest] = made;
  return [
    first,
    ...rest.slice(0, -1),
    item.open &&
      signals.length > 0 &&
      h(
        'button',
        { key: 'signal', type: 'button', disabled: !may('signal'), onclick: () => signal(item, signals) },
        'Signal…',
      ),
    item.open &&
      h(
        'button',
        {
          key: 'repair',
          type: 'button',
          disabled: !may('repair'),
          title: may('repair') ? undefined : 'Requires the permission repair',
          onclick: () => repair(item),
        },
        'Repair…',
      ),
    ...rest.slice(-1),
  ];
}

/** The signals of a workflow with the states that wait for them. Signals that `state` waits for are listed first. */
export function signalsOf(diagram, state) {
  const states = new Map();
  for (const { label, from } of diagram?.edges ?? []) {
    if (!label.startsWith('signal ')) continue;
    const name = label.slice(7);
    states.set(name, [...(states.get(name) ?? []), from]);
  }
  return [...states]
    .map(([name, from]) => ({ name, from, awaited: from.includes(state) }))
    .sort((a, b) => Number(b.awaited) - Number(a.awaited));
}

/** The choices of the signal dialog. Only a signal that the present state waits for is preselected. */
export function signalOptions(signals) {
  const options = signals.map(({ name, from, awaited }) => [
    name,
    awaited ? `${name} (awaited now)` : `${name} (not now: awaited in ${from.join(', ')})`,
  ]);
  return signals[0]?.awaited ? options : [['', 'No signal is awaited now'], ...options];
}

function signal(item, signals) {
  change('Signal', {
    preview: 'Sends a signal. The workflow checks the condition again before it continues.',
    fields: [
      {
        name: 'signal',
        label: 'Signal',
        kind: 'select',
        required: true,
        options: signalOptions(signals),
      },
    ],
    cli: ({ signal: name }) => `tenure executions signal ${item.id} ${name}`,
    does: ({ signal: name }, { key }) => post(`/v1/executions/${item.id}:signal`, { signal: name }, { key }),
    done: () => 'Signal sent.',
  });
}

const KINDS = {
  edit: [
    'edit data',
    'Applies a merge patch to its data, such as {"request": {"entitlement": {"gpus": 8}}}. The execution continues from its present state.',
    'edit',
  ],
  mark_done: [
    'mark an action done',
    'Records that an operator did the action of a slot by hand. Give evidence.',
    'done',
  ],
  mark_not_done: [
    'mark an action not done',
    'The outcome is unknown, and an operator has checked that the action did not happen.',
    'not-done',
  ],
  skip: [
    'skip',
    'Skips the step; with a slot, skips the undo of that slot. Skipped undos are listed as left behind.',
    'skip',
  ],
  undo_with: [
    'undo in another way',
    'Replaces a blocked undo by another undo with other arguments.',
    'undo-with',
  ],
};

function repairBody(values) {
  const body = { kind: values.kind, reason: values.reason };
  if (values.slot !== '' && values.slot !== undefined) body.slot = Number(values.slot);
  if (values.kind === 'edit') body.patch = JSON.parse(values.patch);
  if (values.kind === 'mark_done') Object.assign(body, { output: parsed(values.output), evidence: values.evidence });
  if (values.kind === 'mark_not_done') body.evidence = values.evidence;
  if (values.kind === 'undo_with')
    Object.assign(body, { undo: values.undo, arguments: JSON.parse(values.arguments || '{}') });
  return body;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function fieldsFor(kind, item) {
  const slot = {
    name: 'slot',
    label: 'Slot',
    kind: 'number',
    value: kind === 'edit' ? '' : String(item.attempts[0]?.slot ?? 0),
    required: kind !== 'skip',
    note: 'starts at 0, as under Attempts',
  };
  const evidence = { name: 'evidence', label: 'Evidence', required: true, hint: 'ticket 812, or a link' };
  const all = {
    edit: [{ name: 'patch', label: 'Patch', kind: 'area', rows: 6, required: true, value: '{\n}' }],
    mark_done: [
      slot,
      {
        name: 'output',
        label: 'Output',
        required: true,
        note: 'JSON or text; the answer that the action would have given',
      },
      evidence,
    ],
    mark_not_done: [slot, evidence],
    skip: [slot],
    undo_with: [
      slot,
      { name: 'undo', label: 'Undo', required: true, value: item.trail.at(-1)?.undo ?? '' },
      {
        name: 'arguments',
        label: 'Arguments',
        kind: 'area',
        rows: 4,
        value: JSON.stringify(item.trail.at(-1)?.arguments ?? {}, null, 2),
      },
    ],
  };
  return [...all[kind], WHY];
}

/** First a dry run shows the effect. The command is bound to the revision of the dry run. */
function repair(item) {
  const keyOf = keys();
  let { revision } = item;
  let tried = '';
  dialog(
    `Repair: ${item.subject}`,
    (close) => {
      const about = h('p.note');
      const parts = h('div');
      const line = h('div.line');
      const answer = h('div.answer', { 'aria-live': 'polite' });
      const does = h('button.primary', { type: 'submit', disabled: true }, 'Repair');
      const kindOf = () => typed(form).kind;
      const draw = () => {
        show(about, KINDS[kindOf()][1]);
        parts.replaceChildren(...fieldsFor(kindOf(), item).map(field));
        show(answer);
        does.disabled = true;
        show(
          line,
          command(
            `tenure repair ${KINDS[kindOf()][2]} ${item.id}${['edit'].includes(kindOf()) ? ' --patch FILE' : ' --slot 0'}${kindOf().startsWith('mark') ? ' --evidence …' : ''} --reason … --dry-run`,
          ),
        );
      };
      const content = () => {
        try {
          return repairBody(typed(form));
        } catch (error) {
          throw new Error(`This is not JSON: ${error.message}`);
        }
      };
      const attempt = async (how) => {
        try {
          await how();
        } catch (problem) {
          show(
            answer,
            problem.status === undefined ? h('p.problem', { role: 'alert' }, problem.message) : trouble(problem),
          );
        }
      };
      const dry = () =>
        attempt(async () => {
          const body = content();
          ({ revision } = await get(`/v1/executions/${item.id}`));
          const { body: preview } = await post(`/v1/executions/${item.id}:repair?dry_run=true`, body, {
            match: revision,
          });
          tried = JSON.stringify(body);
          does.disabled = false;
          show(answer, outcome(preview));
        });
      const form = h(
        'form',
        {
          oninput: () => {
            if (!does.disabled && JSON.stringify(safely(content)) !== tried) does.disabled = true;
          },
          onsubmit: (event) => {
            event.preventDefault();
            attempt(async () => {
              const body = content();
              const said = await post(`/v1/executions/${item.id}:repair`, body, {
                key: keyOf([revision, body]),
                match: revision,
              });
              close();
              toast(answered('Repaired.')(said));
              refreshSoon();
            });
          },
        },
        field({
          name: 'kind',
          label: 'Repair',
          kind: 'select',
          required: true,
          options: Object.entries(KINDS).map(([name, [label]]) => [name, label]),
          value: item.attempts.some((slot) => slot.doubt) ? 'mark_not_done' : 'edit',
          oninput: () => draw(),
        }),
        about,
        parts,
        answer,
        h(
          'div.buttons',
          h('button', { type: 'button', onclick: dry }, 'Preview (changes nothing)'),
          does,
          h('button', { type: 'button', onclick: close }, 'Go back'),
        ),
        h('details.more', h('summary', 'Command line'), line),
      );
      queueMicrotask(draw);
      return form;
    },
    { wide: true },
  );
}

function safely(content) {
  try {
    return content();
  } catch {
    return null;
  }
}

function outcome(preview) {
  return h(
    'div.preview',
    h(
      'p',
      'State afterwards: ',
      h('b', preview.state),
      ` (${words(preview.phase)}).`,
      preview.needs_second && ' A second person must confirm.',
    ),
    preview.edges.length > 0 && h('p', 'By: ', preview.edges.map((edge) => `${edge.from} → ${edge.to}`).join(', ')),
    preview.changes.length > 0
      ? h(
          'ul.diff',
          preview.changes.map((one) =>
            h(
              'li.alter',
              h('span.sign', '~'),
              h('span.kind', one.field || 'data'),
              h('span.which', h('del', brief(one.from)), ' → ', h('ins', brief(one.to))),
            ),
          ),
        )
      : h('p.faint', 'The data would not change.'),
    more('Details', json(preview)),
  );
}
