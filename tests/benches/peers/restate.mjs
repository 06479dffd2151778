// Restate, with a separate server:
//
//   node restate.mjs worker PORT
//   node restate.mjs load IN_FLIGHT SECONDS
//   node restate.mjs waits PARKED WALKING PID...    the first life, PID the processes of Restate
//   node restate.mjs ended WALKING BEGAN            in the second, until all five steps have ended
import * as restate from "@restatedev/restate-sdk";
import { setTimeout as sleep } from "node:timers/promises";
import { closed, ended, five, result, waits } from "./load.mjs";

// The SDK requires Node 22; this version also runs on 20.
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const w5 = restate.service({
  name: "W5",
  handlers: {
    run: async (context) => {
      for (let step = 0; step < 5; step++) await context.run(`step ${step}`, async () => five(step));
      return "done";
    },
  },
});
const a1 = restate.workflow({
  name: "A1",
  handlers: {
    run: async (context) => {
      await context.run("before", async () => result(0));
      await context.promise("decision");
      await context.run("after", async () => result(1));
    },
    decide: async (context) => context.promise("decision").resolve("yes"),
  },
});

async function ask(path, options = { method: "POST" }) {
  const answer = await fetch(`http://127.0.0.1:${path}`, options);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status}: ${text}`);
  return text;
}

/// Returns how many A1 workflows use neither a connection nor memory of the worker. Restate unloads one after a minute, by default. Called
/// rarely: the answer uses memory of the server, which would count for the waiting workflows.
async function suspended() {
  const query = "SELECT count(*) AS count FROM sys_invocation WHERE target_service_name = 'A1' AND status = 'suspended'";
  const headers = { "content-type": "application/json", accept: "application/json" };
  return JSON.parse(await ask("9070/query", { method: "POST", headers, body: JSON.stringify({ query }) })).rows[0].count;
}

const firstLife = (pids) => ({
  pids,
  park: (n) => ask(`8080/A1/${n}/run/send`),
  allWait: async (parked) => {
    while ((await suspended()) < parked) await sleep(10_000);
  },
  end: (n) => ask(`8080/restate/workflow/A1/${n}/attach`, {}),
  decide: (n) => ask(`8080/A1/${n}/decide`),
  walk: (n) => ask("8080/W5/run/send", { method: "POST", headers: { "idempotency-key": `${n}` } }),
});

/// Waits for one of five steps while its server starts. No poll: the server answers when it has ended.
async function end(n) {
  for (;;) {
    try {
      return await ask(`8080/restate/invocation/W5/run/${n}/attach`, {});
    } catch {
      await sleep(50);
    }
  }
}

const [role, ...rest] = process.argv.slice(2);
const [first, second, ...more] = rest.map(Number);
if (role === "worker") {
  await restate.serve({ services: [w5, a1], port: first });
} else if (role === "load") {
  await closed("Restate", () => ask("8080/W5/run"), first, second, ["restate-server", "node", "tokio-runtime-w"]);
  process.exit(0);
} else if (role === "waits") {
  await waits(firstLife(more), first, second);
} else {
  await ended(second, async () => {
    // Only one client connects while the server starts: a thousand would delay the start by many seconds.
    await end(0);
    await Promise.all(Array.from({ length: first }, (_, n) => end(n)));
  });
  process.exit(0);
}
