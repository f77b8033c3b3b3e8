// People, services and namespaces: who used what in the range.
import { useAskOver } from "../lib/api";
import { Bar, clean, Empty, isOf, opposite, Q, same, Section, Show, Table } from "../lib/parts";
import { asked, named, range, rangeBetween } from "../lib/range";
import { unusedCores } from "../lib/ranked";
import { introduced, me, nothing, ownerLink, param, set } from "../lib/state";
import { query } from "../lib/search";
import type { Num, Usage, UsageList } from "../lib/types";
import { known } from "../lib/units";

export const measures: [string, string, string][] = [
  ["cpu_seconds", "CPU", "core-seconds"],
  ["gpu_seconds", "GPU", "gpu-seconds"],
  ["memory_byte_seconds", "Memory", "byte-seconds"],
  ["energy_joules", "Energy", "joules"],
  ["cpu_wait_seconds", "CPU wait", "core-seconds"],
];

type Person = Usage & { kinds: Usage[] };
/** The rows of each owner, one for each kind of work, added up. */
function byOwner(rows: Usage[]): Person[] {
  const out = new Map<string, Person>();
  for (const u of rows) {
    const had = out.get(u.owner ?? "");
    if (!had) {
      out.set(u.owner ?? "", { ...u, exactness: { ...(u.exactness as object) }, kinds: [u] });
      continue;
    }
    had.kinds.push(u);
    for (const k of [
      "cpu_seconds",
      "held_core_seconds",
      "gpu_seconds",
      "energy_joules",
      "started",
    ] as const)
      if (known(u[k])) had[k] = (known(had[k]) ? Number(had[k]) : 0) + u[k];
    Object.assign(had.exactness as object, u.exactness);
  }
  return [...out.values()];
}

