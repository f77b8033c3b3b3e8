// The disks, network and FUSE file systems and interconnects of a node, as /api/reckon/v1/nodes/NODE/devices has them.
import { useAsk } from "./api";
import { Q, Section, Table, clean } from "./parts";
import { has } from "./state";

interface Disk {
  device: string;
  busy: number | null;
  waiting: number | null;
  waiting_threads?: number | null;
  read_bytes_per_second: number | null;
  write_bytes_per_second: number | null;
  read_seconds: number | null;
  write_seconds: number | null;
}
interface Mount {
  type: string;
  source: string;
  read_bytes_per_second: number | null;
  write_bytes_per_second: number | null;
  operations_per_second: number | null;
  metadata_operations_per_second: number | null;
  read_seconds: number | null;
  write_seconds: number | null;
  metadata_seconds: number | null;
}
interface Link {
  device: string;
  port?: string;
  layer: string;
  up: boolean | null;
  rate_bytes_per_second: number | null;
  receive_bytes_per_second: number | null;
  transmit_bytes_per_second: number | null;
}
interface Devices {
  disks: Disk[];
  mounts: Mount[];
  links: Link[];
}

/** Now: rates of the last two minutes. Nothing is drawn where a node has none of them. */
export function DevicesPanel({ node, site }: { node: string; site: string }) {
  const a = useAsk<Devices>(
      has("devices")
        ? `/api/reckon/v1/nodes/${encodeURIComponent(node)}/devices` +
            (site ? "?" + new URLSearchParams({ site }) : "")
        : null,
      true,
    ),
    d = a.data;
  if (!d || d.disks.length + d.mounts.length + d.links.length === 0) return null;
  return (
    <Section title="Devices, last two minutes">
      {d.disks.length > 0 && (
        <Table
          caption="Disks"
          rows={d.disks}
          keyOf={(x) => x.device}
          cols={[
            { title: "Disk", cell: (x) => <bdi>{clean(x.device)}</bdi> },
            { title: "Busy", number: true, cell: (x) => <Q v={x.busy} unit="ratio" /> },
            { title: "Waiting", number: true, cell: (x) => <Q v={x.waiting} unit="count" /> },
            {
              title: "Threads that wait",
              number: true,
              cell: (x) => <Q v={x.waiting_threads} unit="count" />,
            },
            {
              title: "Read",
              number: true,
              cell: (x) => <Q v={x.read_bytes_per_second} unit="bytes_per_second" />,
            },
            {
              title: "Written",
              number: true,
              cell: (x) => <Q v={x.write_bytes_per_second} unit="bytes_per_second" />,
            },
            {
              title: "A read takes",
              number: true,
              cell: (x) => <Q v={x.read_seconds} unit="seconds" />,
            },
            {
              title: "A write takes",
              number: true,
              cell: (x) => <Q v={x.write_seconds} unit="seconds" />,
            },
          ]}
        />
      )}
      {d.mounts.length > 0 && (
        <Table
          caption="Network and FUSE file systems"
          rows={d.mounts}
          keyOf={(x) => x.type + " " + x.source}
          cols={[
            { title: "File system", cell: (x) => clean(x.source) },
            { title: "Type", cell: (x) => clean(x.type) },
            {
              title: "Read",
              number: true,
              cell: (x) => <Q v={x.read_bytes_per_second} unit="bytes_per_second" />,
            },
            {
              title: "Written",
              number: true,
              cell: (x) => <Q v={x.write_bytes_per_second} unit="bytes_per_second" />,
            },
            {
              title: "Operations/s",
              number: true,
              cell: (x) => <Q v={x.operations_per_second} unit="count" />,
            },
            {
              title: "of them metadata",
              number: true,
              cell: (x) => <Q v={x.metadata_operations_per_second} unit="count" />,
            },
            {
              title: "A metadata operation takes",
              number: true,
              cell: (x) => <Q v={x.metadata_seconds} unit="seconds" />,
            },
          ]}
        />
      )}
      {d.links.length > 0 && (
        <Table
          caption="Interconnects"
          rows={d.links}
          keyOf={(x) => x.device + "/" + (x.port ?? "")}
          cols={[
            {
              title: "Port",
              cell: (x) => <bdi>{clean(x.device + (x.port ? "/" + x.port : ""))}</bdi>,
            },
            { title: "Link", cell: (x) => clean(x.layer) },
            { title: "State", cell: (x) => (x.up === null ? "–" : x.up ? "up" : "down") },
            {
              title: "Rate",
              number: true,
              cell: (x) => <Q v={x.rate_bytes_per_second} unit="bytes_per_second" />,
            },
            {
              title: "Received",
              number: true,
              cell: (x) => <Q v={x.receive_bytes_per_second} unit="bytes_per_second" />,
            },
            {
              title: "Sent",
              number: true,
              cell: (x) => <Q v={x.transmit_bytes_per_second} unit="bytes_per_second" />,
            },
          ]}
        />
      )}
    </Section>
  );
}
