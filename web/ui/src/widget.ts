// The efficiency of a user's latest jobs, or of one job, in a page of another server such as Open OnDemand: one script tag. It is asked for with a
// token that expires within an hour (data-token), or the page brings the answer of /api/reckon/v1/workloads along (data-jobs). It reads no cookie.
{
  interface Job {
    id: string;
    name: string;
    start: string;
    state?: string;
    running: boolean;
    wall_seconds: number | null;
    cpu_seconds: number | null;
    allocated_cores?: number | null;
    memory_needed_peak_bytes?: number | null;
    allocated_memory_bytes?: number | null;
    exactness?: Record<string, string>;
  }
  const script = document.currentScript as HTMLScriptElement,
    base = new URL(script.src).origin,
    { token, jobs, job, count } = script.dataset,
    host = document.createElement("div"),
    root = host.attachShadow({ mode: "open" }),
    sheet = new CSSStyleSheet();
  sheet.replaceSync(
    `:host{display:block;font:14px/1.4 system-ui,sans-serif}table{border-collapse:collapse;width:100%}caption{text-align:left;font-weight:600}th,td{text-align:left;padding:.25em .6em .25em 0;border-bottom:1px solid #8886;font-weight:400}thead th{font-weight:600}th{overflow-wrap:anywhere}thead th{overflow-wrap:normal}`,
  );
  root.adoptedStyleSheets = [sheet];
  script.after(host);
  const put = (parent: Node, tag: string, text = "") => {
      const e = document.createElement(tag);
      e.textContent = text;
      parent.appendChild(e);
      return e;
    },
    known = (v: unknown): v is number => typeof v === "number" && Number.isFinite(v),
    short = (v: number) => String(Number(v.toPrecision(v < 100 ? 2 : 3))),
    sign = (w: Job, key: string) =>
      ({ "at least": "≥ ", "at most": "≤ ", estimated: "~ ", modelled: "~ " })[
        w.exactness?.[key] ?? ""
      ] ?? "";
  /** "43 % of 16 cores", or that it was not measured, or is not yet. */
  const share = (w: Job, used: unknown, whole: unknown, of: string, sign: string) =>
    !known(used)
      ? w.state === "pending"
        ? "not started"
        : "not measured"
      : !known(whole) || whole <= 0
        ? "no allocation known"
        : `${sign}${Math.min(100, Math.round((100 * used) / whole))} % of ${of}`;
  const show = (list: Job[]) => {
    if (list.length === 0) return void put(root, "p", "reckon has measured no job of yours yet.");
    const table = put(root, "table");
    put(table, "caption", "What your jobs used of what they were allocated");
    const head = put(put(table, "thead"), "tr");
    for (const t of ["Job", "State", "CPU", "Memory"])
      put(head, "th", t).setAttribute("scope", "col");
    const body = put(table, "tbody");
    for (const w of list) {
      const row = put(body, "tr"),
        cell = put(row, "th"),
        a = put(cell, "a", (w.name || w.id).slice(0, 40)) as HTMLAnchorElement,
        cores = w.allocated_cores,
        memory = w.allocated_memory_bytes;
      cell.setAttribute("scope", "row");
      a.href = `${base}/workload?${new URLSearchParams({ id: w.id, start: w.start })}`;
      a.title = w.id;
      a.target = "_blank";
      a.rel = "noopener";
      put(row, "td", (w.state ?? (w.running ? "running" : "ended")).replaceAll("_", " "));
      put(
        row,
        "td",
        share(
          w,
          w.cpu_seconds,
          known(cores) && known(w.wall_seconds) ? cores * w.wall_seconds : null,
          `${cores} core${cores === 1 ? "" : "s"}`,
          sign(w, "cpu_seconds"),
        ),
      );
      put(
        row,
        "td",
        share(
          w,
          w.memory_needed_peak_bytes,
          memory,
          `${short((memory ?? 0) / 2 ** 30)} GiB`,
          sign(w, "memory_needed_peak_bytes"),
        ),
      );
    }
  };
  const asked = async (): Promise<Job[]> => {
    if (jobs !== undefined) return (JSON.parse(jobs) as { workloads: Job[] }).workloads;
    const path = job
        ? job.split("/").map(encodeURIComponent).join("/")
        : "?" + new URLSearchParams({ kind: "slurm", sort: "-start", limit: count ?? "5" }),
      r = await fetch(`${base}/api/reckon/v1/workloads${job ? "/" : ""}${path}`, {
        credentials: "omit",
        headers: { Authorization: "Bearer " + token },
      }),
      d = await r.json();
    if (!r.ok) throw new Error(d.error);
    return job ? [d as Job] : (d as { workloads: Job[] }).workloads;
  };
  asked().then(show, (err: Error) =>
    put(
      root,
      "p",
      `Figures of reckon cannot be shown (${err.message}): is the token younger than an hour, and does the setting widget-origins of ${base} name this page?`,
    ).setAttribute("role", "alert"),
  );
}