export function Owners() {
  const by = param("sort") || "-cpu_seconds",
    find = param("q");
  const path = "/api/reckon/v1/usage?" + query({ ...asked(range.value), by: "owner" }),
    a = useAskOver<UsageList>(
      introduced.value ? path + "&by=kind" : null, // use of one kind does not hide waste of another
      range.value,
    );
  const of = (r: Person) =>
    (by.endsWith("owner")
      ? (r.owner ?? "")
      : by.endsWith("unused")
        ? unusedCores(r.kinds)
        : r[by.replace(/^-/, "")]) as string | number | null;
  return (
    <>
      <h1>People</h1>
      <div class="controls">
        <label class="search">
          <span class="hidden">Find owners by name</span>
          <input
            type="search"
            data-search
            placeholder="Find by name"
            value={find}
            onInput={(e) => set({ q: e.currentTarget.value })}
          />
        </label>
        <a href={path + "&format=csv"} download="owners.csv">
          CSV
        </a>{" "}
        <a href={path} download="owners.json">
          JSON
        </a>
      </div>
      <Show a={a}>
        {(d) => {
          const sign = by.startsWith("-") ? -1 : 1,
            people = byOwner(d.rows);
          const rows = people
            .filter((r) => (r.owner ?? "").toLowerCase().includes(find.toLowerCase()))
            .sort((x, y) => {
              const p = of(x),
                q = of(y);
              if (p === null || p === undefined) return 1;
              if (q === null || q === undefined) return -1;
              return (
                sign * (typeof p === "number" ? p - Number(q) : String(p).localeCompare(String(q)))
              );
            });
          if (rows.length === 0)
            return (
              <Empty>
                {d.rows.length
                  ? "No owner has such a name."
                  : nothing() +
                    " was used in this time, or it is still within the first hour: history is kept by the hour."}
              </Empty>
            );
          const all = d.total.cpu_seconds as Num;
          return (
            <>
              <p class="sub">
                {people.length === 1 ? (
                  "One owner"
                ) : (
                  <>
                    <Q v={people.length} unit="count" /> people and services
                  </>
                )}{" "}
                used <Q v={all} unit="core-seconds" is={isOf(d.total, "cpu_seconds")} /> in this
                time.
                {me.value?.role === "user" && " You see the sum of others, not their names."}
              </p>
              <Section
                title={`${rows.length} owner${rows.length === 1 ? "" : "s"}`}
                aside={
                  <span class="quiet when">
                    {named(rangeBetween(d.since, d.until))}, in whole hours; hours are core-hours
                  </span>
                }
              >
                <Table
                  caption="Owners"
                  rows={rows}
                  keyOf={(r, i) => (r.owner ?? "") + i}
                  sort={by}
                  onSort={(s) => set({ sort: s === "-cpu_seconds" ? "" : s })}
                  cols={[
                    {
                      title: "Owner",
                      sort: "owner",
                      cell: (r) =>
                        r.owner && r.owner !== "others" ? (
                          <a href={ownerLink(r.owner)}>
                            <bdi>{clean(r.owner).slice(0, 60)}</bdi>
                          </a>
                        ) : (
                          r.owner || "nobody"
                        ),
                    },
                    {
                      title: "Used",
                      sort: "cpu_seconds",
                      number: true,
                      cell: (r) => (
                        <Q
                          v={r.cpu_seconds}
                          unit="core-h"
                          is={isOf(r, "cpu_seconds")}
                          of={same("used cpu", "owner " + (r.owner || "nobody"), d)}
                        />
                      ),
                    },
                    {
                      title: "Share of what was used",
                      wide: true,
                      cell: (r) => (
                        <Bar
                          v={r.cpu_seconds as Num}
                          of={all}
                          unit="seconds"
                          label={"Share of " + clean(r.owner ?? "nobody")}
                        />
                      ),
                    },
                    {
                      title: "Allocated",
                      sort: "held_core_seconds",
                      number: true,
                      cell: (r) => (
                        <Q
                          v={r.held_core_seconds}
                          unit="core-h"
                          is={isOf(r, "held_core_seconds")}
                          of={same("allocated cpu", "owner " + (r.owner || "nobody"), d)}
                        />
                      ),
                    },
                    {
                      title: "Unused",
                      sort: "unused",
                      number: true,
                      cell: (r) => (
                        <Q
                          v={unusedCores(r.kinds)}
                          unit="core-h"
                          is={
                            isOf(r, "cpu_seconds") === "at least"
                              ? opposite("at least")
                              : (isOf(r, "held_core_seconds") ?? isOf(r, "cpu_seconds"))
                          }
                          note="allocated and not used"
                          of={same("unused cpu", "owner " + (r.owner || "nobody"), d)}
                        />
                      ),
                    },
                    {
                      title: "GPUs",
                      sort: "gpu_seconds",
                      number: true,
                      cell: (r) => (
                        <Q
                          v={r.gpu_seconds}
                          unit="gpu-seconds"
                          is={isOf(r, "gpu_seconds")}
                          of={same("used gpu", "owner " + (r.owner || "nobody"), d)}
                        />
                      ),
                    },
                    {
                      title: "Energy",
                      sort: "energy_joules",
                      number: true,
                      cell: (r) => (
                        <Q
                          v={r.energy_joules}
                          unit="joules"
                          is={isOf(r, "energy_joules")}
                          of={same("used energy", "owner " + (r.owner || "nobody"), d)}
                        />
                      ),
                    },
                    {
                      title: "Workloads",
                      sort: "started",
                      number: true,
                      cell: (r) => (
                        <Q
                          v={r.started}
                          unit="count"
                          of={same("started", "owner " + (r.owner || "nobody"), d)}
                        />
                      ),
                    },
                    {
                      title: "",
                      cell: (r) =>
                        r.owner && r.owner !== "others" ? (
                          <a
                            href={"/usage?" + new URLSearchParams({ owner: r.owner })}
                            aria-label={"Usage of " + clean(r.owner)}
                          >
                            usage
                          </a>
                        ) : null,
                    },
                  ]}
                />
              </Section>
            </>
          );
        }}
      </Show>
    </>
  );
}
