// The wire types of package client, as far as the pages use them. null or absent: not measured.
import type { Capacity, Num, Row, Used } from "./vocabulary";

export type { Num, Used };

export interface Workload extends Row {
  id: string;
  kind: string;
  name: string;
  owner: string;
  site?: string;
  account?: string;
  partition?: string;
  command?: string;
  nodes: string[];
  start: string;
  end: string | null;
  seen: string;
  running: boolean;
  exit_code?: number;
  wall_seconds: number;
  state?: string;
  reason?: string;
  submit?: string;
  cost?: number;
  currency?: string;
  within?: Used;
  ended_by?: string;
  ended_by_user?: string;
  qos?: string;
  lost?: boolean;
  users?: string[];
  partial?: boolean;
  [figure: string]: unknown;
}
export interface WorkloadList {
  workloads: Workload[];
  total: number;
  missing?: string[];
}
export interface Point {
  time: string;
  value: number | null;
}
export interface Profile {
  metric: string;
  unit: string;
  node?: string;
  part?: string;
  command?: string;
  points: Point[];
}
export interface Verdict {
  kind: string;
  severity: string;
  text: string;
  value: number;
  unit: string;
}
export interface Event {
  kind: string;
  from: string;
  to: string;
  node?: string;
  part?: string;
  value: number;
  unit: string;
}
export interface Advice {
  runs: number;
  cores: Num;
  memory_bytes: Num;
  seconds: Num;
  gpus: Num;
  nodes: number;
  paste?: string;
  why: string[];
}
export interface Step {
  id: string;
  name?: string;
  state?: string;
  start: string | null;
  end: string | null;
  wall_seconds: Num;
  exit_code: Num;
  nodes?: string;
  cores: Num;
  cpu_seconds: Num;
  memory_peak_bytes: Num;
  memory_needed_peak_bytes?: Num;
  gpu_seconds?: Num;
  accounted?: boolean;
}
export interface Members {
  id: string;
  kind: string;
  name: string;
  owner: string;
  site?: string;
  waiting?: boolean;
  states: { state: string; count: number }[];
  submit: string | null;
  start: string | null;
  end: string | null;
  sums: {
    measured: number;
    cpu_seconds: Num;
    core_seconds: Num;
    cpu_share: Num;
    gpu_seconds: Num;
    gpu_held_seconds: Num;
    energy_joules: Num;
    io_read_bytes: Num;
    io_write_bytes: Num;
    oom_kills: Num;
    wall_seconds: number;
    longest_seconds: number;
    memory_peak_bytes: Num;
  };
  verdicts: Verdict[];
  members: Workload[];
  missing?: string[];
}
export interface Bucket {
  low: number;
  high: number;
  seconds: number;
}
export interface WorkloadDetail extends Workload {
  step_seconds: number;
  profile: Profile[];
  commands: { command: string; cpu_seconds: number; processes?: Num }[];
  cores_histogram?: Bucket[];
  cores_histogram_step_seconds?: Num;
  parts?: {
    node: string;
    part: string;
    cpu_seconds: Num;
    memory_peak_bytes: Num;
    gpu_seconds?: Num;
  }[];
  steps?: Step[];
  verdicts?: Verdict[];
  events?: Event[];
  energy_method?: string;
  gpu_engines?: Record<string, number>;
  advice?: Advice | null;
  /** Why there is none, and from when on there is one. */ no_advice?: Verdict;
  lives?: { start: string; end: string | null; owner: string; name: string }[];
}
export interface Sensor {
  sensor: string;
  up: boolean;
  reason?: string;
}
export interface Node {
  node: string;
  site?: string;
  agent?: boolean;
  up: boolean;
  seen: string;
  boot?: string;
  cores: Num;
  cores_used: Num;
  memory_bytes: Num;
  memory_used_bytes: Num;
  load1?: Num;
  cpu_pressure?: Num;
  network_bytes_per_second?: Num;
  disk_bytes_per_second?: Num;
  power_watts?: Num;
  power_idle_watts?: Num;
  power_method?: string;
  co2_grams_per_hour?: Num;
  cost_per_hour?: Num;
  currency?: string;
  workloads: number;
  agent_cpu_cores?: Num;
  agent_memory_bytes?: Num;
  sensors: Sensor[];
  distribution?: string;
  kernel?: string;
  memory_pressure?: Num;
  io_pressure?: Num;
  gpus?: Num;
  gpus_used?: Num;
  gpu_memory_bytes?: Num;
  gpu_memory_used_bytes?: Num;
  gpu_power_watts?: Num;
  batch?: NodeBatch;
  day?: NodeSpan;
  week?: NodeSpan;
  waiting?: { jobs: number; now: number; core_seconds: number };
}
export interface NodeBatch {
  state: string;
  open: boolean;
  flags?: string[];
  reason?: string;
  partitions: string[] | null;
  cores: Num;
  cores_held: Num;
  memory_bytes: Num;
  memory_held_bytes: Num;
  gpus: Num;
  gpus_held: Num;
}
export interface NodeSpan {
  since: string;
  up_seconds: Num;
  up_share: Num;
  cores_used: Num;
  cpu_share: Num;
  memory_share: Num;
  unused_core_seconds: Num;
  gpu_seconds: Num;
  energy_joules: Num;
}
export interface NodeList {
  nodes: Node[];
  as_of?: string;
  missing?: string[];
}
export interface Usage extends Used, Capacity {
  from: string | null;
  site?: string;
  owner?: string;
  account?: string;
  partition?: string;
  node?: string;
  command?: string;
  kind?: string;
  capacity_share: Num;
  [figure: string]: unknown;
}
export interface UsageList {
  since: string;
  until: string;
  span: string;
  by: string[];
  rows: Usage[];
  total: Usage;
  missing?: string[];
  proof?: string;
  pending?: {
    workloads: number;
    request_cores: Num;
    request_gpus: Num;
    longest_seconds: Num;
  } | null;
}
export interface LiveWorkload {
  id: string;
  part?: string;
  name: string;
  owner: string;
  cores: number;
  memory_bytes: Num;
  io_read_bytes_per_second: Num;
  io_write_bytes_per_second: Num;
  processes: number;
  command: string;
}
export interface Live {
  time: string;
  node: string;
  cores: number;
  cores_used: Num;
  memory_bytes: Num;
  memory_used_bytes: Num;
  workloads: LiveWorkload[];
}
export interface ScaleRun {
  id: string;
  start: string;
  cores: number;
  cores_from: string;
  seconds: number;
  cpu_seconds?: Num;
  speedup: Num;
}
export interface Scale {
  runs: ScaleRun[];
  left_out: number;
  verdicts: Verdict[] | null;
}
export interface Finding {
  id: string;
  site?: string;
  rule: string;
  means?: string;
  severity: string;
  state: string;
  owner: string;
  workload?: string;
  node?: string;
  part?: string;
  text: string;
  first: string;
  last: string;
  found: string;
  seen: string;
  evidence: { text: string; value: number; unit: string; limit?: Num; wasted?: boolean }[];
  acknowledged_by?: string;
  acknowledged?: string;
  muted_until?: string;
  mute_reason?: string;
  queries?: FindingQuery[];
}
export interface FindingQuery {
  text: string;
  query: string;
}
/** A figure that was withheld because it violated a bound. */
export interface Inconsistent {
  figure: string;
  rule: string;
  count: number;
  subject: string;
  value: number;
  bound: number;
  of: string;
  time: string;
}
export interface FindingSteps {
  total: number;
  unit: string;
  start: string;
  end: string;
  note?: string;
  steps: {
    node: string;
    start: string;
    end: string;
    use: number;
    fair: number;
    capacity: number;
    owners: number;
    why: string;
    seconds: number;
  }[];
}
export interface FindingDifference {
  since: string;
  now: number;
  then: number;
  added: Finding[];
  removed: Finding[];
}
export interface DataTable {
  from: string;
  to: string;
  step_seconds: number;
  times: string[];
  columns: {
    name: string;
    unit: string;
    help: string;
    source: string;
    rate: boolean;
    values: (number | null)[];
  }[];
  warnings: string[];
}
export interface Pair {
  a: string;
  b: string;
  points: number;
  effective: Num;
  pearson: Num;
  low: Num;
  high: Num;
  spearman: Num;
  lag_seconds: number;
  lag_pearson: Num;
  lag_points: number;
}
export interface Correlation {
  step_seconds: number;
  rows: number;
  columns: string[];
  pairs: Pair[];
  warnings: string[];
}
export interface PowerFit {
  node: string;
  from: string;
  to: string;
  step_seconds: number;
  family: string;
  protocol: string;
  score: { mape: number; rmse_watts: number; r2: number; worst_mape: number };
  baseline: { mape: number; rmse_watts: number; r2: number; worst_mape: number };
  band_coverage: number;
  band_low: number;
  band_high: number;
  base_watts: number;
  contributions: { feature: string; watts: number; low_watts: number; high_watts: number }[];
  points: { time: string; measured_watts: number; modelled_watts: number }[];
  candidates: { family: string; mape: Num; skipped: string }[];
  warnings: string[];
}
export interface FindingOwner {
  site?: string;
  owner: string;
  findings: number;
  severity: string;
  rules: string[];
  wasted_core_seconds: Num;
  wasted_gpu_seconds: Num;
  wasted_memory_byte_seconds: Num;
}
export interface FindingList {
  findings: Finding[];
  total: number;
  looked: string | null;
  owners?: FindingOwner[];
}
export interface MoveList {
  moves: {
    name: string;
    site: string;
    from: string;
    to_site?: string;
    to: string;
    rule: string;
    why: string;
    freed_core_hours?: number;
    freed_gpu_hours?: number;
    wait_here_seconds: Num;
    wait_there_seconds: Num;
    wait_there_runs: number;
    unknown: string[];
    text?: string;
  }[];
}
export interface Me {
  name: string;
  role: string;
  /** The Unix user of an administrator who did not sign in. */ login?: string;
  owners: string[];
}
/** One series of a Prometheus answer. */
export interface PromSeries {
  metric: Record<string, string>;
  values?: [number, string][];
  value?: [number, string];
}
