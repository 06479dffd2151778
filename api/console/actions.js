// What an operator can ask of an execution. Each says first what it leads to; what the API can try without doing is tried here.

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
    status === 202 ? `A second person has to agree: tenure proposals second ${body.proposal}` : said;
}

const ORDERS = {
  retry: {
    verb: 'repair',
    label: 'Retry now',
    possible: (item) => item.open && item.phase !== 'paused',
    preview: (item) =>
      item.phase === 'parked'
        ? [
            'What stands in the way is tried once more: ',
            h('b', words(item.state)),
            '. If it fails again, it is parked again.',
          ]
        : 'What waits for its next attempt is tried at once; what waits for something looks again.',
    said: 'It is tried now.',
  },
  pause: {
    verb: 'repair',
    label: 'Pause',
    possible: (item) => item.open && !item.paused_by,
    preview: () =>
      'It stops between two steps. What is in flight ends first; votes go on being counted and take effect when it is resumed.',
    said: 'It pauses after the step in flight.',
  },
  resume: {
    verb: 'repair',
    label: 'Resume',
    possible: (item) => item.open && Boolean(item.paused_by),
    preview: () => 'It goes on from where it stands.',
    said: 'It goes on.',
  },
  cancel: {
    verb: 'cancel',
    label: 'Cancel',
    danger: true,
    possible: (item) => item.open && !item.cancelled_by,
    preview: (item) => {
      if (item.pivot) return [h('b', 'It is past its point of no return'), ' and will refuse: it can only go forward.'];
      const marks = undoable(item);
      if (!marks.length) return 'Nothing has been done that would have to be undone.';
      return [
        h('p', `${many(marks.length, 'action')} will be undone, the last first:`),
        h(
          'ol.undoes',
          marks.map((mark) => h('li', h('b', mark.undo), ' ', h('span.faint', brief(mark.arguments)))),
        ),
      ];
    },
    said: 'It turns back.',
  },
  terminate: {
    verb: 'terminate',
    label: 'Terminate',
    danger: true,
    possible: (item) => item.open,
    confirm: (item) => item.subject,
    preview: (item) => [
      h('p', h('b', 'Closed by force: nothing is undone.'), ' What it has done stays, and is listed as left behind:'),
      h(
        'ul',
        undoable(item).map((mark) => h('li', mark.action, ' ', h('span.faint', brief(mark.arguments)))),
      ),
    ],
    said: 'It is closed by force; see what it left behind.',
  },
};

/** The buttons for an execution, those alone that are possible and allowed. */
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
          title: may(one.verb) ? undefined : `Takes the right to ${words(one.verb)}`,
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
          title: may('repair') ? undefined : 'Takes the right to repair',
          onclick: () => repair(item),
        },
        'Repair…',
      ),
    ...rest.slice(-1),
  ];
}

/** The signals of a workflow with the states that wait for them; those that `state` waits for come first. */
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

/** The choices of the signal dialog. Nothing is preselected unless the present state waits for it. */
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
    done: () => 'It was told.',
  });
}

const KINDS = {
  edit: [
    'change its data',
    'A merge patch of its data, such as {"request": {"entitlement": {"gpus": 8}}}. It goes on from where it stands with the data changed.',
    'edit',
  ],
  mark_done: [
    'mark an action done',
    'Somebody has done by hand what a slot of this state would do. Say where that can be seen.',
    'done',
  ],
  mark_not_done: [
    'mark an action not done',
    'Its outcome is unknown, and somebody has looked: it did not happen.',
    'not-done',
  ],
  skip: [
    'skip',
    'Without a slot the step, with one the undo of that slot, is left out. What was not undone is listed as left behind.',
    'skip',
  ],
  undo_with: [
    'undo by other means',
    'Another undo, with other arguments, takes the place of one that is blocked.',
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
    note: 'counted from 0, as in the attempts',
  };
  const evidence = { name: 'evidence', label: 'Evidence', required: true, hint: 'ticket 812, or where it can be seen' };
  const all = {
    edit: [{ name: 'patch', label: 'Patch', kind: 'area', rows: 6, required: true, value: '{\n}' }],
    mark_done: [
      slot,
      {
        name: 'output',
        label: 'Its output',
        required: true,
        note: 'JSON, or a text as it is; what the action would have answered',
      },
      evidence,
    ],
    mark_not_done: [slot, evidence],
    skip: [slot],
    undo_with: [
      slot,
      { name: 'undo', label: 'The undo', required: true, value: item.trail.at(-1)?.undo ?? '' },
      {
        name: 'arguments',
        label: 'Its arguments',
        kind: 'area',
        rows: 4,
        value: JSON.stringify(item.trail.at(-1)?.arguments ?? {}, null, 2),
      },
    ],
  };
  return [...all[kind], WHY];
}

/** First a try that shows what it leads to; the command itself is bound to the revision that was tried. */
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
      const does = h('button.primary', { type: 'submit', disabled: true }, 'Do it');
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
              toast(answered('It is mended so.')(said));
              refreshSoon();
            });
          },
        },
        field({
          name: 'kind',
          label: 'How',
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
          h('button', { type: 'button', onclick: dry }, 'Try it: changes nothing'),
          does,
          h('button', { type: 'button', onclick: close }, 'Leave it'),
        ),
        h('details.more', h('summary', 'The same on the command line'), line),
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
      'It would then stand in ',
      h('b', preview.state),
      ` (${words(preview.phase)}).`,
      preview.needs_second && ' A second person would have to agree.',
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
      : h('p.faint', 'Its data would stay as it is.'),
    more('All of it', json(preview)),
  );
}
