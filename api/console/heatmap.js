// A map of nodes and GPUs on a canvas: a column per node, a cell per GPU. Fast for ten thousand nodes.

import { h } from './dom.js';

const STATES = [
  'free',
  'in_service',
  'provisioning',
  'claimed',
  'draining',
  'cleaning',
  'quarantined',
  'validating',
  'discovered',
  'maintenance',
  'retired',
];
const GPU = ['empty', 'used', 'lent', 'recalled'];

/** Colours that are distinct for colour-blind readers, after Okabe and Ito; light and dark. */
const PALETTE = {
  light: ['#2a6fb0', '#c25f00', '#00795c', '#a8457c', '#8a6d00', '#4b6fd0', '#7c4fb0', '#2f7f8f', '#96592f', '#5c6b1f'],
  dark: ['#74b3ea', '#f0a05a', '#4fc7a1', '#e392bd', '#d8c25a', '#9db4ff', '#c29bee', '#7fd0dd', '#d9a27c', '#bcc96c'],
};
const GREY = { light: '#d3d9e2', dark: '#3a424f' };
const BY_STATE = {
  light: {
    free: '#d3d9e2',
    in_service: '#2a6fb0',
    provisioning: '#c99000',
    claimed: '#e0b95a',
    draining: '#a8457c',
    cleaning: '#7c4fb0',
    quarantined: '#b3261e',
    validating: '#2f7f8f',
    discovered: '#aab4c2',
    maintenance: '#8a6d00',
    retired: '#7b8494',
  },
  dark: {
    free: '#3a424f',
    in_service: '#74b3ea',
    provisioning: '#f0c060',
    claimed: '#8d7434',
    draining: '#e392bd',
    cleaning: '#c29bee',
    quarantined: '#ff8d84',
    validating: '#7fd0dd',
    discovered: '#5a6575',
    maintenance: '#d8c25a',
    retired: '#7b8494',
  },
};
const BY_USE = {
  light: { empty: '#d3d9e2', used: '#2a6fb0', lent: '#c25f00', recalled: '#b3261e' },
  dark: { empty: '#3a424f', used: '#74b3ea', lent: '#f0a05a', recalled: '#ff8d84' },
};
export const LABELS = {
  empty: 'no workload',
  used: 'on own quota',
  lent: 'on borrowed GPUs',
  recalled: 'being reclaimed',
};

const theme = () => (getComputedStyle(document.documentElement).colorScheme.includes('dark') ? 'dark' : 'light');

/** A stable colour for a name, independent of its position in the list. */
function paletteOf(owners) {
  const colours = PALETTE[theme()];
  return new Map(owners.map((owner, at) => [owner, colours[at % colours.length]]));
}

/** The colours of the map: `colour(node, gpu)` and the labels of its legend. */
export function colouring(by, nodes) {
  const now = theme();
  if (by === 'state') {
    const there = STATES.filter((state) => nodes.some((node) => node.state === state));
    return {
      colour: (node) => BY_STATE[now][node.state] ?? GREY[now],
      legend: there.map((state) => [state.replace(/_/g, ' '), BY_STATE[now][state]]),
    };
  }
  if (by === 'use') {
    return {
      colour: (node, gpu) => BY_USE[now][node.use?.[gpu] ?? 'empty'],
      legend: GPU.map((use) => [LABELS[use], BY_USE[now][use]]),
    };
  }
  const owners = [...new Set(nodes.map((node) => node.owner).filter(Boolean))].sort();
  const colours = paletteOf(owners);
  return {
    colour: (node) => colours.get(node.owner) ?? GREY[now],
    legend: [['no owner', GREY[now]], ...[...colours].slice(0, 30)],
  };
}

/** The position of each node on a map of this width. */
function geometry(nodes, width) {
  const most = Math.max(1, ...nodes.map((node) => node.gpu.count));
  const cell = nodes.length > 4000 ? 3 : nodes.length > 1200 ? 5 : nodes.length > 250 ? 8 : 13;
  const gap = cell > 4 ? 1 : 0;
  const column = cell + gap + (cell > 6 ? 4 : 2);
  const row = most * (cell + gap) + (cell > 6 ? 12 : 6);
  const across = Math.max(1, Math.floor((width - 4) / column));
  return { cell, gap, column, row, across, most, height: Math.ceil(nodes.length / across) * row + 6 };
}

