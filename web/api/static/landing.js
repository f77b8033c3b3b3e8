"use strict";
// The live table of the landing page. All text goes in by textContent, so that the
// name of a workload is never read as HTML.
(() => {
  const shown = 20;
  const body = document.getElementById("workloads");
  const machine = document.getElementById("machine");
  const caption = document.getElementById("caption");

  const unknown = "\u2013";
  function bytes(n, suffix = "") {
    if (n === null || n === undefined) return unknown;
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let i = 0;
    while (n >= 1023.5 && i < units.length - 1) { n /= 1024; i++; }
    return (i === 0 || n >= 100 ? n.toFixed(0) : n.toFixed(1)) + " " + units[i] + suffix;
  }
  const cores = (n) => (n === null || n === undefined ? unknown : n.toFixed(n < 10 ? 2 : 1));

  function cell(row, text, title, number) {
    const td = row.insertCell();
    td.textContent = text;
    if (title) td.title = title;
    if (number) td.className = "number";
    return td;
  }

  function row(w) {
    const tr = document.createElement("tr");
    const link = document.createElement("a");
    link.href = "/api/reckon/v1/workloads/" + w.id.split("/").map(encodeURIComponent).join("/");
    link.textContent = w.id + (w.part ? " " + w.part : "");
    cell(tr, "").append(link, w.name && !w.id.endsWith("/" + w.name) ? " " + w.name : "");
    cell(tr, w.owner);
    cell(tr, cores(w.cores), w.cores === undefined ? "" : w.cores + " cores", true);
    cell(tr, bytes(w.memory), w.memory === null ? "not measured" : w.memory + " bytes", true);
    cell(tr, bytes(w.read, w.rate ? "/s" : ""), "", true);
    cell(tr, bytes(w.write, w.rate ? "/s" : ""), "", true);
    if (gpus) {
      cell(tr, cores(w.gpu), w.gpu === undefined ? "no GPU open" : w.gpu + " GPUs", true);
      cell(tr, bytes(w.gpuMemory), "memory of GPUs", true);
      cell(tr, w.gpuWatts === undefined ? unknown : w.gpuWatts.toFixed(0) + " W", "power caused in GPUs", true);
    }
    cell(tr, w.processes === null || w.processes === undefined ? unknown : String(w.processes), "", true);
    return tr;
  }

  function show(list) {
    if (body.contains(document.activeElement)) return; // do not take the link from under a keyboard
    body.replaceChildren(...list.slice(0, shown).map(row));
  }

  // withGPUs adds the headings of GPUs once, before the last one.
  let gpus = false;
  function withGPUs() {
    if (gpus) return;
    gpus = true;
    const head = body.parentElement.tHead.rows[0];
    for (const text of ["GPUs", "GPU memory", "GPU power"]) {
      const th = document.createElement("th");
      th.scope = "col";
      th.className = "number";
      th.textContent = text;
      head.insertBefore(th, head.lastElementChild);
    }
  }

  function live(t) {
    if (t.gpus) withGPUs();
    machine.textContent = `${t.node}: ${cores(t.cores_used)} of ${t.cores} cores, ${bytes(t.memory_used_bytes)} of ${bytes(t.memory_bytes)} in use, ${t.workloads.length} workloads`;
    const list = t.workloads.map((w) => ({
      id: w.id, part: w.part, name: w.name, owner: w.owner, cores: w.cores, memory: w.memory_bytes,
      read: w.io_read_bytes_per_second, write: w.io_write_bytes_per_second, rate: true, processes: w.processes,
      gpu: w.gpu, gpuMemory: w.gpu_memory_bytes, gpuWatts: w.gpu_watts,
    }));
    list.sort((a, b) => b.cores - a.cores || (b.memory || 0) - (a.memory || 0));
    show(list);
  }

  // A server without an agent has no live stream: show what the store knows instead.
  async function stored() {
    try {
      const answer = await fetch("/api/reckon/v1/workloads?running=true&sort=-cpu_seconds&limit=" + shown);
      const list = await answer.json();
      if (!answer.ok) throw new Error(list.error);
      caption.textContent = "Running workloads by CPU time, from the store";
      machine.textContent = `${list.total} workloads run`;
      show(list.workloads.map((w) => ({
        id: w.id, name: w.name, owner: w.owner, cores: w.cores_mean, memory: w.memory_bytes,
        read: w.io_read_bytes, write: w.io_write_bytes, processes: w.processes,
      })));
    } catch (err) {
      machine.textContent = "No figures: " + err.message;
    }
    setTimeout(stored, 15000);
  }

  const source = new EventSource("/api/reckon/v1/live");
  source.addEventListener("live", (event) => live(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) stored();
    else machine.textContent = "Connection lost; trying again.";
  });
})();
