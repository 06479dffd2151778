// DBOS Transact (TypeScript) on PostgreSQL: node dbos.mjs URL IN_FLIGHT SECONDS
import { DBOS } from "@dbos-inc/dbos-sdk";
import { closed, result } from "./load.mjs";

const [url, inFlight, seconds] = process.argv.slice(2);
const w5 = DBOS.registerWorkflow(
  async () => {
    for (let step = 0; step < 5; step++) {
      await DBOS.runStep(async () => result(step), { name: `step ${step}` });
    }
  },
  { name: "w5" },
);
DBOS.setConfig({ name: "bench", systemDatabaseUrl: url, logLevel: "error", runAdminServer: false });
await DBOS.launch();
const one = async () => (await DBOS.startWorkflow(w5)()).getResult();
await closed("DBOS", one, Number(inFlight), Number(seconds), ["node", "postgres"]);
process.exit(0);