/**
 * The map: an element with `update(nodes, by)`. Calls `told(node)` for the node under the pointer or cursor, and `chosen(node)` when a node is opened.
 */
export function heatmap({ told, chosen }) {
  const canvas = h('canvas', {
    tabindex: '0',
    role: 'application',
    'aria-label': 'Map of the nodes. Arrow keys move, Enter opens.',
    'aria-describedby': 'node-told',
  });
  const box = h('div.heat', canvas);
  let [nodes, by, shape, at, colours] = [[], 'owner', null, -1, null];

  function draw() {
    if (!shape) return;
    const dense = devicePixelRatio || 1;
    const width = box.clientWidth;
    canvas.width = width * dense;
    canvas.height = shape.height * dense;
    canvas.style.setProperty('height', `${shape.height}px`);
    const pen = canvas.getContext('2d');
    pen.scale(dense, dense);
    const { cell, gap, column, row, across } = shape;
    // Draws one colour after the other: changing the colour is slow.
    const cells = new Map();
    nodes.forEach((node, i) => {
      const [x, y] = [(i % across) * column + 2, Math.floor(i / across) * row + 4];
      for (let gpu = 0; gpu < node.gpu.count; gpu += 1) {
        const colour = colours.colour(node, gpu);
        let list = cells.get(colour);
        if (!list) cells.set(colour, (list = []));
        list.push(x, y + gpu * (cell + gap));
      }
    });
    for (const [colour, list] of cells) {
      pen.fillStyle = colour;
      for (let i = 0; i < list.length; i += 2) pen.fillRect(list[i], list[i + 1], cell, cell);
    }
    if (at >= 0 && at < nodes.length) {
      pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--text');
      pen.lineWidth = 2;
      pen.strokeRect(
        (at % across) * column + 0.5,
        Math.floor(at / across) * row + 2,
        cell + 3,
        nodes[at].gpu.count * (cell + gap) + 3,
      );
    }
  }

  function measure() {
    shape = geometry(nodes, box.clientWidth || 600);
    draw();
  }

  function move(to, event) {
    const next = Math.max(0, Math.min(nodes.length - 1, to));
    if (next !== at) {
      at = next;
      draw();
      told(nodes[at]);
    }
    event?.preventDefault();
  }

  canvas.addEventListener('pointermove', (event) => {
    if (!shape) return;
    const { left, top } = canvas.getBoundingClientRect();
    const [x, y] = [
      Math.floor((event.clientX - left - 2) / shape.column),
      Math.floor((event.clientY - top - 4) / shape.row),
    ];
    const found = y * shape.across + x;
    if (x >= 0 && x < shape.across && y >= 0 && found < nodes.length) move(found);
  });
  canvas.addEventListener('click', () => {
    if (nodes[at]) chosen(nodes[at]);
  });
  canvas.addEventListener('keydown', (event) => {
    const step = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: shape?.across,
      ArrowUp: -(shape?.across ?? 0),
      Home: -nodes.length,
      End: nodes.length,
    }[event.key];
    if (step) move(at < 0 ? 0 : at + step, event);
    else if (event.key === 'Enter' && nodes[at]) chosen(nodes[at]);
  });
  const watcher = new ResizeObserver(() => {
    if (nodes.length && canvas.isConnected) measure();
  });
  watcher.observe(box);
  addEventListener('theme', () => {
    if (canvas.isConnected && nodes.length) box.update(nodes, by);
  });

  box.update = (fresh, how) => {
    const began = performance.now();
    [nodes, by] = [fresh, how];
    colours = colouring(by, nodes);
    measure();
    box.dataset.drawnIn = (performance.now() - began).toFixed(1);
    return colours.legend;
  };
  return box;
}
