// The shared parts of the drivers: a closed loop, a first life with many waiting workflows, and resource use of processes.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const hangs = Boolean(process.env.HANG);

/// Each step returns about 200 bytes of JSON, as Tenure's do.
export const result = (step) => ({ step, pad: "x".repeat(180) });

/// One of the five steps. With HANG the third never returns in this life of the worker, and prints a line.
export async function five(step) {
  if (hangs && step === 2) {
    console.log("hangs");
    await new Promise(() => {});
  }
  return result(step);
}

/// Returns the content of a kernel file, or nothing: the process may have ended, or belong to another user.
function told(path) {
  try {
    return fs.readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

const figure = (path, line) => Number(told(path).match(line)?.[1] ?? 0);

/// Returns all processes, with their processor time in milliseconds.
function processes() {
  return fs.readdirSync("/proc").flatMap((pid) => {
    const stat = /^\d+$/.test(pid) ? told(`/proc/${pid}/stat`) : "";
    if (!stat) return [];
    const name = stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // Ended processes of PostgreSQL count with its first one.
    const ticks = [11, 12, 13, 14].reduce((sum, field) => sum + Number(fields[field]), 0);
    return [{ pid: Number(pid), name, parent: Number(fields[1]), cpu: ticks * 10 }];
  });
}

const sum = (list, one) => list.reduce((all, each) => all + one(each), 0);

/// Returns the processor time of all processes with one of these names, and their written bytes, counted by the kernel for each process and
/// for the device. The first counter includes whole large pages of which only a part was written, 20 times the bytes of PostgreSQL's journal
/// on the device; the second includes writes of other programs.
function taken(names) {
  const ours = processes().filter(({ name }) => names.includes(name));
  const written = sum(ours, ({ pid }) => figure(`/proc/${pid}/io`, /^write_bytes: (\d+)/m));
  return { cpu: sum(ours, ({ cpu }) => cpu), written, device: device() };
}

/// Returns the bytes written to the device with the peers' data, or NaN if it has no counter.
function device() {
  const { dev } = fs.statSync(os.tmpdir());
  const [major, minor] = [(dev >> 8) & 0xfff, (dev & 0xff) | ((dev >> 12) & ~0xff)];
  const sectors = told(`/sys/dev/block/${major}:${minor}/stat`).trim().split(/\s+/)[6];
  return sectors === undefined ? NaN : Number(sectors) * 512;
}

/// Flushes the page cache, so that earlier writes count for their writer.
const sync = () => spawnSync("sync", ["-f", os.tmpdir()]);

/// Returns the bytes written since: the smaller one of the two counters.
async function written(names, before) {
  // PostgreSQL's writers have a short delay.
  await sleep(1000);
  sync();
  const after = taken(names);
  const both = [after.written - before.written, after.device - before.device];
  return Math.min(...both.filter((bytes) => !Number.isNaN(bytes)));
}

/// Returns the memory of these processes and their children, in bytes. Shared memory counts once, if the kernel reports it.
function memory(pids) {
  const ours = processes().filter(({ pid, parent }) => pids.includes(pid) || pids.includes(parent));
  const kib = ({ pid }) => figure(`/proc/${pid}/smaps_rollup`, /^Pss: +(\d+)/m) || figure(`/proc/${pid}/status`, /^VmRSS:\s+(\d+)/m);
  return sum(ours, kib) * 1024;
}

const within = (times, part) => times.sort((a, b) => a - b)[Math.floor((times.length - 1) * part)];

/// Formats a time as Tenure's benches do.
const span = (ms) => (ms < 1000 ? `${ms.toFixed(2)}ms` : `${(ms / 1000).toFixed(2)}s`);

/// Runs a closed loop, and prints a row as the bench `load` does.
export async function closed(peer, one, inFlight, seconds, names) {
  const times = [];
  sync();
  const before = taken(names);
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
  const cpu = (taken(names).cpu - before.cpu) / times.length;
  const bytes = (await written(names, before)) / times.length;
  const figures = [(times.length / took).toFixed(0), `${within(times, 0.5).toFixed(2)}ms`, `${within(times, 0.99).toFixed(2)}ms`];
  console.log(`| ${peer}, ${inFlight} in flight | ${figures.join(" | ")} | ${cpu.toFixed(3)} | ${bytes.toFixed(0)} |`);
}

/// Calls it with 0 to `count`, 64 at a time.
async function many(count, one) {
  let next = 0;
  const lane = async () => {
    while (next < count) await one(next++);
  };
  await Promise.all(Array.from({ length: 64 }, lane));
}

/// Measures from an acknowledged decision to the end. The waiter for the end starts before, so that no poll is needed.
async function decided(peer, n) {
  const end = peer.end(n).then(() => performance.now());
  // So that the waiter has started.
  await sleep(10);
  await peer.decide(n);
  const answered = performance.now();
  return Math.max(0, (await end) - answered);
}

/// A first life: workflows wait for a decision, a thousand of them get one, and others begin five steps. Prints the memory of each waiting
/// workflow, and p50 and p99 of decisions; the caller kills it when all five steps hang.
export async function waits(peer, parked, walking) {
  // Excludes the memory of the start; the memory of starting workflows is mostly free again by then.
  const quiet = 10_000;
  await sleep(quiet);
  // The cost of the request itself counts in both.
  await peer.allWait(0);
  const before = memory(peer.pids);
  await many(parked, peer.park);
  await peer.allWait(parked);
  await sleep(quiet);
  const each = (memory(peer.pids) - before) / parked;
  const times = [];
  for (let n = 0; n < Math.min(parked, 1000); n++) times.push(await decided(peer, n));
  await many(walking, peer.walk);
  console.log(`| ${each.toFixed(0)} B | ${span(within(times, 0.5))} | ${span(within(times, 0.99))} |`);
}

/// A second life: prints the time from its start until all have ended, in milliseconds.
export async function ended(began, all) {
  const late = setTimeout(() => {
    console.error("not all have ended within ten minutes");
    process.exit(1);
  }, 600_000);
  await all();
  clearTimeout(late);
  console.log(span(Date.now() - began));
}
