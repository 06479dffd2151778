// The layout of a state diagram: layers from top to bottom, after Sugiyama. Pure; about 60 states take a few milliseconds.

const ROW = 58;
const GAP = 14;
const SWEEPS = 12;
const LETTER = 5.1;

/** States and edges in layers: `{nodes: Map(name → {x, y, width}), paths: [{edge, points, back}], width, height}`. */
export function arrange(states, edges, initial, widthOf, labelOf = () => null) {
  const pairs = pairsOf(states, edges);
  const back = backEdges(states, pairs, initial);
  const layer = layersOf(states, pairs, back, initial);
  const { rows, chains } = rowsOf(states, pairs, back, layer, widthOf, labelOf);
  order(rows, chains);
  place(rows, chains);
  return drawn(states, rows, chains);
}

function pairsOf(states, edges) {
  const known = new Set(states.map((state) => state.name));
  const pairs = new Map();
  for (const edge of edges) {
    if (edge.from === edge.to || !known.has(edge.from) || !known.has(edge.to)) continue;
    const key = `${edge.from}\n${edge.to}`;
    if (pairs.has(key)) pairs.get(key).edges.push(edge);
    else pairs.set(key, { from: edge.from, to: edge.to, edges: [edge] });
  }
  return [...pairs.values()];
}

/** The edges that lead back, so that all others lead down. */
function backEdges(states, pairs, initial) {
  const out = new Map(states.map((state) => [state.name, []]));
  for (const pair of pairs) out.get(pair.from).push(pair);
  const back = new Set();
  const seen = new Map();
  const visit = (start) => {
    const stack = [[start, 0]];
    seen.set(start, 'open');
    while (stack.length) {
      const top = stack.at(-1);
      const pair = out.get(top[0])[top[1]];
      top[1] += 1;
      if (!pair) {
        seen.set(top[0], 'closed');
        stack.pop();
      } else if (seen.get(pair.to) === 'open') {
        back.add(pair);
      } else if (!seen.has(pair.to)) {
        seen.set(pair.to, 'open');
        stack.push([pair.to, 0]);
      }
    }
  };
  for (const name of [initial, ...states.map((state) => state.name)]) if (out.has(name) && !seen.has(name)) visit(name);
  return back;
}

function layersOf(states, pairs, back, initial) {
  const layer = new Map(states.map((state) => [state.name, 0]));
  const down = pairs.filter((pair) => !back.has(pair));
  // Downward edges have no cycle, so this ends after at most one round per state.
  for (let round = 0, moved = true; moved && round <= states.length; round += 1) {
    moved = false;
    for (const pair of down) {
      const wanted = layer.get(pair.from) + 1;
      if (layer.get(pair.to) < wanted) {
        layer.set(pair.to, wanted);
        moved = true;
      }
    }
  }
  layer.set(initial, 0);
  return layer;
}

/** Rows of items, and the items on each edge: a long edge has a narrow item in every row that it crosses. */
function rowsOf(states, pairs, back, layer, widthOf, labelOf) {
  const rows = [];
  const put = (at, item) => {
    (rows[at] ??= []).push(item);
    return item;
  };
  const items = new Map();
  for (const state of states) {
    const item = {
      name: state.name,
      width: widthOf(state),
      space: widthOf(state),
      row: layer.get(state.name),
      up: [],
      down: [],
      x: 0,
    };
    items.set(state.name, put(item.row, item));
  }
  const chains = pairs.map((pair) => {
    const isBack = back.has(pair);
    const [first, last] = isBack
      ? [items.get(pair.to), items.get(pair.from)]
      : [items.get(pair.from), items.get(pair.to)];
    const chain = [first];
    for (let row = first.row + 1; row < last.row; row += 1)
      chain.push(put(row, { width: 8, space: 8, row, up: [], down: [], x: 0 }));
    chain.push(last);
    for (let i = 1; i < chain.length; i += 1) {
      chain[i - 1].down.push(chain[i]);
      chain[i].up.push(chain[i - 1]);
    }
    // The label of an edge is at its first arrival, in an item as wide as the label.
    const near = isBack ? chain.at(-2) : chain[1];
    near.space = Math.max(near.space, (labelOf(pair)?.length ?? 0) * LETTER);
    return { pair, chain, back: isBack };
  });
  for (let row = 0; row < rows.length; row += 1) rows[row] ??= [];
  return { rows, chains };
}

