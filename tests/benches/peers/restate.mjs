// Restate: node restate.mjs worker PORT, and beside it: node restate.mjs load IN_FLIGHT SECONDS
import * as restate from "@restatedev/restate-sdk";
import { closed, result } from "./load.mjs";

// The SDK asks for Node 22; with this one it runs on 20 too.
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const [role, ...rest] = process.argv.slice(2).map((word, at) => (at === 0 ? word : Number(word)));
if (role === "worker") {
  const w5 = restate.service({
    name: "W5",
    handlers: {
      run: async (context) => {
        for (let step = 0; step < 5; step++) await context.run(`step ${step}`, async () => result(step));
        return "done";
      },
    },
  });
  await restate.serve({ services: [w5], port: rest[0] });
} else {
  const [inFlight, seconds] = rest;
  const one = async () => {
    const answer = await fetch("http://127.0.0.1:8080/W5/run", { method: "POST" });
    if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
    await answer.text();
  };
  await closed("Restate", one, inFlight, seconds, ["restate-server", "node", "tokio-runtime-w"]);
  process.exit(0);
}
