// The tour of a first visit, with the figures of this very site: a box in a corner that covers no answer and takes no focus.
import { useState } from "preact/hooks";
import { useAsk } from "../lib/api";
import { titleOf } from "../lib/names";
import { Name, Q } from "../lib/parts";
import { workloadLink } from "../lib/state";
import type { NodeList, WorkloadList } from "../lib/types";

export function Tour({ close }: { close: () => void }) {
  const [step, setStep] = useState(0);
  const nodes = useAsk<NodeList>("/api/reckon/v1/nodes"),
    top = useAsk<WorkloadList>("/api/reckon/v1/workloads?running=true&sort=-cpu_seconds&limit=1");
  const n = nodes.data?.nodes.find((x) => x.up),
    w = top.data?.workloads[0];
  const steps = [
    <p>
      reckon reports who used what.{" "}
      {n ? (
        <>
          Right now <Name>{n.node}</Name> uses <Q v={n.cores_used} unit="cores" /> of its{" "}
          <Q v={n.cores} unit="cores" /> cores and <Q v={n.memory_used_bytes} unit="bytes" /> of{" "}
          <Q v={n.memory_bytes} unit="bytes" /> of memory.
        </>
      ) : nodes.data?.nodes.length ? (
        "No node reports now."
      ) : (
        "The first figures are being measured."
      )}{" "}
      The page <b>Now</b> shows who uses it, what needs you, and how each node is.
    </p>,
    <p>
      Everything that runs belongs to a <b>workload</b>: a job, a pod, a service, a session.{" "}
      {w ? (
        <>
          {top.data!.total} of them run now; the one with the most CPU time is{" "}
          <Name href={workloadLink(w.id)}>{titleOf(w)}</Name> with{" "}
          <Q v={w.cpu_seconds} unit="core-time" />.
        </>
      ) : (
        ""
      )}
    </p>,
    <p>
      Press <kbd>/</kbd> to search: <code>owner:alice state:failed since:7d</code>. What you see can
      be sorted, shared by its address, and downloaded as CSV or JSON.
    </p>,
    <p>
      A workload's page begins with the <b>verdict</b>: did it use what it asked for, and what to
      ask for next time.
    </p>,
    <p>
      Point at a figure for its exact value, at a time for UTC. A dash (–) is <b>not measured</b>,
      never zero; <b>About</b> shows what is missing and how to get it. <kbd>?</kbd> shows all keys.
    </p>,
  ];
  const lastOne = step === steps.length - 1;
  return (
    <aside class="tour" aria-label="Welcome">
      <div class="head">
        <h2>
          Welcome ({step + 1} of {steps.length})
        </h2>
        <button onClick={close} aria-label="Close">
          ✕
        </button>
      </div>
      <div aria-live="polite">{steps[step]}</div>
      <p class="controls">
        <button onClick={close}>Skip</button>
        {step > 0 && <button onClick={() => setStep(step - 1)}>Back</button>}
        <button onClick={() => (lastOne ? close() : setStep(step + 1))}>
          {lastOne ? "Done" : "Next"}
        </button>
      </p>
    </aside>
  );
}
