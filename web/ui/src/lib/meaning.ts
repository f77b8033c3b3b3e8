/** What each alert of the rules that reckon brings means, for any node and owner. */
const meanings: Record<string, string> = {
  SensorLost: "A sensor of a node worked within the last day and has stopped",
  AgentSilent: "A node has not reported for five minutes",
  NodeDown: "A node has not reported for ten minutes: it is down or unreachable",
  NodeDownInSlurm: "Slurm has marked a node as down, failed or not responding",
  QueueOfUnsentData: "A node cannot send, and more than 100 requests wait on it",
  UnsentDataLost: "A node has dropped data that it could not send",
  ServerDiskFull: "The disk of the reckon server is nearly full",
  ServerBehind: "The lists or the usage of the reckon server are late",
  ServerAway: "One of several reckon servers over one store is silent",
  QueryDoesNotEnd: "A query goes on although nobody waits for its answer any more",
  UsageDiffers: "A check found that the kept usage of an hour differs from the measured counters",
  TwoMachinesOfOneName: "Two machines send under one name, and the second one is refused",
  ClockWrong: "The clock of a machine is more than a minute off",
  SamplesRefused: "The server refuses samples of a sender for good",
  SeriesHeldBack:
    "A node or an owner begins more series than the bound allows, and the new ones are refused",
  ManyProcessGroups: "One owner runs more than 200 process groups at once on a node",
  DiskFullSoon: "A file system will be full within a day",
  DiskFull: "Less than 3 % of a file system is free",
  MemoryFullSoon: "The memory of a node will be used up within an hour",
  MemoryFull: "Less than 3 % of the memory of a node is available",
  OutOfMemoryKill: "The kernel of a node has killed processes for lack of memory",
  ThermalThrottling: "A processor or a GPU runs slower because it is too hot",
  PowerThrottling: "A machine or a GPU runs slower for lack of power",
  GPUErrors: "A GPU has memory errors that could not be corrected",
  GPUXid: "The driver of a GPU reported a fault that no user program causes",
  GPUResetNeeded: "A GPU has faulty memory that its next reset replaces",
  GPUBusErrors: "A GPU had to repeat more than 100 transfers over its bus within an hour",
  InterconnectDown: "A link of the interconnect that worked within the last day is down",
  InterconnectErrors: "A link of the interconnect counts more errors than its standard allows",
  InterconnectSlow: "A link of the interconnect is slower than others of its kind, or than before",
  BatteryLow: "The battery of a machine is nearly empty",
  JobIdleOnGPUs: "A job has held GPUs for an hour and has not used them",
  PodWaits: "Pods or containers have waited for ten minutes to be started",
  PodRestarts: "Containers of one workload were restarted three times or more within an hour",
  OverShare: "One owner uses more than half of a full node while others want it",
  EnergyBudgetExceeded: "A site has used more energy in a day than its budget",
  EnergyBudget: "A site is forecast to use more energy in the next day than its budget",
  Watchdog:
    "This alert always fires: where it stops arriving, the server or the way of alerts has failed",
};

/** The text of a rule for people: templates of its own texts name the label, the rest of them is left out. */
export function meaning(r: { name: string; annotations: Record<string, string> }): string {
  const plain = (text: string) =>
    text
      .replace(/\{\{-?\s*\$labels\.(\w+)[^}]*\}\}/g, (_m, label) => label.toUpperCase())
      .replace(/\{\{-?\s*(printf[^}]*)?\$value[^}]*\}\}/g, "VALUE")
      .replace(/\{\{(?:[^}"]|"[^"]*")*\}\}/g, "")
      .replace(/\s+/g, " ")
      .trim()
      .replace(/\.$/, "");
  return [
    meanings[r.name] ?? r.annotations.description ?? r.annotations.summary,
    r.annotations.runbook,
  ]
    .map((text) => plain(text ?? ""))
    .filter(Boolean)
    .map((text) => text + ".")
    .join(" ");
}
