// What workloads are called: by what they run, the id is small beside it.
import { duration } from "./units";

/** Who starts a shell, or a command through another, wants what it runs. */
const shells =
  /^-?(ba|da|z|k|tc|c|fi)?sh$|^(slurm_script|timeout|nice|ionice|env|sudo|setsid|nohup|time|unshare|stdbuf|taskset|numactl|xargs|flock|systemd-run)$/;
/** Bare processes have ids of numbers: their program is their name. */
export function titleOf(w: {
  id: string;
  kind?: string;
  name?: string;
  command?: string;
  owner?: string;
}): string {
  const kind = w.kind ?? w.id.split("/")[0],
    tail = w.id.slice(w.id.indexOf("/") + 1);
  if (kind === "other") return "the system";
  if (kind === "short") return `short commands of ${w.owner || tail.split("/")[0]}`;
  if (kind === "session")
    return w.name && !/^\d+$/.test(w.name) && !w.id.endsWith("/" + w.name)
      ? w.name
      : `session of ${w.owner || tail.split("/")[0]}`;
  return (
    (w.command && shells.test(w.name ?? "") && !shells.test(w.command) ? w.command : w.name) ||
    w.command ||
    tail
  );
}
/** `make (alice, 2 h)`: what it runs, of whom, and for how long it has run. */
export function describe(w: {
  id: string;
  kind?: string;
  name?: string;
  command?: string;
  owner?: string;
  wall_seconds?: number;
}): string {
  const title = titleOf(w),
    more = [
      title.endsWith(" of " + w.owner) ? "" : w.owner,
      w.wall_seconds ? duration(w.wall_seconds) : "",
    ]
      .filter(Boolean)
      .join(", ");
  return more ? `${title} (${more})` : title;
}
export interface Same<T> {
  title: string;
  owner: string;
  of: T[];
}
/** Equal names of one owner together, in the order of the first of each. */
export function alike<T>(list: T[], title: (x: T) => string, owner: (x: T) => string): Same<T>[] {
  const by = new Map<string, Same<T>>();
  for (const x of list) {
    const key = owner(x) + "\n" + title(x),
      e = by.get(key);
    if (e) e.of.push(x);
    else by.set(key, { title: title(x), owner: owner(x), of: [x] });
  }
  return [...by.values()];
}

/** Only pods and units of systemd have a log that can be asked for. */
export const logged = (id: string, owner?: string) => {
  const f = id.split("/");
  return f[0] === "unit" || (f.length > 2 && f[1] === owner);
};

const died = ["out_of_memory", "failed", "timeout", "node_fail", "boot_fail", "deadline"];
/** How many of some runs did not end well, by state: "3 of 6 out of memory"; "" where all did. */
export function deaths(runs: { state?: unknown }[]): string {
  const of = (s: string) => runs.filter((w) => String(w.state ?? "").toLowerCase() === s).length;
  return died
    .filter((s) => of(s) > 0)
    .map((s) => `${of(s)} of ${runs.length} ${s.replaceAll("_", " ")}`)
    .join(", ");
}

/**
 * What stands behind the owner of a process group of several users (su, sudo, sshd): how many others used it, or that the
 * totals of the row are a share of it. Empty for any other workload.
 */
export function othersOf(w: { users?: string[]; partial?: boolean }): string {
  const n = w.users?.length ?? 0;
  if (w.partial && n < 2) return "share";
  return n > 1 ? `+${n - 1}` : "";
}
