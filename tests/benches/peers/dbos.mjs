// DBOS Transact (TypeScript) on PostgreSQL. Worker and client are one process, which favours DBOS: a handle in the worker's process does
// not poll, all others poll each second.
//
//   node dbos.mjs load URL IN_FLIGHT SECONDS
//   node dbos.mjs waits URL PARKED WALKING POSTGRES    the first life, POSTGRES the number of PostgreSQL's first process
//   node dbos.mjs worker URL                           the second life, which continues the work of the first
//   node dbos.mjs ended URL WALKING BEGAN              parallel to the second, until all five steps have ended
import { DBOS } from "@dbos-inc/dbos-sdk";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { closed, ended, five, result, waits } from "./load.mjs";

const [role, url, ...rest] = process.argv.slice(2);
const [first, second, third] = rest.map(Number);
const w5 = DBOS.registerWorkflow(
  async () => {
    for (let step = 0; step < 5; step++) {
      await DBOS.runStep(async () => five(step), { name: `step ${step}` });
    }
  },
  { name: "w5" },
);
let waiting = 0;
const a1 = DBOS.registerWorkflow(
  async () => {
    await DBOS.runStep(async () => result(0), { name: "before" });
    waiting++;
    // Wakes by PostgreSQL's NOTIFY. In addition, each waiter polls every ten seconds by default.
    await DBOS.recv("decision", { timeoutSeconds: 86_400 });
    await DBOS.runStep(async () => result(1), { name: "after" });
  },
  { name: "a1" },
);

async function launch() {
  DBOS.setConfig({ name: "bench", systemDatabaseUrl: url, logLevel: "error", runAdminServer: false });
  await DBOS.launch();
}

async function firstLife() {
  await launch();
  const handles = new Map();
  const peer = {
    pids: [process.pid, third],
    park: async (n) => {
      const handle = await DBOS.startWorkflow(a1, { workflowID: `a1-${n}` })();
      if (n < 1000) handles.set(n, handle);
    },
    allWait: async (parked) => {
      while (waiting < parked) await sleep(100);
    },
    end: (n) => handles.get(n).getResult(),
    decide: (n) => DBOS.send(`a1-${n}`, "yes", "decision"),
    walk: (n) => DBOS.startWorkflow(w5, { workflowID: `w5-${n}` })(),
  };
  await waits(peer, first, second);
}

/// Queries the database once for all workflows; separate waiters would each poll every second.
async function allEnded(walking) {
  const client = new pg.Client(url);
  await client.connect();
  const text = "SELECT count(*) FROM dbos.workflow_status WHERE name = 'w5' AND status = 'SUCCESS'";
  while (Number((await client.query(text)).rows[0].count) < walking) await sleep(50);
  await client.end();
}

if (role === "load") {
  await launch();
  const one = async () => (await DBOS.startWorkflow(w5)()).getResult();
  await closed("DBOS", one, first, second, ["node", "postgres"]);
  process.exit(0);
} else if (role === "waits") {
  await firstLife();
} else if (role === "worker") {
  await launch();
} else {
  await ended(second, () => allEnded(first));
}