const mean = (items, value) => items.reduce((sum, item) => sum + value(item), 0) / items.length;

/** Orders each row by the connected items above and below in turn; keeps the order with the fewest crossings. */
function order(rows) {
  const number = () =>
    rows.forEach((row) =>
      row.forEach((item, at) => {
        item.at = at;
      }),
    );
  number();
  let best = rows.map((row) => [...row]);
  let fewest = crossings(rows);
  for (let sweep = 0; sweep < SWEEPS && fewest > 0; sweep += 1) {
    const downwards = sweep % 2 === 0;
    const side = downwards ? 'up' : 'down';
    for (const row of downwards ? rows : [...rows].reverse()) {
      for (const item of row) item.wish = item[side].length ? mean(item[side], (other) => other.at) : item.at;
      row.sort((a, b) => a.wish - b.wish || a.at - b.at);
      row.forEach((item, at) => {
        item.at = at;
      });
    }
    const now = crossings(rows);
    if (now < fewest) {
      fewest = now;
      best = rows.map((row) => [...row]);
    }
  }
  best.forEach((row, at) => {
    rows[at].splice(0, row.length, ...row);
  });
  number();
}

function crossings(rows) {
  let count = 0;
  for (const row of rows) {
    const ends = row.flatMap((item) => item.down.map((below) => [item.at, below.at]));
    for (let i = 0; i < ends.length; i += 1) {
      for (let j = i + 1; j < ends.length; j += 1) {
        if ((ends[i][0] - ends[j][0]) * (ends[i][1] - ends[j][1]) < 0) count += 1;
      }
    }
  }
  return count;
}

/** Moves every item towards the middle of its connected items, within its row. */
function place(rows) {
  for (const row of rows) {
    let x = 0;
    for (const item of row) {
      item.x = x + item.space / 2;
      x += item.space + GAP;
    }
    const shift = x / 2;
    for (const item of row) item.x -= shift;
  }
  for (let round = 0; round < 24; round += 1) {
    const downwards = round % 2 === 0;
    for (const row of downwards ? rows : [...rows].reverse()) {
      const side = downwards ? 'up' : 'down';
      for (const item of row) {
        const others = item[side].length ? item[side] : item[downwards ? 'down' : 'up'];
        item.want = others.length ? mean(others, (other) => other.x) : item.x;
      }
      settleRow(row);
    }
  }
}

/** Returns the positions nearest to the wanted ones that keep the order and the gaps: overlapping items move together. */
function settleRow(row) {
  const runs = [];
  for (const item of row) {
    let run = { items: [item], offsets: [0], wants: item.want, left: item.want };
    runs.push(run);
    while (runs.length > 1) {
      const before = runs.at(-2);
      const lastOf = before.items.at(-1);
      const reach = before.left + before.offsets.at(-1) + (lastOf.space + run.items[0].space) / 2 + GAP;
      if (reach <= run.left) break;
      const shift = before.offsets.at(-1) + (lastOf.space + run.items[0].space) / 2 + GAP;
      before.items.push(...run.items);
      before.offsets.push(...run.offsets.map((offset) => offset + shift));
      before.left = mean(
        before.items.map((each, i) => each.want - before.offsets[i]),
        (value) => value,
      );
      runs.pop();
      run = before;
    }
  }
  for (const run of runs)
    run.items.forEach((item, i) => {
      item.x = run.left + run.offsets[i];
    });
}

function drawn(states, rows, chains) {
  const all = rows.flat();
  const left = Math.min(...all.map((item) => item.x - item.space / 2)) - 14;
  const right = Math.max(...all.map((item) => item.x + item.space / 2)) + 14;
  const at = (item) => ({ x: item.x - left, y: item.row * ROW + 24 });
  const nodes = new Map(all.filter((item) => item.name).map((item) => [item.name, { ...at(item), width: item.width }]));
  const paths = chains.map(({ pair, chain, back }) => {
    const points = chain.map(at);
    return { pair, back, points: back ? points.reverse() : points };
  });
  return { nodes, paths, width: right - left, height: (rows.length - 1) * ROW + 48 };
}
