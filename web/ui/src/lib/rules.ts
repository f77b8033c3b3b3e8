// Code generated from analysis/misuse/rules by go generate ./analysis/misuse; DO NOT EDIT.

/** What a rule finds, in a few words. */
export const ruleWords: Record<string, string> = {
  "over-share": "took more than a fair share",
  "gpu-unused": "GPUs unused",
  "over-requested": "asked for too much",
  "idle-allocation": "allocated, idle",
  "many-small-jobs": "many small jobs",
  "memory-thrashing": "short of memory",
  imbalance: "uneven over nodes",
  "many-connections": "many connections",
  "storage-pattern": "storage pattern",
  "cannot-start": "cannot start",
  anomaly: "unusual",
  "unused-over-time": "unused over days",
};
