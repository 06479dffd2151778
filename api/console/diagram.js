// The diagram of a state machine, drawn from the definition in use: the present state, the taken edges, and completed and undone actions.

import { h, s, show } from './dom.js';
import { arrange } from './layout.js';
import { words } from './format.js';

const TALL = 26;
const SIGNS = { act: '', approval: '☑', wait: '◔', choose: '◇', end: '■' };
const FATES = { begun: 'begun', done: 'done', failed: 'failed', undone: 'undone', kept: 'stays' };

function widthOf(state) {
  return Math.max(64, state.name.length * 6.7 + (SIGNS[state.kind] ? 36 : 24));
}

/** The part of a machine to show: all, or visited states and possible next ones. */
function part(diagram, { visited, current }, whole) {
  if (whole) return diagram;
  const near = new Set([...visited, current]);
  for (const edge of diagram.edges) if (edge.from === current) near.add(edge.to);
  const states = diagram.states.filter((state) => near.has(state.name));
  return { ...diagram, states, edges: diagram.edges.filter((edge) => near.has(edge.from) && near.has(edge.to)) };
}

/** A curve between points, with vertical ends. */
function curve(points) {
  const [first, ...rest] = points;
  let from = { x: first.x, y: first.y };
  let text = `M${from.x.toFixed(1)},${from.y.toFixed(1)}`;
  for (const to of rest) {
    const half = (to.y - from.y) / 2;
    text += `C${from.x.toFixed(1)},${(from.y + half).toFixed(1)} ${to.x.toFixed(1)},${(to.y - half).toFixed(1)} ${to.x.toFixed(1)},${to.y.toFixed(1)}`;
    from = to;
  }
  return text;
}

function ends(points, back) {
  const moved = points.map((point) => ({ ...point }));
  const side = back ? -1 : 1;
  moved[0].y += (side * TALL) / 2;
  moved.at(-1).y -= side * (TALL / 2 + 4);
  return moved;
}

/** The label of an edge: the default edge has none. The tooltip and the list have the full text. */
function labelOf(pair) {
  const [first, ...others] = pair.edges
    .map((edge) => edge.label)
    .filter((text) => text !== 'done')
    .map((text) => text.replace(/^signal /, ''));
  const label = first && (others.length ? `${first} / …` : first);
  return label && label.length > 24 ? `${label.slice(0, 23)}…` : (label ?? null);
}

function edgeShape({ pair, points, back, nth }, travelled) {
  const taken = travelled.has(`${pair.from}\n${pair.to}`);
  const said = pair.edges.map((edge) => edge.text).join(' / ');
  const shown = ends(points, back);
  const label = labelOf(pair);
  const near = points[1];
  const isNext = points.length === 2;
  // Above the target state, or on the way to a distant one.
  const y = isNext ? (back ? near.y + TALL / 2 + 13 : near.y - TALL / 2 - 10 - 10 * nth) : near.y + 3;
  return s(
    `g.edge${taken ? '.taken' : ''}${back ? '.back' : ''}`,
    {},
    s('path', { d: curve(shown), 'marker-end': `url(#${taken ? 'taken' : 'way'})` }),
    label && s('text', { x: near.x, y, 'text-anchor': 'middle' }, label),
    s('title', {}, `${pair.from} → ${pair.to}: ${said}${taken ? ' (taken)' : ''}`),
  );
}

function outline(state, { x, y, width }) {
  const [left, top] = [x - width / 2, y - TALL / 2];
  if (state.kind === 'choose' || state.kind === 'approval') {
    const cut = state.kind === 'choose' ? 12 : 7;
    const [right, bottom] = [left + width, top + TALL];
    const corner = [
      [left + cut, top],
      [right - cut, top],
      [right, y],
      [right - cut, bottom],
      [left + cut, bottom],
      [left, y],
    ];
    return s('polygon.box', { points: corner.map((point) => point.join(',')).join(' ') });
  }
  const round = state.kind === 'wait' ? TALL / 2 : state.kind === 'end' ? 2 : 6;
  return s('rect.box', { x: left, y: top, width, height: TALL, rx: round });
}

function stateShape(state, at, seen) {
  const fate = seen.fates.get(state.name);
  const isCurrent = state.name === seen.current;
  const kind = [
    state.kind,
    state.forward_only && 'pivot',
    isCurrent && 'current',
    isCurrent && seen.tone,
    !isCurrent && seen.visited.has(state.name) && 'visited',
    fate && `fate-${fate.fate}`,
  ];
  const about = [
    state.name,
    `${state.kind}${state.forward_only ? ', no way back from here' : ''}`,
    state.actions.length && `does: ${state.actions.join(', ')}`,
    state.undos.length && `undone by: ${state.undos.join(', ')}`,
    fate && `${fate.count > 1 ? `${fate.count} × ` : ''}${FATES[fate.fate]}`,
  ]
    .filter(Boolean)
    .join('\n');
  const sign = SIGNS[state.kind];
  return s(
    `g.state-shape.${kind.filter(Boolean).join('.')}`,
    {},
    outline(state, at),
    state.forward_only &&
      s('line.floor', {
        x1: at.x - at.width / 2 + 6,
        x2: at.x + at.width / 2 - 6,
        y1: at.y + TALL / 2 + 3,
        y2: at.y + TALL / 2 + 3,
      }),
    s('text', { x: at.x, y: at.y + 4, 'text-anchor': 'middle' }, sign && s('tspan.sign', {}, `${sign} `), state.name),
    fate &&
      fate.fate !== 'done' &&
      s(
        'text.fate',
        { x: at.x + at.width / 2 + 4, y: at.y + 4 },
        fate.fate === 'undone' ? '↩' : fate.fate === 'failed' ? '✗' : fate.fate === 'kept' ? '⚑' : '…',
      ),
    s('title', {}, about),
  );
}

