// What the drivers of peers share: a closed loop, and processor time by the names of processes.
import fs from "node:fs";

/// Five steps return so much each, about 200 bytes of JSON, as Tenure's do.
export const result = (step) => ({ step, pad: "x".repeat(180) });

/// Processor time of all processes with one of these names, in milliseconds.
function cpu(names) {
  let ticks = 0;
  for (const pid of fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
      if (!names.includes(stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")")))) continue;
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      // Of PostgreSQL's processes, those that have ended count with the first.
      for (const field of [11, 12, 13, 14]) ticks += Number(fields[field]);
    } catch {
      // It has ended meanwhile.
    }
  }
  return ticks * 10;
}

/// So many at a time, each followed by the next; prints a row as the bench `load` does.
export async function closed(peer, one, inFlight, seconds, names) {
  const times = [];
  const before = cpu(names);
  const began = performance.now();
  const until = began + seconds * 1000;
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (performance.now() < until) {
        const at = performance.now();
        await one();
        times.push(performance.now() - at);
      }
    }),
  );
  const took = (performance.now() - began) / 1000;
  const spent = cpu(names) - before;
  times.sort((a, b) => a - b);
  const within = (part) => `${times[Math.floor((times.length - 1) * part)].toFixed(2)}ms`;
  const each = (spent / times.length).toFixed(3);
  console.log(`| ${peer}, ${inFlight} in flight | ${(times.length / took).toFixed(0)} | ${within(0.5)} | ${within(0.99)} | ${each} |`);
}