/** The worst fate of the actions of each state, from the trail. */
function fatesOf(trail) {
  const worst = ['undone', 'done', 'kept', 'begun', 'failed'];
  const fates = new Map();
  for (const mark of trail) {
    const before = fates.get(mark.state);
    const fate = !before || worst.indexOf(mark.fate) > worst.indexOf(before.fate) ? mark.fate : before.fate;
    fates.set(mark.state, { fate, count: (before?.count ?? 0) + 1 });
  }
  return fates;
}

/** Visited states and taken edges, from the journal. */
export function travelled(journal) {
  const visited = new Set();
  const ways = new Set();
  for (const entry of journal) {
    visited.add(entry.from);
    if (entry.from === entry.to) continue;
    visited.add(entry.to);
    ways.add(`${entry.from}\n${entry.to}`);
  }
  return { visited, ways };
}

function arrow(id) {
  return s(
    'marker',
    { id, viewBox: '0 0 8 8', refX: 5, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto-start-reverse' },
    s('path', { d: 'M0,0.6 L7,4 L0,7.4 z', class: `head-${id}` }),
  );
}

/**
 * Draws `diagram` (the API's JSON) for an execution: `current` is its state, `journal` and `trail` are its history, `phase` is its status. Without them it
 * draws the definition.
 */
export function picture(diagram, { current = null, journal = [], trail = [], phase = '' } = {}) {
  const { visited, ways } = travelled(journal);
  const tone = { parked: 'bad', compensating: 'turn', paused: 'held', finished: 'over' }[phase] ?? 'on';
  const seen = { current, visited, tone, fates: fatesOf(trail) };
  const frame = h('div.frame', { tabindex: '0', role: 'region', 'aria-label': 'Diagram of the state machine' });
  const draw = (whole) => {
    const { states, edges } = part(diagram, seen, whole);
    const at = arrange(states, edges, diagram.initial, widthOf, labelOf);
    const arrived = new Map();
    for (const path of at.paths) {
      const key = path.points.length === 2 && !path.back && labelOf(path.pair) ? path.pair.to : null;
      path.nth = key ? (arrived.get(key) ?? 0) : 0;
      if (key) arrived.set(key, path.nth + 1);
    }
    const about = current
      ? `${diagram.workflow}: current state ${current}; ${visited.size} of ${diagram.states.length} states visited`
      : `${diagram.workflow}: ${diagram.states.length} states`;
    show(
      frame,
      s(
        'svg.machine',
        {
          viewBox: `0 0 ${at.width.toFixed(0)} ${at.height}`,
          width: at.width.toFixed(0),
          height: at.height,
          role: 'img',
          'aria-label': about,
          key: String(whole),
        },
        s('defs', {}, arrow('way'), arrow('taken')),
        at.paths.map((path) => edgeShape(path, ways)),
        states.map((state) => stateShape(state, at.nodes.get(state.name), seen)),
      ),
    );
    const lit = at.nodes.get(current);
    if (lit)
      requestAnimationFrame(() =>
        frame.scrollTo({ left: lit.x - frame.clientWidth / 2, top: lit.y - frame.clientHeight / 2 }),
      );
  };
  const choices =
    visited.size > 0 &&
    h(
      'div.choices',
      { role: 'group', 'aria-label': 'Part to show' },
      ['whole machine', 'visited and next'].map((label, i) =>
        h(
          'button',
          {
            type: 'button',
            'aria-pressed': String(i === 0),
            onclick: (event) => {
              for (const other of event.currentTarget.parentNode.children)
                other.setAttribute('aria-pressed', String(other === event.currentTarget));
              draw(i === 0);
            },
          },
          label,
        ),
      ),
    );
  draw(true);
  return h('div.picture', choices, frame, legend(visited.size > 0));
}

function legend(withRun) {
  const key = (kind, text) => h('span', h(`i.key.${kind}`, { 'aria-hidden': 'true' }), text);
  return h(
    'p.legend',
    withRun && [key('current', 'current state'), key('visited', 'visited'), key('taken', 'edge taken')],
    h('span', '☑ approval'),
    h('span', '◔ waits'),
    h('span', '◇ decision'),
    h('span', '■ end'),
    key('pivot', 'no way back'),
    withRun && h('span', '↩ undone'),
  );
}

/** The states as a list, for screen readers. */
export function listed(diagram, current) {
  return h(
    'ol.states',
    diagram.states.map((state) =>
      h(
        'li',
        { 'aria-current': state.name === current ? 'step' : undefined },
        h('b', state.name),
        ` (${words(state.kind)}${state.forward_only ? ', no way back' : ''}) `,
        diagram.edges
          .filter((edge) => edge.from === state.name)
          .map((edge) => `→ ${edge.to} when ${edge.text}`)
          .join('; '),
      ),
    ),
  );
}
